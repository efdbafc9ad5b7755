//! A proxy between us and a server that harms what goes through it: it cuts, resets, delays, swallows everything, cuts before a
//! request has left, or lets it through and cuts before its answer. It counts what it really harmed.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::watch;

/// How long a fault waits for something to harm.
const PATIENCE: Duration = Duration::from_millis(500);

/// What happens to a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    /// It ends, as if the server had closed it.
    Cut,
    /// It ends with a reset.
    Reset,
    /// Nothing passes for so long; then everything does.
    Delay(u64),
    /// Nothing passes for so long, new connections included; then those that are there end.
    BlackHole(u64),
    /// The next request reaches nobody.
    Lose,
    /// The next request reaches the server, and its answer nobody.
    Swallow,
}

impl Fault {
    pub(crate) const NAMES: [&'static str; 6] = ["cut", "reset", "delay", "black hole", "lose", "swallow"];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Fault::Cut => Fault::NAMES[0],
            Fault::Reset => Fault::NAMES[1],
            Fault::Delay(_) => Fault::NAMES[2],
            Fault::BlackHole(_) => Fault::NAMES[3],
            Fault::Lose => Fault::NAMES[4],
            Fault::Swallow => Fault::NAMES[5],
        }
    }
}

/// Where the server is.
#[derive(Debug, Clone)]
pub(crate) enum Upstream {
    Tcp(String),
    Unix(PathBuf),
}

/// What becomes of what a connection carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Open,
    Held,
    Loses,
    Swallows,
    Cut,
    Reset,
}

/// One connection.
struct Line {
    mode: watch::Sender<Mode>,
    /// Something was asked and not answered yet.
    asked: AtomicBool,
    /// A request went out while answers are swallowed.
    left: AtomicBool,
    /// Something was held back, lost or swallowed.
    hurt: AtomicBool,
}

/// The proxy; it ends with its runtime.
#[derive(Clone)]
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    inner: Arc<Inner>,
}

struct Inner {
    upstream: Upstream,
    lines: Mutex<Vec<Arc<Line>>>,
    /// How new connections begin.
    new: Mutex<Mode>,
    made: AtomicU32,
}

impl Proxy {
    pub(crate) async fn start(upstream: Upstream) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let new = Mutex::new(Mode::Open);
        let inner = Arc::new(Inner { upstream, lines: Mutex::default(), new, made: AtomicU32::new(0) });
        let proxy = Proxy { address, inner };
        let serves = proxy.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(serves.clone().serve(client));
            }
        });
        proxy
    }

    /// From now on whoever connects is let in and hears nothing, and nobody else is left; or all is well again.
    pub(crate) fn hole(&self, deep: bool) {
        *self.inner.new.lock().unwrap() = if deep { Mode::Held } else { Mode::Open };
        for line in self.inner.lines.lock().unwrap().iter() {
            line.mode.send_replace(Mode::Cut);
        }
    }

    /// From now on nothing passes, on no connection, and nobody hears of it.
    pub(crate) fn freeze(&self) {
        *self.inner.new.lock().unwrap() = Mode::Held;
        for line in self.inner.lines.lock().unwrap().iter() {
            line.mode.send_replace(Mode::Held);
        }
    }

    /// How many connections were made so far.
    pub(crate) fn made(&self) -> u32 {
        self.inner.made.load(Ordering::SeqCst)
    }

    async fn serve(self, client: TcpStream) {
        self.inner.made.fetch_add(1, Ordering::SeqCst);
        let mode = watch::Sender::new(*self.inner.new.lock().unwrap());
        let [asked, left, hurt] = [(); 3].map(|()| AtomicBool::new(false));
        let line = Arc::new(Line { mode, asked, left, hurt });
        self.inner.lines.lock().unwrap().push(Arc::clone(&line));
        // Whoever has gone in the meantime is seen to have when something is carried.
        drop(client.set_nodelay(true));
        // A server that resets or refuses is a thing that happens: whoever wanted to reach it finds the connection closed.
        let refused = |error: std::io::Error| println!("{:?}: {error}", self.inner.upstream);
        match &self.inner.upstream {
            Upstream::Tcp(address) => match TcpStream::connect(address).await {
                Ok(server) => line.carry(client, server).await,
                Err(error) => refused(error),
            },
            Upstream::Unix(path) => match UnixStream::connect(path).await {
                Ok(server) => line.carry(client, server).await,
                Err(error) => refused(error),
            },
        }
        self.inner.lines.lock().unwrap().retain(|other| !Arc::ptr_eq(other, &line));
    }

    /// Lets a fault happen to one connection, or to all of them; answers whether it harmed anything: what was asked and not
    /// answered was cut off, or something was held back, lost or swallowed.
    pub(crate) async fn strike(&self, fault: Fault, all: bool, dice: &mut fastrand::Rng) -> bool {
        let lines = self.victims(all, dice).await;
        let set = |mode: Mode| {
            for line in &lines {
                line.mode.send_replace(mode);
            }
        };
        let asked = lines.iter().any(|line| line.asked.load(Ordering::SeqCst));
        lines.iter().for_each(|line| line.hurt.store(false, Ordering::SeqCst));
        let hurt = || lines.iter().any(|line| line.hurt.load(Ordering::SeqCst));
        match fault {
            Fault::Cut => set(Mode::Cut),
            Fault::Reset => set(Mode::Reset),
            Fault::Delay(ms) => {
                set(Mode::Held);
                a_while(ms).await;
                set(Mode::Open);
            }
            Fault::BlackHole(ms) => {
                *self.inner.new.lock().unwrap() = Mode::Held;
                set(Mode::Held);
                a_while(ms).await;
                *self.inner.new.lock().unwrap() = Mode::Open;
                // Half of them get through late, after those who asked have given up; the others never do.
                let late = dice.bool();
                for line in self.inner.lines.lock().unwrap().iter() {
                    line.mode.send_if_modified(|mode| {
                        let held = *mode == Mode::Held;
                        if held {
                            *mode = if late { Mode::Open } else { Mode::Cut };
                        }
                        held
                    });
                }
            }
            Fault::Lose | Fault::Swallow => {
                set(if fault == Fault::Lose { Mode::Loses } else { Mode::Swallows });
                let harmed = async {
                    while !hurt() {
                        a_while(1).await;
                    }
                };
                drop(tokio::time::timeout(PATIENCE, harmed).await);
                let hit = hurt();
                set(Mode::Cut);
                return hit;
            }
        }
        match fault {
            Fault::Cut | Fault::Reset => asked,
            _ => hurt(),
        }
    }

    /// Whom it happens to: everybody, or one, if possible one that waits for an answer.
    async fn victims(&self, all: bool, dice: &mut fastrand::Rng) -> Vec<Arc<Line>> {
        let waits = |line: &Arc<Line>| line.asked.load(Ordering::SeqCst);
        for _ in 0..PATIENCE.as_millis() {
            let lines = self.inner.lines.lock().unwrap().clone();
            if lines.iter().any(waits) {
                return match all {
                    true => lines,
                    false => dice.choice(lines.into_iter().filter(waits).collect::<Vec<_>>()).into_iter().collect(),
                };
            }
            a_while(1).await;
        }
        self.inner.lines.lock().unwrap().clone()
    }
}

/// Time that a fault takes.
async fn a_while(ms: u64) {
    // sleep: a delay is what this fault is.
    tokio::time::sleep(Duration::from_millis(ms)).await;
}

impl Line {
    async fn carry<S: AsyncRead + AsyncWrite>(&self, client: TcpStream, server: S) {
        let (mut from_server, mut to_server) = tokio::io::split(server);
        let (mut from_client, mut to_client) = client.into_split();
        let there = async {
            let mut bytes = vec![0; 64 * 1024];
            loop {
                let read = from_client.read(&mut bytes).await;
                // Where nothing passes, the server does not hear that somebody has hung up.
                self.until_open().await;
                let Ok(n @ 1..) = read else { break };
                self.asked.store(true, Ordering::SeqCst);
                let mode = *self.mode.borrow();
                if mode == Mode::Loses {
                    self.hurt.store(true, Ordering::SeqCst);
                    self.mode.send_replace(Mode::Cut);
                    break;
                }
                let swallows = mode == Mode::Swallows;
                self.left.fetch_or(swallows, Ordering::SeqCst);
                if to_server.write_all(&bytes[..n]).await.is_err() {
                    break;
                }
            }
            // What was asked is carried out, whoever has gone.
            drop(to_server.shutdown().await);
        };
        let back = async {
            let mut bytes = vec![0; 64 * 1024];
            loop {
                let read = from_server.read(&mut bytes).await;
                // Nor does anybody hear that the server has.
                self.until_open().await;
                let Ok(n @ 1..) = read else { break };
                if self.left.load(Ordering::SeqCst) {
                    self.hurt.store(true, Ordering::SeqCst);
                    break;
                }
                self.asked.store(false, Ordering::SeqCst);
                if to_client.write_all(&bytes[..n]).await.is_err() {
                    break;
                }
            }
        };
        let mut modes = self.mode.subscribe();
        let ends = modes.wait_for(|mode| matches!(mode, Mode::Cut | Mode::Reset));
        let reset = tokio::select! {
            () = back => false,
            // Whoever asked has gone; the server says when it is done.
            () = async { there.await; std::future::pending::<()>().await } => false,
            mode = ends => mode.is_ok_and(|mode| *mode == Mode::Reset),
        };
        self.asked.store(false, Ordering::SeqCst);
        if let (true, Ok(client)) = (reset, from_client.reunite(to_client)) {
            drop(client.set_zero_linger());
        }
    }

    /// Waits as long as nothing passes.
    async fn until_open(&self) {
        let mut modes = self.mode.subscribe();
        if *modes.borrow_and_update() == Mode::Held {
            self.hurt.store(true, Ordering::SeqCst);
            drop(modes.wait_for(|mode| *mode != Mode::Held).await);
        }
    }
}
