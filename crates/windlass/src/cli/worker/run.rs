//! One run of a worker's program: payload in, result out, ended with everything it started.

use std::collections::HashSet;
use std::process::Stdio;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};
use tokio::sync::watch;
use windlass_core::id::JobId;
use windlass_core::job::error::{CANCELLED, TIMEOUT};
use windlass_core::job::{JobError, PAYLOAD_BYTES_MAX};
use windlass_core::json::Json;

use crate::client::view;

/// What is kept of stderr, from its end.
const STDERR_BYTES_MAX: usize = 16 * 1024;
/// How long a program has between being asked to end and being ended.
const GRACE: Duration = Duration::from_secs(5);

/// What is run for every job.
pub(super) struct Program {
    program: String,
    args: Vec<String>,
    /// Jobs whose end a person asked for.
    cancelled: Mutex<HashSet<JobId>>,
}

/// What a run came to.
pub(super) enum Ran {
    Done(Json),
    Failed {
        error: JobError,
        retry: bool,
    },
    /// The worker ended it: the job goes back to its queue.
    CutOff,
}

impl Program {
    pub(super) fn new(mut argv: Vec<String>) -> anyhow::Result<Program> {
        anyhow::ensure!(!argv.is_empty(), "which program? windlass worker --queue q -- program");
        Ok(Program { program: argv.remove(0), args: argv, cancelled: Mutex::default() })
    }

    /// A person asked for the job's end: it fails instead of going back.
    pub(super) fn cancelled(&self, job: JobId) {
        self.cancelled.lock().unwrap_or_else(PoisonError::into_inner).insert(job);
    }

    pub(super) async fn run(&self, job: &view::Job, mut end: watch::Receiver<bool>) -> Ran {
        let failed = |code: &str, message: String, retry| Ran::Failed { error: JobError::of(code, message), retry };
        let mut child = match self.spawn(job) {
            Ok(child) => child,
            // Another attempt would fail as well, but elsewhere the program may be there.
            Err(error) => return failed("SPAWN", format!("{error:#}"), true),
        };
        let group = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let limit = job.timeout_ms.map_or(Duration::MAX, Duration::from_millis);
        let ended = tokio::select! { biased;
            ended = talk(&mut child, job) => Some(ended),
            () = tokio::time::sleep(limit) => None,
            _ = end.wait_for(|end| *end) => None,
        };
        if let Some(ended) = ended {
            return ended.unwrap_or_else(|error| failed("IO", format!("{error:#}"), true));
        }
        self.end(&mut child, group).await;
        let asked = self.cancelled.lock().unwrap_or_else(PoisonError::into_inner).remove(&job.id);
        match (asked, *end.borrow()) {
            (true, _) => failed(CANCELLED, "its end was asked for".to_owned(), false),
            (false, true) => Ran::CutOff,
            (false, false) => failed(TIMEOUT, format!("it took longer than {} ms", limit.as_millis()), true),
        }
    }

    fn spawn(&self, job: &view::Job) -> anyhow::Result<Child> {
        let mut command = Command::new(&self.program);
        command.args(&self.args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // A group of its own: it is ended with everything it started, and Ctrl-C is the worker's to answer.
        command.process_group(0).kill_on_drop(true);
        command.env_remove("WINDLASS_KEY");
        let tenant = job.tenant.as_ref().map(ToString::to_string).unwrap_or_default();
        command.env("WINDLASS_JOB", job.id.to_string()).env("WINDLASS_QUEUE", job.queue.as_str());
        command.env("WINDLASS_TENANT", tenant).env("WINDLASS_ATTEMPT", job.attempt.to_string());
        // The job's id is the same when it is delivered again.
        command.env("WINDLASS_FENCE", job.fence.to_string()).env("WINDLASS_IDEMPOTENCY_KEY", job.id.to_string());
        command.spawn().with_context(|| format!("cannot run {}", self.program))
    }

    async fn end(&self, child: &mut Child, group: Option<Pid>) {
        let Some(group) = group else { return };
        // A group that has ended meanwhile needs no signal.
        let _ended = kill_process_group(group, Signal::TERM);
        if tokio::time::timeout(GRACE, child.wait()).await.is_err() {
            let _ended = kill_process_group(group, Signal::KILL);
            drop(child.wait().await);
        }
    }
}

/// Payload in, result and complaints out, all at once: a program that does not read must not stand still.
async fn talk(child: &mut Child, job: &view::Job) -> anyhow::Result<Ran> {
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    // With an end of line, so that a shell's `read` gets it.
    let payload = format!("{}\n", job.payload.as_ref().map_or("null", Json::as_str));
    let give = async {
        if let Some(mut stdin) = stdin {
            // A program that needs no payload closes its stdin.
            drop(stdin.write_all(payload.as_bytes()).await);
        }
    };
    let ((), out, complaint) = tokio::join!(give, first(stdout), last(stderr));
    let (out, status) = (out?, child.wait().await?);
    if !status.success() {
        return Ok(Ran::Failed { error: complained(status, &complaint), retry: true });
    }
    let text = String::from_utf8_lossy(&out);
    let bad = |message: String| Ran::Failed { error: JobError::of("RESULT", message), retry: true };
    Ok(match text.trim() {
        _ if out.len() > PAYLOAD_BYTES_MAX => bad(format!("the result is larger than {PAYLOAD_BYTES_MAX} bytes")),
        "" => Ran::Done(Json::null()),
        text => match Json::parse(text) {
            Ok(result) => Ran::Done(result),
            Err(error) => bad(format!("stdout is not JSON: {error}")),
        },
    })
}

fn complained(status: std::process::ExitStatus, stderr: &str) -> JobError {
    let said = stderr.lines().map(str::trim).rfind(|line| !line.is_empty());
    let code = status.code().map_or_else(|| "SIGNAL".to_owned(), |code| code.to_string());
    let message = said.map_or_else(|| format!("the program ended with {status}"), str::to_owned);
    let trace = Some(stderr.to_owned()).filter(|text| !text.trim().is_empty());
    JobError { class: "exit".to_owned(), message, code, trace, ..JobError::default() }.cut()
}

/// The beginning: what is beyond a result's bound is read, so that the program does not stand still, and let go.
async fn first(from: Option<impl AsyncRead + Unpin>) -> std::io::Result<Vec<u8>> {
    let mut kept = Vec::new();
    let Some(mut from) = from else { return Ok(kept) };
    (&mut from).take(PAYLOAD_BYTES_MAX as u64 + 1).read_to_end(&mut kept).await?;
    tokio::io::copy(&mut from, &mut tokio::io::sink()).await?;
    Ok(kept)
}

/// The end, shown to whoever watches the worker as it comes.
async fn last(from: Option<impl AsyncRead + Unpin>) -> String {
    let mut kept: Vec<u8> = Vec::new();
    let Some(mut from) = from else { return String::new() };
    let mut buffer = vec![0; 8 * 1024];
    while let Ok(n @ 1..) = from.read(&mut buffer).await {
        drop(tokio::io::stderr().write_all(&buffer[..n]).await);
        kept.extend_from_slice(&buffer[..n]);
        let surplus = kept.len().saturating_sub(STDERR_BYTES_MAX);
        kept.drain(..surplus);
    }
    String::from_utf8_lossy(&kept).into_owned()
}
