//! A PostgreSQL server for tests: the one that `cargo xtask test` has started, or else one of this
//! process, in a temporary folder, that ends with it. A machine without PostgreSQL fails.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// Where the server of the test run is.
const VARIABLE: &str = "WINDLASS_TEST_POSTGRES";

/// An empty schema of its own.
pub(crate) struct Schema {
    /// A store's URL, with this schema as its search path.
    pub(crate) url: String,
}

/// Makes one.
pub(crate) async fn schema() -> Schema {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let base = url();
    let name = format!("t_{}_{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    execute(&base, &format!("DROP SCHEMA IF EXISTS {name} CASCADE; CREATE SCHEMA {name}")).await;
    Schema { url: format!("{base}&options=-csearch_path%3D{name}") }
}

/// Runs statements as somebody with psql would.
pub(crate) async fn execute(url: &str, sql: &str) {
    client(url).await.batch_execute(sql).await.unwrap();
}

/// A plain client.
pub(crate) async fn client(url: &str) -> tokio_postgres::Client {
    let (client, driver) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(driver);
    client
}

/// The server's URL, with a query part that may be added to.
pub(crate) fn url() -> String {
    static SERVER: OnceLock<Server> = OnceLock::new();
    #[expect(clippy::disallowed_methods, reason = "how the test run tells its tests where its server is")]
    match std::env::var(VARIABLE) {
        Ok(url) => url,
        Err(_) => SERVER.get_or_init(Server::start).url(),
    }
}

/// A server of one's own.
pub(crate) struct Server {
    folder: tempfile::TempDir,
    child: Option<Child>,
}

impl Server {
    /// Makes a database cluster and starts a server on it.
    pub(crate) fn start() -> Server {
        let folder = tempfile::Builder::new().prefix("windlass-pg-").tempdir().unwrap();
        if is_root() {
            run(Command::new("chown").arg("postgres").arg(folder.path()));
        }
        let data = folder.path().join("data");
        run(command("initdb").args(["-A", "trust", "-U", "postgres", "-E", "UTF8", "--no-locale", "-D"]).arg(&data));
        let mut server = Server { folder, child: None };
        server.up();
        server
    }

    /// Starts it on what is there.
    pub(crate) fn up(&mut self) {
        let mut postgres = command("postgres");
        postgres.arg("-D").arg(self.folder.path().join("data")).arg("-k").arg(self.folder.path());
        postgres.args(["-c", "listen_addresses=", "-c", "max_connections=300", "-c", "logging_collector=off"]);
        // It ends when this process does, however that ends: its standard input is our pipe's other end only in
        // name, so the shell that holds the pipe waits for the end of file and stops it.
        self.child = Some(postgres.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
        let ready = || {
            let mut ready = Command::new(tool("pg_isready"));
            let status = ready.arg("-q").arg("-h").arg(self.folder.path()).status();
            status.is_ok_and(|status| status.success())
        };
        while !ready() {
            let ended = self.child.as_mut().and_then(|child| child.try_wait().unwrap());
            assert!(ended.is_none(), "the server ended: {ended:?}");
            std::thread::yield_now();
        }
    }

    /// `kill -9`, and everybody it started.
    pub(crate) fn kill(&mut self) {
        signal(&self.folder.path().join("data"), "immediate");
        if let Some(mut child) = self.child.take() {
            child.wait().unwrap();
        }
    }

    /// See [`url`].
    pub(crate) fn url(&self) -> String {
        let host = self.folder.path().display().to_string().replace('/', "%2F");
        format!("postgres://postgres@{host}/postgres?connect_timeout=10")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

fn signal(data: &Path, mode: &str) {
    run(command("pg_ctl").args(["stop", "-m", mode, "-D"]).arg(data));
}

/// initdb and postgres refuse to run as root: then they run as the user of the package.
fn command(name: &str) -> Command {
    match is_root() {
        true => {
            let mut command = Command::new("runuser");
            command.args(["-u", "postgres", "--"]).arg(tool(name));
            command
        }
        false => Command::new(tool(name)),
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// On the PATH, or where Debian keeps servers of several versions: the newest.
fn tool(name: &str) -> PathBuf {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let found = versions.map(|version| version.path().join("bin").join(name)).filter(|path| path.exists());
    found.max().unwrap_or_else(|| name.into())
}

fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}
