//! A program without a shell, in a process group of its own. Whatever it starts ends with it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use futures_util::future;
use rustix::process::{Pid, Signal, kill_process_group};
use serde::Serialize;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};
use windlass_core::failure::FailureKind;
use windlass_core::json::Json;
use windlass_core::stage::Exec;

use super::secret::{Secrets, Used};
use super::template::Rendering;
use super::{Ended, Told, Trouble, strings};

/// What of each stream enters the context, at most.
pub const OUTPUT_KEPT_BYTES: usize = 64 * 1024;
/// The end of a stream that a failure's message shows, at most.
const TAIL_BYTES: usize = 2 * 1024;
/// What may still be read after the program and its group are gone. Longer than this, somebody who left the group
/// holds the stream.
const GRACE_MS: u64 = 2_000;
/// What a program keeps of the instance's environment.
const KEPT_VARIABLES: &[&str] = &["PATH", "HOME", "LANG", "TZ"];
const USUAL_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Which programs `exec` stages may run.
#[derive(Debug, Clone, Default)]
pub enum Allowed {
    /// None.
    #[default]
    Nothing,
    /// These, each an absolute path, or a bare name that is looked for in the instance's `PATH`.
    Programs(Vec<String>),
}

impl Allowed {
    /// A program that can never be meant: neither an absolute path nor a bare name.
    #[must_use]
    pub fn bad(&self) -> Option<&str> {
        let Allowed::Programs(programs) = self else { return None };
        let good = |name: &String| name.starts_with('/') || (!name.is_empty() && !name.contains('/'));
        programs.iter().find(|name| !good(name)).map(String::as_str)
    }

    /// The file to run for `program`, which must be on the list letter by letter.
    fn file(&self, program: &str, path: &str) -> Result<PathBuf, Trouble> {
        let no =
            |why: &str| Trouble::hopeless(FailureKind::Stage, format!("{program:?} may not be run: {why} (WL-5003)"));
        let programs = match self {
            Allowed::Nothing => return Err(no("the operator allows no programs")),
            Allowed::Programs(programs) => programs,
        };
        if !programs.iter().any(|allowed| allowed == program) {
            return Err(no("it is not on the operator's list"));
        }
        if program.starts_with('/') {
            return Ok(PathBuf::from(program));
        }
        // Looked for here, in the instance's own path: the stage may set another one for the program.
        let places = path.split(':').filter(|place| place.starts_with('/')).map(|place| Path::new(place).join(program));
        let missing = || Trouble::stage(format!("the program {program:?} is not in the instance's PATH"));
        places.into_iter().find(|file| can_run(file)).ok_or_else(missing)
    }
}

fn can_run(file: &Path) -> bool {
    file.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// What programs run with, apart from what stages say.
pub(super) struct Programs {
    pub(super) allowed: Allowed,
    pub(super) environment: BTreeMap<String, String>,
}

pub(super) async fn run(
    programs: &Programs,
    secrets: &Secrets,
    exec: &Exec,
    told: &Told,
    rendering: Rendering<'_>,
) -> Result<Ended, Trouble> {
    let mut used = Used::none(secrets);
    let mut argv = Vec::with_capacity(exec.argv.len());
    for template in &exec.argv {
        argv.push(rendering.text("argv", template)?);
    }
    let [program, args @ ..] = argv.as_slice() else {
        return Err(Trouble::hopeless(FailureKind::Stage, "argv is empty: there is no program to run"));
    };
    let path = programs.environment.get("PATH").map_or(USUAL_PATH, String::as_str);
    let mut command = Command::new(programs.allowed.file(program, path)?);
    command.arg0(&**program).args(args.iter().map(|arg| &**arg)).env_clear();
    command.envs(programs.environment.iter().filter(|(name, _)| KEPT_VARIABLES.contains(&name.as_str())));
    for (name, text) in &exec.env {
        command.env(variable(name)?, &*used.text(&rendering, &format!("the variable {name}"), text)?.0);
    }
    command.envs(ours(told)).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.process_group(0).kill_on_drop(true);
    drop(rendering);
    let failed = |error: io::Error| Trouble::stage(used.hide(format!("{program:?} could not be run: {error}")));
    let mut child = command.spawn().map_err(failed)?;
    let (status, out, err) = carry_out(&mut child, &used).await.map_err(failed)?;
    if status.success() {
        return output(&out, &err, &used).map(|output| Ended::Done(Some(output)));
    }
    let said = if err.all == 0 { &out } else { &err };
    let message = format!("{program:?} {}{}", how(status), said.last_words(&used));
    Err(Trouble::stage(used.hide(message)))
}

/// A stage may not say how an allowed program is loaded: that would make it another program.
fn variable(name: &str) -> Result<&str, Trouble> {
    let changes_the_program = name.starts_with("LD_") || name.starts_with("DYLD_");
    if !changes_the_program {
        return Ok(name);
    }
    let message = format!("the variable {name} may not be set: it changes what an allowed program is (WL-5003)");
    Err(Trouble::hopeless(FailureKind::Stage, message))
}

fn ours(told: &Told) -> [(&'static str, String); 7] {
    [
        ("WINDLASS_IDEMPOTENCY_KEY", told.idempotency_key()),
        ("WINDLASS_FENCE", told.fence.to_string()),
        ("WINDLASS_TENANT", told.tenant.to_string()),
        ("WINDLASS_PLAN", told.plan.to_string()),
        ("WINDLASS_TASK", told.task.to_string()),
        ("WINDLASS_STAGE", told.stage.to_string()),
        ("WINDLASS_ATTEMPT", told.attempt.to_string()),
    ]
}

/// A process group that is killed when this is dropped: when the program has ended, and when nobody waits any more.
struct Group(Option<Pid>);

impl Group {
    fn of(child: &Child) -> Group {
        Group(child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // An error says that nobody is left.
        let _gone = self.0.map(|group| kill_process_group(group, Signal::KILL));
    }
}

/// Waits for the program and takes what it says. Those it leaves behind in its group are killed.
async fn carry_out(child: &mut Child, used: &Used<'_>) -> io::Result<(ExitStatus, Said, Said)> {
    let group = Group::of(child);
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let (mut out, mut err) = (Said::nothing(used), Said::nothing(used));
    let status = {
        let mut listen = std::pin::pin!(future::join(out.listen(stdout), err.listen(stderr)));
        let (status, heard_all) = tokio::select! {
            biased;
            status = child.wait() => (status?, false),
            _ = &mut listen => (child.wait().await?, true),
        };
        drop(group);
        if !heard_all {
            let _late = tokio::time::timeout(Duration::from_millis(GRACE_MS), listen).await;
        }
        status
    };
    Ok((status, out, err))
}

/// What a program said on one stream: the beginning and the end of it, and how much it was.
struct Said {
    head: Vec<u8>,
    tail: Vec<u8>,
    all: usize,
    head_max: usize,
    tail_max: usize,
}

impl Said {
    /// More is read than is kept, by the longest secret, so that no cut leaves a part of one.
    fn nothing(used: &Used<'_>) -> Said {
        let (head_max, tail_max) = (OUTPUT_KEPT_BYTES + used.longest(), TAIL_BYTES + used.longest());
        Said { head: Vec::new(), tail: Vec::new(), all: 0, head_max, tail_max }
    }

    /// Reads to the end, so that the program never waits for a reader. A stream that breaks has ended.
    async fn listen(&mut self, stream: Option<impl AsyncRead + Unpin>) {
        let Some(mut stream) = stream else { return };
        let mut buffer = vec![0; 8 * 1024];
        while let Ok(read @ 1..) = stream.read(&mut buffer).await {
            self.add(&buffer[..read]);
        }
    }

    fn add(&mut self, bytes: &[u8]) {
        self.all += bytes.len();
        let room = self.head_max - self.head.len();
        self.head.extend_from_slice(&bytes[..room.min(bytes.len())]);
        self.tail.extend_from_slice(bytes);
        self.tail.drain(..self.tail.len().saturating_sub(self.tail_max));
    }

    /// The beginning, and whether there is more.
    fn kept(&self, used: &Used<'_>) -> (String, bool) {
        let text = String::from_utf8_lossy(&self.head);
        let mut text = used.hide(text).into_owned();
        let more = self.all > OUTPUT_KEPT_BYTES;
        if more {
            text.truncate(text.floor_char_boundary(OUTPUT_KEPT_BYTES));
        }
        (text, more)
    }

    /// The whole of it, if it is one JSON document and not too long.
    fn json(&self, used: &Used<'_>) -> Option<Json> {
        let text = (self.all <= OUTPUT_KEPT_BYTES).then(|| std::str::from_utf8(&self.head).ok())??;
        strings::document(text).map(|json| used.hide_in(&json))
    }

    /// The end of it, for a message.
    fn last_words(&self, used: &Used<'_>) -> String {
        let text = String::from_utf8_lossy(&self.tail);
        let hidden = used.hide(text);
        // The first of what is left may be the end of a secret.
        let from = if self.all > self.tail.len() { hidden.ceil_char_boundary(used.longest()) } else { 0 };
        let words = hidden.get(from..).unwrap_or_default().trim();
        if words.is_empty() { String::new() } else { format!(": {words}") }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Output {
    status: i32,
    stdout: String,
    stderr: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    json: Option<Json>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    stdout_truncated: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    stderr_truncated: bool,
}

fn output(out: &Said, err: &Said, used: &Used<'_>) -> Result<Json, Trouble> {
    let (stdout, stdout_truncated) = out.kept(used);
    let (stderr, stderr_truncated) = err.kept(used);
    let json = out.json(used);
    let output = Output { status: 0, stdout, stderr, json, stdout_truncated, stderr_truncated };
    Json::of(&output).map_err(|error| Trouble::stage(format!("the output cannot be kept: {error}")))
}

fn how(status: ExitStatus) -> Cow<'static, str> {
    match status.code() {
        Some(code) => Cow::Owned(format!("ended with exit code {code}")),
        None => Cow::Owned(format!("was ended by a {status}")),
    }
}

#[cfg(test)]
mod tests;
