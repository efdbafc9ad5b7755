//! What tests of real processes kill, stop and wake: an instance of Windlass that does as it is told.
//! `puppet script NAME STORE EFFECTS first|next` plays a script of `kill_points`, from its beginning or after a crash, and dies
//! where `WINDLASS_FAULT` tells it to; `puppet serve STORE NAME TARGET` is one of the two instances of `stopped_holder`; `puppet
//! labor STORE` works and is killed by `kill_works`.
#![expect(
    clippy::print_stdout,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test's other half; its lines are what it is for"
)]

mod labor;
#[path = "../../tests/it/kill_points/person.rs"]
mod person;
#[path = "../../tests/it/kill_points/script.rs"]
mod script;
mod serve;
mod story;
#[expect(dead_code, reason = "what counts looks is for the process that comes after")]
#[path = "../../tests/it/kill_points/watch.rs"]
mod watch;

use std::path::Path;

use script::{ALL, Script, Stage};
use watch::Watched;
use windlass::engine::query::inbox::Kind;

/// Ends soon after the process has.
const LEASE_MS: u64 = 300;
/// Long enough for a process that must not take itself for dead, on a busy machine.
const NEXT_LEASE_MS: u64 = 900;
/// What waits when nobody has died.
const STEERING: &[Kind] = &[Kind::Approval, Kind::Failure, Kind::PausedTask, Kind::PausedPlan];

#[tokio::main(worker_threads = 2)]
async fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        ["script", name, store, effects, "first"] => play(named(name), store, Path::new(effects), true).await,
        ["script", name, store, effects, "next"] => play(named(name), store, Path::new(effects), false).await,
        ["serve", store, name, target] => serve::run(store, name, target).await,
        ["labor", store] => labor::run(store).await,
        _ => panic!("usage: puppet script NAME STORE EFFECTS first|next | serve STORE NAME TARGET | labor STORE"),
    }
}

fn named(name: &str) -> &'static Script {
    ALL.into_iter().find(|script| script.name == name).unwrap()
}

async fn play(script: &Script, store: &str, effects: &Path, first: bool) {
    let (_, stores) = Watched::over(&script::opened(store).await, |step| {
        for put in &step.tasks {
            println!("acknowledged {} {} {}", put.task.tenant, put.task.pass, put.task.completed);
        }
    });
    let (lease_ms, kinds) = if first { (LEASE_MS, STEERING) } else { (NEXT_LEASE_MS, person::RECOVERY) };
    let stage = Stage::set(stores, effects, lease_ms).await;
    let plan = script.create(&stage.windlass).await.unwrap();
    println!("created {plan}");
    if !first {
        person::until_the_dead_are_gone(&stage.windlass).await;
    }
    person::see_through(script, &stage, kinds).await;
    if first {
        story::check(script, &stage.windlass).await;
    }
    println!("unharmed");
}
