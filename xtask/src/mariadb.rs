//! The MariaDB server of a test run: in a temporary folder, on a free port, as durable as any. It ends with the run, however
//! that ends. Where there is a file system in memory the folder is there: tests make hundreds of databases of some thirty tables, and
//! the disk would be what they wait for.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::postgres::is_root;

/// How tests learn where it is.
const VARIABLE: &str = "WINDLASS_TEST_MYSQL";

/// Longer than any start takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// Makes a data folder in `$1` and serves it on port `$2` until its standard input ends, which it does when whoever holds the
/// other end does; then everything is removed.
const SCRIPT: &str = r#"
mariadb-install-db --no-defaults --datadir="$1/data" --auth-root-authentication-method=normal --skip-test-db >"$1/log" 2>&1 || exit 1
mariadbd --no-defaults --datadir="$1/data" --socket="$1/socket" --bind-address=127.0.0.1 --port="$2" --max-connections=600 \
    >>"$1/log" 2>&1 </dev/null &
server=$!
cat >/dev/null
kill -9 $server
wait $server
rm -rf "$1"
"#;

pub(crate) struct Server {
    folder: PathBuf,
    port: u16,
    child: Child,
}

impl Server {
    pub(crate) fn start() -> Result<Self> {
        let memory = Path::new("/dev/shm");
        let place = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let folder = place.join(format!("windlass-mysql-{}", std::process::id()));
        std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        // mariadbd refuses root: then the package's own user serves.
        let mut command = match is_root() {
            true => {
                let given = Command::new("chown").arg("mysql").arg(&folder).status();
                ensure!(given.is_ok_and(|status| status.success()), "there is no user `mysql` to run the server");
                let mut command = Command::new("setpriv");
                command.args(["--reuid=mysql", "--regid=mysql", "--init-groups", "--", "sh"]);
                command
            }
            false => Command::new("sh"),
        };
        let child = command
            .args(["-c", SCRIPT, "sh"])
            .arg(&folder)
            .arg(port.to_string())
            // Whoever cannot look into our folder should not have to.
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .context("cannot start MariaDB")?;
        let mut server = Self { folder, port, child };
        server.wait()?;
        Ok(server)
    }

    fn wait(&mut self) -> Result<()> {
        let begun = Instant::now();
        let socket = format!("--socket={}", self.folder.join("socket").display());
        let ready = || {
            let ping = Command::new("mariadb-admin").args(["--no-defaults", "-uroot", &socket, "ping"]).output();
            ping.is_ok_and(|output| output.status.success())
        };
        while !ready() {
            let log = || std::fs::read_to_string(self.folder.join("log")).unwrap_or_default();
            if let Some(status) = self.child.try_wait().context("cannot look after MariaDB")? {
                bail!("MariaDB ended with {status}:\n{}", log());
            }
            ensure!(begun.elapsed() < PATIENCE, "MariaDB does not come up:\n{}", log());
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// What tests need in their environment: a URL without a database.
    pub(crate) fn env(&self) -> (&'static str, String) {
        (VARIABLE, format!("mysql://root@127.0.0.1:{}", self.port))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        if let Err(error) = self.child.wait() {
            eprintln!("    MariaDB did not end: {error}");
        }
    }
}

#[cfg(test)]
mod tests;
