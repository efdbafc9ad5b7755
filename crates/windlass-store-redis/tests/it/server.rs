//! A Redis server for tests: the one that `cargo xtask test` has started, or else one of this process, in a temporary
//! folder, that ends with it. A machine without Redis fails.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// Where the servers of the test run are: one syncs every second, one every write.
const VARIABLE: &str = "WINDLASS_TEST_REDIS";
const ALWAYS: &str = "WINDLASS_TEST_REDIS_ALWAYS";
/// What is about races and restarts is held where every write is synced.
const SYNCED: [&str; 3] = ["::race::", "::restart::", "::keep::"];

/// A part of the server with nothing in it.
pub(crate) struct Space {
    pub(crate) url: String,
    pub(crate) prefix: String,
}

/// Makes one.
pub(crate) fn space() -> Space {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let stamp = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_micros();
    let prefix = format!("t:{}:{stamp:x}:{}:", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    Space { url: url(), prefix }
}

/// The server's URL.
fn url() -> String {
    static SERVER: OnceLock<Server> = OnceLock::new();
    let thread = std::thread::current();
    let synced = SYNCED.iter().any(|theme| thread.name().is_some_and(|name| name.contains(theme)));
    let (variable, sync) = if synced { (ALWAYS, "always") } else { (VARIABLE, "everysec") };
    #[expect(clippy::disallowed_methods, reason = "how the test run tells its tests where its server is")]
    match std::env::var(variable) {
        Ok(url) => url,
        Err(_) => SERVER.get_or_init(|| Server::start(&["--appendonly", "yes", "--appendfsync", sync])).url(),
    }
}

/// Serves in `$1` until its standard input ends, which it does when this process does, however that ends; then everything
/// is removed. What follows are settings.
const SCRIPT: &str = r#"
folder=$1
shift
redis-server --dir "$folder" --bind 127.0.0.1 --save "" --daemonize no --pidfile "" "$@" >>"$folder/log" 2>&1 </dev/null &
echo $! >"$folder/pid"
cat >/dev/null
kill -9 $(cat "$folder/pid") 2>/dev/null
wait
[ -e "$folder/stays" ] || rm -rf "$folder"
"#;

/// A server of one's own.
pub(crate) struct Server {
    folder: PathBuf,
    port: u16,
    settings: Vec<String>,
    shells: Vec<Child>,
}

impl Server {
    /// Starts one with these settings.
    pub(crate) fn start(settings: &[&str]) -> Server {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        Server::on(port, settings)
    }

    fn on(port: u16, settings: &[&str]) -> Server {
        let folder = tempfile::Builder::new().prefix("windlass-redis-").tempdir().unwrap().keep();
        let settings = settings.iter().map(|setting| (*setting).to_owned()).collect();
        let mut server = Server { folder, port, settings, shells: Vec::new() };
        server.up();
        server
    }

    /// Starts one that speaks TLS only, and asks for a password.
    pub(crate) fn with_tls(settings: &[&str]) -> Server {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let own = port.to_string();
        let with = [settings, &["--port", "0", "--tls-port", &own, "--requirepass", "hunter2"]].concat();
        Server::on(port, &with)
    }

    /// Starts it on what is there.
    pub(crate) fn up(&mut self) {
        let _was_there = std::fs::remove_file(self.folder.join("stays"));
        let port = self.port.to_string();
        let mut shell = Command::new("sh");
        shell.args(["-c", SCRIPT, "sh"]).arg(&self.folder).args(&self.settings);
        if !self.settings.iter().any(|setting| setting == "--tls-port") {
            shell.args(["--port", &port]);
        }
        let mut shell = shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        while !self.answers() {
            let ended = shell.try_wait().unwrap();
            let log = std::fs::read_to_string(self.folder.join("log")).unwrap_or_default();
            assert!(ended.is_none() && !log.contains("not found"), "the server ended: {log}");
            std::thread::yield_now();
        }
        self.shells.push(shell);
    }

    /// Whether it takes commands; one that wants a password or TLS first is up too.
    fn answers(&self) -> bool {
        let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.port)) else { return false };
        if self.settings.iter().any(|setting| setting == "--tls-port") {
            return true;
        }
        let mut answer = [0; 64];
        stream.write_all(b"PING\r\n").is_ok()
            && stream
                .read(&mut answer)
                .is_ok_and(|n| answer[..n].starts_with(b"+PONG") || answer[..n].starts_with(b"-NOAUTH"))
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// The server ends at once, without a word; what it has written stays.
    pub(crate) fn crash(&mut self) {
        std::fs::write(self.folder.join("stays"), "").unwrap();
        let pid = std::fs::read_to_string(self.folder.join("pid")).unwrap();
        let pid = rustix::process::Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        self.end();
    }

    fn end(&mut self) {
        for mut shell in self.shells.drain(..) {
            drop(shell.stdin.take());
            shell.wait().unwrap();
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
        drop(std::fs::remove_dir_all(&self.folder));
    }
}
