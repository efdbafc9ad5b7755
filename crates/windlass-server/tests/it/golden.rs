//! What is promised to those who generate clients: the OpenAPI document does not change by accident.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::world::World;

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/openapi.json");

#[tokio::test]
async fn the_document_is_the_golden_file() {
    let world = World::new().await;
    let served = world.request(reqwest::Method::GET, "/openapi.json").send().await.unwrap().text().await.unwrap();
    let golden = std::fs::read_to_string(GOLDEN).unwrap_or_default();
    if served != golden {
        let made = format!("{}/openapi.json", env!("CARGO_TARGET_TMPDIR"));
        std::fs::write(&made, &served).unwrap();
        panic!("the OpenAPI document has changed; if that is meant: cp {made} {GOLDEN}");
    }
}

#[tokio::test]
async fn every_reference_in_the_document_leads_somewhere_and_every_name_is_one() {
    let world = World::new().await;
    let document = world.get("/openapi.json").await.ok();
    let mut references = Vec::new();
    collect(&document, &mut references);
    for reference in &references {
        let pointer = reference.strip_prefix('#').unwrap();
        assert!(document.pointer(pointer).is_some(), "{reference} leads nowhere");
    }
    let mut ids = BTreeSet::new();
    for route in windlass_server::router::routes() {
        assert!(ids.insert(route.id), "{} is twice", route.id);
    }
}

fn collect(value: &Value, to: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            if let Some(Value::String(reference)) = map.get("$ref") {
                to.push(reference.clone());
            }
            map.values().for_each(|value| collect(value, to));
        }
        Value::Array(list) => list.iter().for_each(|value| collect(value, to)),
        _ => {}
    }
}

#[tokio::test]
async fn the_page_lists_every_route_and_loads_nothing_from_elsewhere() {
    let world = World::new().await;
    let response = world.request(reqwest::Method::GET, "/docs").send().await.unwrap();
    assert!(response.headers()["content-security-policy"].to_str().unwrap().contains("default-src 'none'"));
    let page = response.text().await.unwrap();
    for route in windlass_server::router::routes() {
        assert!(page.contains(route.path), "{}", route.path);
    }
    for outside in ["http://", "https://", "src=", "<script", "@import", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
    let page = world.get("/docs/errors/WL-3001").await;
    assert!(page.status == 200 && page.body.as_str().unwrap().starts_with("# WL-3001"));
    world.get("/docs/errors/WL-0000").await.refused(404, "WL-3001");
}
