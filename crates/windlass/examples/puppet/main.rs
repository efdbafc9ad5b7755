//! What tests of real processes kill, stop and wake: an instance of Windlass that does as it is told.
//! `puppet script FOLDER EFFECTS [FAULT]` plays the script of `kill_points` and dies where it is told to;
//! `puppet serve STORE NAME TARGET` is one of the two instances of `stopped_holder`.
#![expect(
    clippy::print_stdout,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test's other half; its lines are what it is for"
)]

#[expect(dead_code, reason = "what counts looks is for the process that comes after")]
#[path = "../../tests/it/kill_points/fault.rs"]
mod fault;
#[expect(dead_code, reason = "the process that comes after looks for the plan by its id")]
#[path = "../../tests/it/kill_points/script.rs"]
mod script;
mod serve;

use std::path::Path;

use windlass::engine::query::inbox::Kind;
use windlass::open::{StoreUrl, open};
use windlass::settings::Settings;

use fault::{Fault, Watched};

/// Ends soon after the process has.
const LEASE_MS: u64 = 300;

#[tokio::main(worker_threads = 2)]
async fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        ["script", folder, effects] => script(folder, Path::new(effects), None).await,
        ["script", folder, effects, fault] => script(folder, Path::new(effects), Some(fault.parse().unwrap())).await,
        ["serve", store, name, target] => serve::run(store, name, target).await,
        _ => panic!("usage: puppet script FOLDER EFFECTS [FAULT] | puppet serve STORE NAME TARGET"),
    }
}

async fn script(folder: &str, effects: &Path, fault: Option<Fault>) {
    let stores = open(&StoreUrl::Embedded(folder.into()), &Settings::default()).await.unwrap();
    let store = Watched::over(&stores, fault, |step| {
        for put in &step.tasks {
            println!("acknowledged {} {}", put.task.tenant, put.task.completed);
        }
    });
    let windlass = script::builder(&store, effects, LEASE_MS).start().await.unwrap();
    let plan = script::create(&windlass).await.unwrap();
    println!("created {plan}");
    script::see_through(&windlass, &plan, &[Kind::Approval, Kind::Failure]).await;
    println!("unharmed");
}
