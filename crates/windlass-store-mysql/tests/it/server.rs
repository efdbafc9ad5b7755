//! A MariaDB server for tests: the one that `cargo xtask test` has started, or else one of this process, in a temporary folder,
//! that ends with it. A machine without MariaDB fails.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use mysql_async::Conn;
use mysql_async::prelude::Queryable as _;

/// Where the server of the test run is: a URL without a database.
const VARIABLE: &str = "WINDLASS_TEST_MYSQL";

/// An empty database of its own, that goes with this.
pub(crate) struct Database {
    /// A store's URL.
    pub(crate) url: String,
    server: String,
    pub(crate) name: String,
}

/// Makes one.
pub(crate) async fn database() -> Database {
    database_on(&url()).await
}

/// Makes one on this server.
pub(crate) async fn database_on(server: &str) -> Database {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let name = format!("t_{}_{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    execute(&format!("{server}/mysql"), &format!("DROP DATABASE IF EXISTS {name}; CREATE DATABASE {name}")).await;
    Database { url: format!("{server}/{name}"), server: server.to_owned(), name }
}

impl Drop for Database {
    fn drop(&mut self) {
        let (server, name) = (format!("{}/mysql", self.server), self.name.clone());
        // Whoever drops this is inside a runtime, where nothing may block.
        let dropped = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                if let Ok(mut conn) = Conn::from_url(&server).await {
                    let _gone = conn.query_drop(format!("DROP DATABASE IF EXISTS {name}")).await;
                }
            });
        });
        let _ended = dropped.join();
    }
}

/// Runs statements as somebody with the `mariadb` client would.
pub(crate) async fn execute(url: &str, sql: &str) {
    client(url).await.query_drop(sql).await.unwrap();
}

/// A plain client.
pub(crate) async fn client(url: &str) -> Conn {
    Conn::from_url(url).await.unwrap()
}

/// The server's URL, without a database.
pub(crate) fn url() -> String {
    static SERVER: OnceLock<Server> = OnceLock::new();
    #[expect(clippy::disallowed_methods, reason = "how the test run tells its tests where its server is")]
    match std::env::var(VARIABLE) {
        Ok(url) => url,
        Err(_) => SERVER.get_or_init(Server::start).url(),
    }
}

/// Serves `$1/data` until its standard input ends, which it does when this process does, however that ends; what follows are
/// settings.
const SCRIPT: &str = r#"
folder=$1
shift
mariadbd --no-defaults --datadir="$folder/data" --socket="$folder/socket" --bind-address=127.0.0.1 --max-connections=300 "$@" \
    >>"$folder/log" 2>&1 </dev/null &
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
    /// One for each time it was started.
    shells: Vec<Child>,
    /// Beyond those of every server.
    settings: Vec<String>,
}

impl Server {
    /// Makes a data folder and starts a server on it.
    pub(crate) fn start() -> Server {
        let mut server = Server::make();
        server.up();
        server
    }

    /// Starts one with these settings.
    pub(crate) fn with(settings: &[&str]) -> Server {
        let mut server = Server::make();
        server.settings = settings.iter().map(|setting| (*setting).to_owned()).collect();
        server.up();
        server
    }

    /// One that speaks TLS, with what `certificates` makes in its folder.
    pub(crate) fn with_tls(certificates: fn(&Path)) -> Server {
        let mut server = Server::make();
        certificates(&server.folder);
        if is_root() {
            run(Command::new("chown").args(["-R", "mysql"]).arg(&server.folder));
        }
        for (name, file) in [("ssl-cert", "server.crt"), ("ssl-key", "server.key")] {
            server.settings.push(format!("--{name}={}", server.file(file)));
        }
        server.up();
        server
    }

    /// A file of its folder.
    pub(crate) fn file(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn make() -> Server {
        // In memory where that can be: making a data folder writes a hundred megabytes.
        let memory = Path::new("/dev/shm");
        let place = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let folder = tempfile::Builder::new().prefix("windlass-mysql-").tempdir_in(place).unwrap().keep();
        if is_root() {
            run(Command::new("chown").arg("mysql").arg(&folder));
        }
        let data = format!("--datadir={}", folder.join("data").display());
        let mut install = command("mariadb-install-db");
        install.args(["--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db", &data]);
        run(install.env("TMPDIR", &folder));
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        Server { folder, port, shells: Vec::new(), settings: Vec::new() }
    }

    /// Starts it on what is there.
    pub(crate) fn up(&mut self) {
        let _was_there = std::fs::remove_file(self.folder.join("stays"));
        let mut shell = command("sh");
        // A server that starts removes what others have in a folder for temporary tables that they share.
        shell.env("TMPDIR", &self.folder);
        shell.args(["-c", SCRIPT, "sh"]).arg(&self.folder).arg(format!("--port={}", self.port)).args(&self.settings);
        let mut shell = shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let socket = format!("--socket={}", self.folder.join("socket").display());
        let ready = || {
            let ping = Command::new("mariadb-admin").args(["--no-defaults", "-uroot", &socket, "ping"]).output();
            ping.is_ok_and(|output| output.status.success())
        };
        while !ready() {
            let ended = shell.try_wait().unwrap();
            assert!(ended.is_none(), "the server ended: {ended:?}");
            std::thread::yield_now();
        }
        self.shells.push(shell);
    }

    /// The server ends at once, without a word; what it has written stays.
    pub(crate) fn kill(&mut self) {
        std::fs::write(self.folder.join("stays"), "").unwrap();
        let pid = std::fs::read_to_string(self.folder.join("pid")).unwrap();
        let pid = rustix::process::Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        for mut shell in self.shells.drain(..) {
            drop(shell.stdin.take());
            shell.wait().unwrap();
        }
    }

    /// For a client on this machine.
    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.join("socket")
    }

    /// See [`url`].
    pub(crate) fn url(&self) -> String {
        format!("mysql://root@127.0.0.1:{}", self.port)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        for shell in &mut self.shells {
            drop(shell.stdin.take());
            let _ended = shell.wait();
        }
        let _gone = std::fs::remove_dir_all(&self.folder);
    }
}

/// mariadbd refuses to run as root: then it runs as the user of the package.
fn command(program: &str) -> Command {
    let mut command = match is_root() {
        true => {
            let mut command = Command::new("setpriv");
            command.args(["--reuid=mysql", "--regid=mysql", "--init-groups", "--"]).arg(program);
            command
        }
        false => Command::new(program),
    };
    // Whoever cannot look into our folder should not have to.
    command.current_dir(Path::new("/"));
    command
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

pub(crate) fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}
