//! `windlass demo`: a server with something to look at. A store, the server, a service to change, a plan over twelve
//! tenants of which one fails and one waits for a person, a trigger and a worker.

mod target;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use clap::Args;
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use windlass_core::id::PlanId;
use windlass_core::json::Json;
use windlass_engine::Engine;
use windlass_engine::clock::SystemClock;
use windlass_engine::command::Caller;
use windlass_engine::job::worker::{Failed, Told};
use windlass_server::metrics::Metrics;
use windlass_server::{Server, Setup};

use crate::Windlass;
use crate::open::open;
use crate::settings::Settings;
use crate::up::measured;

/// The plan without its tasks.
const PLAN: &str = include_str!("demo/plan.yaml");
/// The plan's id.
pub(crate) const NAME: &str = "demo";
/// Whose work it is.
const TENANTS: [&str; 12] =
    ["alder", "birch", "cedar", "dogwood", "elm", "fern", "ginkgo", "hazel", "ivy", "juniper", "katsura", "linden"];
/// The tenant whose first attempt fails.
const BROKEN: &str = "fern";
/// The tenant that wants to be asked.
const CAREFUL: &str = "juniper";

/// `windlass demo`
#[derive(Args)]
pub struct Demo {
    /// Keep everything in this folder, and go on with what it has; a temporary one unless given.
    #[arg(long, value_name = "FOLDER")]
    dir: Option<PathBuf>,
    /// The store: postgres://… or redis://…, to see the same there; one in the folder unless given.
    #[arg(long, value_name = "URL")]
    store: Option<String>,
    /// The address and port to listen on; what the settings say unless given. Port 0 chooses one.
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
}

/// A demo that runs.
pub struct Running {
    windlass: Windlass,
    server: Server,
    /// The plan was made by this start.
    pub fresh: bool,
    /// Gone with the demo, if nobody gave a folder.
    _folder: Option<tempfile::TempDir>,
}

/// What a restart needs to know.
#[derive(Serialize, Deserialize)]
struct Kept {
    /// The plan's tasks name it.
    target: SocketAddr,
}

impl Running {
    /// Where it listens.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.server.address())
    }

    /// Lets stages reach their boundary, and ends.
    pub async fn stop(self) -> ExitCode {
        let stopped = self.windlass.stop().await;
        self.server.stop().await;
        crate::up::said(&stopped)
    }
}

/// Starts everything. The plan is begun only if the store has none.
pub async fn start(demo: Demo, mut settings: Settings) -> anyhow::Result<Running> {
    let (path, folder) = match demo.dir {
        Some(path) => (path, None),
        None => {
            let folder = tempfile::tempdir().context("no temporary folder")?;
            (folder.path().to_owned(), Some(folder))
        }
    };
    std::fs::create_dir_all(&path).with_context(|| format!("cannot make {}", path.display()))?;
    let target = open_target(&path).await?;
    let endpoint = format!("http://{}", target.local_addr()?);
    tokio::spawn(target::serve(target, path.join("target"), BROKEN));
    let listen = demo.listen.map_or_else(|| settings.server.address(), Ok)?;
    anyhow::ensure!(listen.ip().is_loopback(), "a demo listens on this machine only; `windlass up` is for others");
    settings.store.url = demo.store.unwrap_or_else(|| format!("embedded:{}", path.join("store").display()));
    // Short, so that what a kill interrupted is seen at once.
    (settings.engine.lease_ms, settings.engine.beat_ms) = (2_000, 500);
    let (limits, metrics) = (settings.server.limits(), Arc::new(Metrics::default()));
    let stores = open(&settings.store_url()?, &settings).await?;
    let windlass = Windlass::builder()
        .stores(measured(stores, &metrics))
        .settings(settings)
        .listen(listen)
        .worker("mail".parse()?, 4, send)
        .worker("report".parse()?, 1, report)
        .start()
        .await?;
    let (engine, queues) = (Engine::clone(&windlass), windlass.jobs().clone());
    let batches = windlass.stores().batches.clone();
    let setup = Setup { engine, queues, listen, keys: None, limits, clock: Arc::new(SystemClock), metrics, batches };
    let taken = |error| anyhow::anyhow!("{error}; --listen 127.0.0.1:0 chooses a port that is free");
    let server = Server::start(setup).await.map_err(taken)?;
    let fresh = fill(&windlass, &endpoint).await?;
    Ok(Running { windlass, server, fresh, _folder: folder })
}

/// The plan and the trigger, if they are not there.
async fn fill(windlass: &Windlass, endpoint: &str) -> anyhow::Result<bool> {
    let plan: PlanId = NAME.parse()?;
    let caller = Caller::new("demo".parse()?);
    if windlass.view_plan(&plan).await.is_ok() {
        return Ok(false);
    }
    windlass.submit(&plan_file(endpoint), &caller).await?;
    let spec = r#"{ "schedule": { "cron": "* * * * *", "zone": "UTC" }, "target": { "job": { "queue": "report" } } }"#;
    windlass.triggers()?.save(Some("every-minute".parse()?), serde_json::from_str(spec)?, &caller).await?;
    Ok(true)
}

fn plan_file(endpoint: &str) -> String {
    let task = |tenant: &&str| {
        let careful = if *tenant == CAREFUL { ", careful: true" } else { "" };
        let config = |version: u32| format!("{{ endpoint: \"{endpoint}\", version: {version}{careful} }}");
        format!("  - {{ tenant: {tenant}, config: {}, previous: {} }}\n", config(2), config(1))
    };
    let tasks: String = TENANTS.iter().map(task).collect();
    format!("{PLAN}{tasks}")
}

/// The same port as before, if there was one: the plan's tasks name it.
async fn open_target(folder: &Path) -> anyhow::Result<TcpListener> {
    let file = folder.join("demo.json");
    let kept = std::fs::read_to_string(&file).ok().and_then(|text| serde_json::from_str::<Kept>(&text).ok());
    let address = kept.map_or_else(|| SocketAddr::from(([127, 0, 0, 1], 0)), |kept| kept.target);
    let listener = TcpListener::bind(address).await;
    let listener = listener.with_context(|| format!("the service that the plan changes cannot listen on {address}"))?;
    let text = serde_json::to_string(&Kept { target: listener.local_addr()? })?;
    std::fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
    Ok(listener)
}

/// The worker of the queue `mail`.
async fn send(told: Told) -> Result<Json, Failed> {
    Ok(told.payload.unwrap_or_else(Json::null))
}

/// The worker of what the trigger submits.
async fn report(_: Told) -> Result<Json, Failed> {
    Ok(Json::null())
}

/// Ends when somebody says so.
pub(crate) async fn until_told() -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate()).context("SIGTERM cannot be heard")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("SIGINT cannot be heard")?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sample_is_a_plan_of_twelve_with_one_that_wants_to_be_asked() {
        let file = windlass_core::plan::file::Format::Yaml;
        let plan = windlass_core::plan::file::parse(&plan_file("http://127.0.0.1:1"), file).unwrap();
        assert_eq!(plan.tasks.len(), 12);
        assert!(TENANTS.contains(&BROKEN) && TENANTS.contains(&CAREFUL));
    }
}
