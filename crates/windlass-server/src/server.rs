//! Listening: connections are accepted up to a bound, each speaks HTTP/1.1 with a bound on how long its head may take,
//! and a stop lets what is being answered end.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use windlass_core::by::{BadText, By};
use windlass_core::port::Batches;
use windlass_engine::Engine;
use windlass_engine::clock::Clock;
use windlass_engine::job::Queues;

use crate::auth::keys::{Keys, KeysError};
use crate::auth::{Door, Who};
use crate::metrics::{self, Metrics};
use crate::options::Limits;
use crate::patient::Patient;
use crate::router;

/// How often the keys file is looked at.
const KEYS_EVERY: Duration = Duration::from_secs(1);
/// How long to wait before accepting again when the system has no room for another connection.
const FULL: Duration = Duration::from_millis(50);

/// What a server is made of.
pub struct Setup {
    /// What it is a face of.
    pub engine: Engine,
    /// Its jobs.
    pub queues: Queues,
    /// Where to listen.
    pub listen: SocketAddr,
    /// The file of API keys. Without it, or while it has none, only loopback is served.
    pub keys: Option<PathBuf>,
    /// Bounds.
    pub limits: Limits,
    /// What keys expire by.
    pub clock: Arc<dyn Clock>,
    /// Where figures are kept: the one that measures its stores, if they are.
    pub metrics: Arc<Metrics>,
    /// What its store writes at once, if it can say.
    pub batches: Option<Arc<Batches>>,
}

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Nobody may be trusted, and somebody could come.
    #[error(
        "WL-6030 {0} can be reached from other machines, and there are no API keys; make one with `windlass key create`, \
         or listen on 127.0.0.1"
    )]
    NoKeys(SocketAddr),
    /// The keys file.
    #[error(transparent)]
    Keys(#[from] KeysError),
    /// The address.
    #[error("WL-6034 cannot listen on {address}: {why}")]
    Listen {
        /// Which.
        address: SocketAddr,
        /// What the system says.
        why: std::io::Error,
    },
    /// A name.
    #[error(transparent)]
    Name(#[from] BadText),
}

/// What every request shares.
pub(crate) struct Shared {
    pub(crate) engine: Engine,
    pub(crate) queues: Queues,
    pub(crate) door: Door,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) limits: Limits,
    /// How whoever gives no name is written down.
    pub(crate) anonymous: By,
    pub(crate) streams: Arc<Semaphore>,
    pub(crate) waits: Arc<Semaphore>,
    pub(crate) connections: Arc<Semaphore>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) batches: Option<Arc<Batches>>,
    /// `true` once the server stops: streams end, waits answer what there is.
    pub(crate) stopping: watch::Sender<bool>,
}

impl Shared {
    /// Ends when the server stops.
    pub(crate) async fn stopped(&self) {
        // The sender is here, so it cannot be gone.
        drop(self.stopping.subscribe().wait_for(|stopping| *stopping).await);
    }
}

/// A server that listens.
pub struct Server {
    shared: Arc<Shared>,
    address: SocketAddr,
    accepting: tokio::task::JoinHandle<()>,
}

impl Server {
    /// Listens, and serves until it is stopped.
    pub async fn start(setup: Setup) -> Result<Server, ServeError> {
        let Setup { engine, queues, listen, keys, limits, clock, metrics, batches } = setup;
        let keys = keys.map(Keys::open).transpose()?;
        // A server with keys does not open its doors when the last one is revoked, and one without does not look for some.
        let door = match keys.filter(|keys| !keys.is_empty()) {
            Some(keys) => Door::Keys(keys),
            None if listen.ip().is_loopback() => Door::Open(Arc::new(Who::anybody_here())),
            None => return Err(ServeError::NoKeys(listen)),
        };
        let cannot = |why| ServeError::Listen { address: listen, why };
        let listener = TcpListener::bind(listen).await.map_err(cannot)?;
        let address = listener.local_addr().map_err(cannot)?;
        let shared = Arc::new(Shared {
            engine,
            queues,
            door,
            clock,
            anonymous: "anonymous".parse()?,
            streams: Arc::new(Semaphore::new(limits.streams)),
            waits: Arc::new(Semaphore::new(limits.waits)),
            connections: Arc::new(Semaphore::new(limits.connections)),
            metrics,
            batches,
            stopping: watch::Sender::new(false),
            limits,
        });
        tokio::spawn(metrics::observe(Arc::clone(&shared.metrics), shared.engine.subscribe()));
        let accepting = tokio::spawn(accept(listener, Arc::clone(&shared)));
        tokio::spawn(watch_keys(Arc::clone(&shared)));
        Ok(Server { shared, address, accepting })
    }

    /// Where it listens: the port that was chosen, if any was asked for.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether requests need an API key.
    #[must_use]
    pub fn has_keys(&self) -> bool {
        matches!(self.shared.door, Door::Keys(_))
    }

    /// Accepts nobody any more, and lets what is being answered end within the time that is set.
    pub async fn stop(self) {
        self.shared.stopping.send_replace(true);
        self.accepting.abort();
        let all = u32::try_from(self.shared.limits.connections).unwrap_or(u32::MAX);
        drop(tokio::time::timeout(self.shared.limits.drain, self.shared.connections.acquire_many(all)).await);
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let service = router::build(&shared);
    loop {
        let Ok(place) = Arc::clone(&shared.connections).acquire_owned().await else { return };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "a connection cannot be accepted");
                tokio::time::sleep(FULL).await;
                continue;
            }
        };
        let (shared, service) = (Arc::clone(&shared), service.clone());
        tokio::spawn(async move {
            serve(stream, service, &shared).await;
            drop(place);
        });
    }
}

async fn serve(stream: TcpStream, service: Router, shared: &Shared) {
    // Answers are small and wait for nothing.
    drop(stream.set_nodelay(true));
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(shared.limits.head).max_buf_size(64 << 10);
    let stream = Patient::new(stream, shared.limits.write, Arc::clone(&shared.metrics));
    let connection = http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! { biased;
        ended = connection.as_mut() => ended,
        () = shared.stopped() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended early");
    }
}

/// Reads the keys file again when it has changed. One that cannot be read leaves what was known.
async fn watch_keys(shared: Arc<Shared>) {
    let Door::Keys(keys) = &shared.door else { return };
    loop {
        tokio::select! { biased;
            () = shared.stopped() => return,
            () = tokio::time::sleep(KEYS_EVERY) => {}
        }
        match keys.read_again() {
            Ok(true) => tracing::info!("the keys file was read again"),
            Ok(false) => {}
            Err(error) => tracing::warn!(%error, "the keys file cannot be read; the keys stay as they were"),
        }
    }
}
