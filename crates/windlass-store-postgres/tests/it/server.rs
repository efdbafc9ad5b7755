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
    // What a crash of the server takes is for `outage.rs`, with a server of its own: here nobody waits for the disk.
    Schema { url: format!("{base}&options=-csearch_path%3D{name}%20-csynchronous_commit%3Doff") }
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

/// Serves `$2/data` until its standard input ends, which it does when this process does, however that ends; then
/// everything is removed. `$1` is the program; what follows are settings.
const SCRIPT: &str = r#"
program=$1 folder=$2
shift 2
"$program" -D "$folder/data" -k "$folder" -c listen_addresses= -c max_connections=300 "$@" >>"$folder/log" 2>&1 </dev/null &
server=$!
cat >/dev/null
kill -QUIT $server 2>/dev/null
wait $server
rm -rf "$folder"
"#;

/// A server of one's own.
pub(crate) struct Server {
    folder: PathBuf,
    /// One for each time it was started.
    shells: Vec<Child>,
    /// Beyond those of every server.
    settings: Vec<String>,
}

impl Server {
    /// Makes a database cluster and starts a server on it.
    pub(crate) fn start() -> Server {
        let mut server = Server::make();
        server.up();
        server
    }

    /// A server that also listens at `localhost:port`, with what `certificates` makes in its folder.
    pub(crate) fn with_tls(certificates: fn(&Path)) -> (Server, u16) {
        let mut server = Server::make();
        certificates(&server.folder);
        if is_root() {
            run(Command::new("chown").args(["-R", "postgres"]).arg(&server.folder));
        }
        let (key, cert) = (server.file("server.key"), server.file("server.crt"));
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        for setting in ["listen_addresses=localhost", "ssl=on"] {
            server.settings.extend(["-c".to_owned(), setting.to_owned()]);
        }
        for (name, value) in [("port", &port.to_string()), ("ssl_key_file", &key), ("ssl_cert_file", &cert)] {
            server.settings.extend(["-c".to_owned(), format!("{name}={value}")]);
        }
        server.up();
        (server, port)
    }

    /// A file of its folder.
    pub(crate) fn file(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    fn make() -> Server {
        let folder = tempfile::Builder::new().prefix("windlass-pg-").tempdir().unwrap().keep();
        if is_root() {
            run(Command::new("chown").arg("postgres").arg(&folder));
        }
        let data = folder.join("data");
        run(command(&tool("initdb"))
            .args(["-A", "trust", "-U", "postgres", "-E", "UTF8", "--no-locale", "-D"])
            .arg(&data));
        Server { folder, shells: Vec::new(), settings: Vec::new() }
    }

    /// Starts it on what is there.
    pub(crate) fn up(&mut self) {
        let mut shell = command(Path::new("sh"));
        shell.args(["-c", SCRIPT, "sh"]).arg(tool("postgres")).arg(&self.folder).args(&self.settings);
        let mut shell = shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let ready = || {
            let mut ready = Command::new(tool("pg_isready"));
            let port = self.settings.iter().find_map(|setting| setting.strip_prefix("port=")).unwrap_or("5432");
            let status = ready.arg("-q").args(["-p", port, "-h"]).arg(&self.folder).status();
            status.is_ok_and(|status| status.success())
        };
        while !ready() {
            let ended = shell.try_wait().unwrap();
            assert!(ended.is_none(), "the server ended: {ended:?}");
            std::thread::yield_now();
        }
        self.shells.push(shell);
    }

    /// The server and everybody it started end at once, without a word and without a checkpoint.
    pub(crate) fn crash(&mut self) {
        run(command(&tool("pg_ctl")).args(["stop", "-m", "immediate", "-D"]).arg(self.folder.join("data")));
    }

    /// From now on everybody but `postgres` must give a password.
    pub(crate) fn ask_for_passwords(&mut self) {
        let data = self.folder.join("data");
        std::fs::write(data.join("pg_hba.conf"), "local all postgres trust\nlocal all all scram-sha-256\n").unwrap();
        run(command(&tool("pg_ctl")).args(["reload", "-D"]).arg(&data));
    }

    /// What psql says.
    pub(crate) fn psql(&self, words: &[&str]) -> String {
        let mut psql = Command::new(tool("psql"));
        let output = psql.args(["-X", "-q", "-U", "postgres", "-h"]).arg(&self.folder).args(words).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// See [`url`].
    pub(crate) fn url(&self) -> String {
        let host = self.folder.display().to_string().replace('/', "%2F");
        format!("postgres://postgres@{host}/postgres?connect_timeout=10")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        for shell in &mut self.shells {
            drop(shell.stdin.take());
            shell.wait().unwrap();
        }
    }
}

/// initdb and postgres refuse to run as root: then they run as the user of the package.
fn command(program: &Path) -> Command {
    let mut command = match is_root() {
        true => {
            // Not runuser: it stays in between, and stops for good when it is not in the foreground.
            let mut command = Command::new("setpriv");
            command.args(["--reuid=postgres", "--regid=postgres", "--init-groups", "--"]).arg(program);
            command
        }
        false => Command::new(program),
    };
    // Whoever cannot look into our folder should not have to.
    command.current_dir("/");
    command
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
