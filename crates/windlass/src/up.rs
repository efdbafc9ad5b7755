//! `windlass up`: the engine and the server over it, until somebody says stop.

#![expect(clippy::print_stderr, reason = "what was interrupted is said whatever the log is set to")]

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use clap::Args;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::broadcast::error::RecvError;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use windlass_core::event::Event;
use windlass_engine::bus::News;
use windlass_engine::clock::SystemClock;
use windlass_engine::{Engine, Stopped};
use windlass_server::metrics::Metrics;
use windlass_server::metrics::store::Measured;
use windlass_server::{Server, Setup};

use crate::Windlass;
use crate::open::{Stores, open};
use crate::settings::{LogFormat, Settings};

/// `windlass up`
#[derive(Args)]
pub struct Up {
    /// The store: embedded:PATH, postgres://…, mysql://…, redis://… or memory:; what the settings say unless given.
    #[arg(long, value_name = "URL")]
    store: Option<String>,
    /// The address and port to listen on; 127.0.0.1:7800 unless the settings say otherwise. Port 0 chooses one.
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
}

/// Serves until SIGTERM or SIGINT: 0 when everything reached its boundary, 4 when something was interrupted.
pub fn run(up: Up, mut settings: Settings) -> anyhow::Result<ExitCode> {
    if let Some(store) = up.store {
        settings.store.url = store;
    }
    let listen = up.listen.map_or_else(|| settings.server.address(), Ok)?;
    begin_log(&settings)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("no runtime")?;
    runtime.block_on(serve(settings, listen))
}

/// What was interrupted is worth a code of its own: whoever stopped it may want to look.
const INTERRUPTED: u8 = 4;

async fn serve(settings: Settings, listen: SocketAddr) -> anyhow::Result<ExitCode> {
    let mut terminate = signal(SignalKind::terminate()).context("SIGTERM cannot be heard")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("SIGINT cannot be heard")?;
    let url = settings.store_url()?;
    #[expect(clippy::disallowed_methods, reason = "programs and secrets of stages come from the environment")]
    let environment =
        std::env::vars_os().filter_map(|(name, text)| Some((name.into_string().ok()?, text.into_string().ok()?)));
    let (keys, limits) = (settings.server.keys_file(), settings.server.limits());
    let metrics = Arc::new(Metrics::default());
    let windlass = Windlass::builder()
        .stores(measured(open(&url, &settings).await?, &metrics))
        .environment(environment.collect())
        .listen(listen)
        .settings(settings)
        .start()
        .await?;
    tokio::spawn(narrate(windlass.subscribe()));
    let setup = Setup {
        engine: Engine::clone(&windlass),
        queues: windlass.jobs().clone(),
        listen,
        keys,
        limits,
        clock: Arc::new(SystemClock),
        metrics,
        batches: windlass.stores().batches.clone(),
    };
    let server = match Server::start(setup).await {
        Ok(server) => server,
        Err(error) => {
            windlass.stop().await;
            return Err(error.into());
        }
    };
    let (address, keys) = (server.address(), server.has_keys());
    tracing::info!(%address, store = %url, instance = %windlass.instance(), keys, "windlass is up");
    let why = tokio::select! {
        _ = terminate.recv() => "SIGTERM",
        _ = interrupt.recv() => "SIGINT",
    };
    tracing::info!(
        why,
        running = windlass.running(),
        "stopping: stages go on to their boundary; once more ends at once"
    );
    // What gives up at its boundary, or in a pause of its stage, says so.
    let mut news = windlass.subscribe();
    let mut stopped = tokio::select! { biased;
        stopped = windlass.stop() => stopped,
        _ = terminate.recv() => cut_off(&windlass),
        _ = interrupt.recv() => cut_off(&windlass),
    };
    while let Ok(news) = news.try_recv() {
        match news {
            News::TaskInterrupted { task, .. } if !stopped.interrupted.contains(&task) => {
                stopped.interrupted.push(task)
            }
            _ => {}
        }
    }
    server.stop().await;
    Ok(said(&stopped))
}

/// The same stores, with what they take and what they fail at counted.
pub(crate) fn measured(stores: Stores, metrics: &Arc<Metrics>) -> Stores {
    Stores {
        state: Arc::new(Measured::new(stores.state, metrics)),
        locks: Arc::new(Measured::new(stores.locks, metrics)),
        jobs: Arc::new(Measured::new(stores.jobs, metrics)),
        triggers: Arc::new(Measured::new(stores.triggers, metrics)),
        batches: stores.batches,
    }
}

/// Nobody wants to wait any more.
fn cut_off(windlass: &Windlass) -> Stopped {
    windlass.kill();
    Stopped { interrupted: windlass.running_tasks() }
}

pub(crate) fn said(stopped: &Stopped) -> ExitCode {
    if stopped.interrupted.is_empty() {
        tracing::info!("stopped; nothing was interrupted");
        return ExitCode::SUCCESS;
    }
    eprintln!("windlass: stopped; these tasks had begun and are interrupted:");
    for task in &stopped.interrupted {
        eprintln!("  task {task}");
    }
    eprintln!("They are in the inbox when an instance is up again: windlass inbox");
    ExitCode::from(INTERRUPTED)
}

fn begin_log(settings: &Settings) -> anyhow::Result<()> {
    let filter = &settings.log.filter;
    let filter: Targets = filter.parse().with_context(|| format!("WL-4021 [log] filter is {filter:?}"))?;
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_target(false);
    let log = tracing_subscriber::registry().with(filter);
    let begun = match settings.log.format {
        LogFormat::Text => log.with(lines.with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()))).try_init(),
        LogFormat::Json => log.with(lines.json().flatten_event(true)).try_init(),
    };
    begun.map_err(|why| anyhow::anyhow!("the log cannot begin: {why}"))
}

/// What happens, line by line: stages at the level debug, everything else at info.
async fn narrate(mut news: tokio::sync::broadcast::Receiver<News>) {
    loop {
        match news.recv().await {
            Ok(News::Event { event, durable }) => tell(&event, durable),
            Ok(News::TaskLost { task, why }) => tracing::warn!(%task, why, "the task is somebody else's now"),
            Ok(News::TaskInterrupted { plan, task }) => tracing::warn!(%plan, %task, "interrupted: nobody runs it"),
            // The engine says these itself.
            Ok(News::TaskProgress { .. } | News::StoreDegraded { .. } | News::StoreRestored) => {}
            Err(RecvError::Lagged(n)) => tracing::warn!(n, "the log fell behind and left events out"),
            Err(RecvError::Closed) => return,
        }
    }
}

fn tell(event: &Event, durable: bool) {
    let name = event.fact.name();
    let Event { plan, task, tenant, by, reason, .. } = event;
    let (task, tenant) = (task.as_ref().map(|id| id.as_str()), tenant.as_ref().map(|id| id.as_str()));
    let (by, reason) = (by.as_ref().map(|by| by.as_str()), reason.as_ref().map(|reason| reason.as_str()));
    match name.starts_with("Stage") {
        true => tracing::debug!(%plan, task, tenant, by, reason, durable, "{name}"),
        false => tracing::info!(%plan, task, tenant, by, reason, durable, "{name}"),
    }
}
