//! Every route with every role and with another tenant's key, from the table of routes itself.

use std::collections::BTreeSet;
use std::path::Path;

use reqwest::Method;
use serde_json::{Value, json};
use windlass_core::time::Ms;
use windlass_engine::clock::{Clock as _, SystemClock};
use windlass_server::auth::keys::{self, NewKey};
use windlass_server::auth::{Need, Role};
use windlass_server::metrics::Metrics;
use windlass_server::router::{Route, routes};
use windlass_server::{Limits, ServeError, Server, Setup};

use crate::world::{Got, World, approvals, engine};

fn key(file: &Path, name: &str, role: Role, tenants: &[&str], expires: Option<Ms>) -> String {
    let tenants = tenants.iter().map(|tenant| tenant.parse().unwrap()).collect();
    let new = NewKey { name: name.parse().unwrap(), role, tenants, queues: BTreeSet::new(), expires };
    keys::create(file, new, Ms::ZERO).unwrap()
}

struct Keyed {
    world: World,
    roles: Vec<(Role, String)>,
    file: std::path::PathBuf,
    _folder: tempfile::TempDir,
}

async fn keyed() -> Keyed {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys.toml");
    let roles = Role::ALL.map(|role| (role, key(&file, role.name(), role, &[], None))).to_vec();
    let world = World::with(Some(file.clone()), Limits::default()).await;
    Keyed { world, roles, file, _folder: folder }
}

impl Keyed {
    async fn ask(&self, key: Option<&str>, route: &Route, names: &dyn Fn(&str) -> String) -> Got {
        let mut path = route.path.to_owned();
        for part in route.parts() {
            path = path.replace(&format!("{{{part}}}"), &names(part));
        }
        let mut request = self.world.http.request(route.method.clone(), self.world.url(&path));
        if let Some(key) = key {
            request = request.bearer_auth(key);
        }
        if route.path == "/v1/events" {
            let response = request.send().await.unwrap();
            let status = response.status().as_u16();
            if status == 200 {
                // A stream does not end.
                return Got { status, kind: String::new(), body: Value::Null };
            }
            return Got { status, kind: "application/problem+json".to_owned(), body: response.json().await.unwrap() };
        }
        if route.method != Method::GET {
            request = request.json(&body(route));
        }
        self.world.send(request).await
    }
}

/// Something that the route takes.
fn body(route: &Route) -> Value {
    let plan =
        json!({"plan": "p", "stages": [{"name": "s", "sleep": "1ms"}], "tasks": [{"tenant": "bolt", "config": {}}]});
    match route.id {
        "createPlan" => plan,
        "submitJobs" => json!({"queue": "q", "tenant": "bolt"}),
        "cancelJobs" | "requeueJobs" => json!({"filter": {"tenant": "bolt"}}),
        "claim" => json!({"worker": "w", "max": 1, "queues": ["q"]}),
        "claimFromQueue" => json!({"worker": "w", "max": 1}),
        "createTrigger" | "saveTrigger" => {
            json!({"schedule": {"every": "1d"}, "target": {"job": {"queue": "q"}}, "tenant": "bolt"})
        }
        "previewTrigger" => json!({"schedule": {"every": "1d"}}),
        _ => json!({}),
    }
}

fn nothing(part: &str) -> String {
    match part {
        "job" => "550e8400-e29b-41d4-a716-446655440000".to_owned(),
        "code" => "WL-3001".to_owned(),
        _ => "nothing".to_owned(),
    }
}

#[tokio::test]
async fn every_route_is_closed_without_a_key_and_to_roles_that_lack_it() {
    let keyed = keyed().await;
    for route in routes() {
        let bare = keyed.ask(None, route, &nothing).await;
        match route.need {
            Need::Public => assert!(bare.status < 400 || bare.status == 503, "{} {bare:?}", route.id),
            _ => drop(bare.refused(401, "WL-6020")),
        }
        for (role, key) in &keyed.roles {
            let got = keyed.ask(Some(key), route, &nothing).await;
            let closed = got.status == 403 && got.body["code"] == "WL-6023";
            assert_eq!(closed, !route.need.is_met(*role), "{} {role:?}: {got:?}", route.id);
            assert!(got.status < 500, "{} {role:?}: {got:?}", route.id);
        }
    }
}

/// What each role may, written down once more and by hand: a change of the table is a change here.
#[test]
fn the_roles_are_what_they_are_said_to_be() {
    let count = |role: Role| routes().iter().filter(|route| route.need.is_met(role)).count();
    let of = |role: Role, id: &str| routes().iter().find(|route| route.id == id).unwrap().need.is_met(role);
    assert_eq!(count(Role::Admin), routes().len());
    for id in ["createPlan", "retryTask", "submitJobs", "freezeTenant", "fireTrigger", "setQueueLimits"] {
        assert!(of(Role::Operator, id) && !of(Role::Viewer, id) && !of(Role::Worker, id), "{id}");
    }
    for id in ["releaseTenantLock", "setTenantLimits"] {
        assert!(!of(Role::Operator, id) && of(Role::Admin, id), "{id}");
    }
    for id in ["claim", "claimFromQueue"] {
        assert!(of(Role::Worker, id) && !of(Role::Operator, id) && !of(Role::Viewer, id), "{id}");
    }
    assert!(of(Role::Worker, "getJob") && !of(Role::Worker, "listJobs") && !of(Role::Worker, "getPlan"));
    let changes = |route: &&Route| route.method != Method::GET && route.id != "previewTrigger";
    assert!(routes().iter().filter(changes).all(|route| !route.need.is_met(Role::Viewer)));
}

#[tokio::test]
async fn another_tenants_key_sees_and_touches_nothing() {
    let mut keyed = keyed().await;
    let admin = keyed.roles.iter().find(|(role, _)| *role == Role::Admin).unwrap().1.clone();
    keyed.world.key = Some(admin);
    let world = &keyed.world;
    world.plan(&approvals("secret-plan", &["bolt"]), "?start=true").await.ok();
    world.get("/v1/plans/secret-plan?wait=20s").await.ok();
    let job = world.post("/v1/jobs", json!({"queue": "secret-queue", "tenant": "bolt"})).await.ok()["id"].clone();
    let trigger = json!({"schedule": {"every": "1d"}, "target": {"job": {"queue": "secret-queue"}}, "tenant": "bolt"});
    world.put("/v1/triggers/secret-trigger", trigger).await.ok();
    let names = |part: &str| match part {
        "plan" => "secret-plan".to_owned(),
        "task" => "secret-plan-0".to_owned(),
        "tenant" => "bolt".to_owned(),
        "job" => job.as_str().unwrap().to_owned(),
        "trigger" => "secret-trigger".to_owned(),
        "queue" => "secret-queue".to_owned(),
        other => nothing(other),
    };
    let before = keyed.snapshot().await;
    for role in Role::ALL {
        let other = key(&keyed.file, &format!("other-{}", role.name()), role, &["acme"], None);
        keyed.until_known(&other).await;
        for route in routes().iter().filter(|route| route.need != Need::Public) {
            let got = keyed.ask(Some(&other), route, &names).await;
            let text = got.body.to_string();
            let told = ["secret-plan-0", "secret-trigger", "bolt", "secret-queue"]
                .into_iter()
                .filter(|word| text.contains(word));
            // A refusal may repeat what was asked for, and nothing else.
            let told: Vec<_> = told.filter(|word| !route.parts().any(|part| names(part).contains(word))).collect();
            let asked = route.id == "createPlan" || route.id == "submitJobs" || route.id.ends_with("Trigger");
            assert!(told.is_empty() || (asked && got.status >= 400), "{} {role:?} tells {told:?}: {got:?}", route.id);
            if route.parts().next().is_some() {
                assert!(matches!(got.status, 403 | 404), "{} {role:?}: {got:?}", route.id);
            }
            // What is there and what is not are answered alike.
            if got.status == 404 {
                let absent = keyed.ask(Some(&other), route, &nothing).await;
                assert_eq!((absent.status, &absent.body["code"]), (404, &got.body["code"]), "{} {role:?}", route.id);
            }
        }
    }
    assert_eq!(keyed.snapshot().await, before, "something was changed");
}

impl Keyed {
    /// Everything there is of the tenant.
    async fn snapshot(&self) -> Vec<Value> {
        let mut all = Vec::new();
        for path in [
            "/v1/plans",
            "/v1/tasks",
            "/v1/jobs",
            "/v1/triggers",
            "/v1/tenants/bolt/lock",
            "/v1/tenants/bolt/limits",
            "/v1/queues/secret-queue/limits",
        ] {
            let mut got = self.world.get(path).await.ok();
            if let Some(items) = got["items"].as_array_mut() {
                items.sort_by_key(|item| item.to_string());
            }
            all.push(got);
        }
        all
    }

    /// The server reads the file again within a moment.
    async fn until_known(&self, key: &str) {
        let known = async {
            while self.world.http.get(self.world.url("/v1/whoami")).bearer_auth(key).send().await.unwrap().status()
                != 200
            {
                // sleep: the server looks at the file by its own clock.
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(std::time::Duration::from_secs(20), known).await.expect("the key is known");
    }
}

#[tokio::test]
async fn a_tenants_key_sees_of_a_plan_its_own_tasks_only() {
    let mut keyed = keyed().await;
    let admin = keyed.roles.iter().find(|(role, _)| *role == Role::Admin).unwrap().1.clone();
    let own = key(&keyed.file, "acme-ops", Role::Operator, &["acme"], None);
    keyed.until_known(&own).await;
    keyed.world.key = Some(admin);
    keyed.world.plan(&approvals("shared", &["acme", "bolt"]), "?start=true").await.ok();
    keyed.world.get("/v1/plans/shared?wait=20s").await.ok();
    keyed.world.key = Some(own);
    let world = &keyed.world;
    let plan = world.get("/v1/plans/shared").await.ok();
    assert_eq!((plan["tasks"].as_u64(), plan["tally"]["PAUSED"].as_u64()), (Some(1), Some(1)));
    let tasks = world.get("/v1/plans/shared/tasks").await.ok();
    assert_eq!(tasks["items"].as_array().unwrap().len(), 1);
    for path in ["/v1/plans", "/v1/plans/shared/history", "/v1/plans/shared/why", "/v1/inbox", "/v1/tasks", "/v1/locks"]
    {
        let text = world.get(path).await.ok().to_string();
        assert!(!text.contains("bolt") && !text.contains("\"tasks\":2"), "{path}: {text}");
    }
    world.get("/v1/tasks/shared-1").await.refused(404, "WL-3001");
    world.post("/v1/plans/shared/cancel", json!({})).await.refused(403, "WL-6024");
    // The key's name is who did it, whatever the body says.
    world.post("/v1/tasks/shared-0/approve", json!({"by": "somebody else"})).await.ok();
    let history = world.get("/v1/tasks/shared-0/history").await.ok();
    let approved = history["items"].as_array().unwrap().iter().find(|event| event["type"] == "Approved").unwrap();
    assert_eq!(approved["by"], "acme-ops");
    world.post("/v1/jobs", json!({"queue": "q"})).await.refused(403, "WL-6024");
    world.post("/v1/jobs", json!({"queue": "q", "tenant": "acme"})).await.ok();
}

#[tokio::test]
async fn keys_that_are_wrong_or_expired_open_nothing() {
    let mut keyed = keyed().await;
    let soon = SystemClock.now();
    let old = key(&keyed.file, "old", Role::Admin, &[], Some(soon));
    let fresh = key(&keyed.file, "fresh", Role::Admin, &[], None);
    keyed.until_known(&fresh).await;
    keyed.world.key = Some(old);
    keyed.world.get("/v1/plans").await.refused(401, "WL-6022");
    keyed.world.key = Some(format!("{fresh}x"));
    keyed.world.get("/v1/plans").await.refused(401, "WL-6021");
    keyed.world.key = None;
    keyed.world.get("/v1/plans").await.refused(401, "WL-6020");
    let request = keyed.world.request(Method::GET, "/v1/plans").header("authorization", "Basic eDp5");
    keyed.world.send(request).await.refused(401, "WL-6021");
}

#[tokio::test]
async fn without_keys_only_loopback_is_served() {
    let metrics = std::sync::Arc::new(Metrics::default());
    let (engine, queues) = engine(&metrics).await;
    let folder = tempfile::tempdir().unwrap();
    let setup = |keys| Setup {
        engine: engine.clone(),
        queues: queues.clone(),
        listen: "0.0.0.0:0".parse().unwrap(),
        keys,
        limits: Limits::default(),
        clock: std::sync::Arc::new(SystemClock),
        metrics: std::sync::Arc::clone(&metrics),
        batches: None,
    };
    assert!(matches!(Server::start(setup(None)).await, Err(ServeError::NoKeys(_))));
    let file = folder.path().join("keys.toml");
    assert!(matches!(Server::start(setup(Some(file.clone()))).await, Err(ServeError::NoKeys(_))), "no key is no key");
    key(&file, "ann", Role::Admin, &[], None);
    Server::start(setup(Some(file))).await.unwrap().stop().await;
}
