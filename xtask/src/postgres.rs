//! The PostgreSQL server of a test run: in a temporary folder, on a socket of its own, as durable as any. It ends with
//! the run, however that ends.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

/// How tests learn where it is.
const VARIABLE: &str = "WINDLASS_TEST_POSTGRES";

/// Longer than any start takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// Makes a cluster in `$2` and serves it until its standard input ends, which it does when whoever holds the other end
/// does; then everything is removed. `$1` is where the programs are, with a `/` at the end, or nothing.
const SCRIPT: &str = r#"
"$1"initdb -A trust -U postgres -E UTF8 --no-locale -D "$2/data" >"$2/log" 2>&1 || exit 1
"$1"postgres -D "$2/data" -k "$2" -c listen_addresses= -c max_connections=300 >>"$2/log" 2>&1 </dev/null &
server=$!
cat >/dev/null
kill -QUIT $server
wait $server
rm -rf "$2"
"#;

pub(crate) struct Server {
    folder: PathBuf,
    child: Child,
}

impl Server {
    pub(crate) fn start() -> Result<Self> {
        let folder = std::env::temp_dir().join(format!("windlass-pg-{}", std::process::id()));
        std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        // initdb refuses root: then the package's own user serves.
        let (mut command, is_root) = match is_root() {
            true => {
                let given = Command::new("chown").arg("postgres").arg(&folder).status();
                ensure!(given.is_ok_and(|status| status.success()), "there is no user `postgres` to run the server");
                // Not runuser: it stays in between, and stops for good when it is not in the foreground.
                let mut command = Command::new("setpriv");
                command.args(["--reuid=postgres", "--regid=postgres", "--init-groups", "--", "sh"]);
                (command, true)
            }
            false => (Command::new("sh"), false),
        };
        let child = command
            .args(["-c", SCRIPT, "sh"])
            .arg(programs())
            .arg(&folder)
            // Whoever cannot look into our folder should not have to.
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .with_context(|| format!("cannot start PostgreSQL{}", if is_root { " as its user" } else { "" }))?;
        let mut server = Self { folder, child };
        server.wait()?;
        Ok(server)
    }

    fn wait(&mut self) -> Result<()> {
        let begun = Instant::now();
        let ready = || {
            let mut ready = Command::new(format!("{}pg_isready", programs()));
            ready.arg("-q").arg("-h").arg(&self.folder).status().is_ok_and(|status| status.success())
        };
        while !ready() {
            let log = || std::fs::read_to_string(self.folder.join("log")).unwrap_or_default();
            if let Some(status) = self.child.try_wait().context("cannot look after PostgreSQL")? {
                bail!("PostgreSQL ended with {status}:\n{}", log());
            }
            ensure!(begun.elapsed() < PATIENCE, "PostgreSQL does not come up:\n{}", log());
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// What tests need in their environment.
    pub(crate) fn env(&self) -> (&'static str, String) {
        let host = self.folder.display().to_string().replace('/', "%2F");
        (VARIABLE, format!("postgres://postgres@{host}/postgres?connect_timeout=10"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        if let Err(error) = self.child.wait() {
            eprintln!("    PostgreSQL did not end: {error}");
        }
    }
}

pub(crate) fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output();
    id.is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

/// The folder of the newest server where Debian keeps them, or else nothing: the PATH.
fn programs() -> String {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let found = versions.map(|version| version.path().join("bin")).filter(|bin| bin.join("postgres").exists());
    found.max().map_or_else(String::new, |bin| format!("{}/", bin.display()))
}

#[cfg(test)]
mod tests;
