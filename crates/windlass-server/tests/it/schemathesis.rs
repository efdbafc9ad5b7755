//! The document and the server agree: schemathesis makes requests from the one and judges the answers of the other.

use std::path::Path;
use std::process::Stdio;

use windlass_server::Limits;

use crate::world::{World, approvals};

/// Where `cargo xtask test` puts it.
fn program() -> std::path::PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("../schemathesis/bin/schemathesis")
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_made_from_the_document_are_answered_as_it_says() {
    // Nobody waits: a claim that waits a minute would be one of fifty.
    let world = World::with(None, Limits { waits: 0, ..Limits::default() }).await;
    world.plan(&approvals("p1", &["acme"]), "?start=true").await.ok();
    let program = program();
    assert!(program.exists(), "{} is missing: `cargo xtask test --only nextest` fetches it", program.display());
    let run = tokio::process::Command::new(&program)
        .args(["run", &world.url("/openapi.json"), "--max-examples", "50", "--workers", "4", "--no-color"])
        .args(["--seed", "1", "--generation-database", "none", "--phases", "examples,coverage,fuzzing"])
        .args(["--checks", CHECKS])
        // A stream does not end.
        .args(["--exclude-operation-id", "streamEvents"])
        .stdin(Stdio::null())
        .output()
        .await
        .unwrap();
    let said = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success(), "{said}\n{}", String::from_utf8_lossy(&run.stderr));
    world.get("/healthz").await.ok();
}

const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance,\
                      response_headers_conformance,unsupported_method";
