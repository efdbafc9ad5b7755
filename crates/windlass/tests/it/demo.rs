//! `windlass demo` as people use it: the walk it proposes, killed and started again; and a worker in another language.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::{root, text};

/// Long enough for a busy machine; nothing waits for it to pass.
pub(super) const LIMIT: Duration = Duration::from_secs(240);

/// A process that says on stderr how far it is.
pub(super) struct Talker {
    child: Child,
    lines: Receiver<String>,
    pub(super) said: Vec<String>,
}

impl Talker {
    pub(super) fn start(command: &mut Command) -> Talker {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let (tell, lines) = channel();
        std::thread::spawn(move || stderr.lines().map_while(Result::ok).for_each(|line| drop(tell.send(line))));
        Talker { child, lines, said: Vec::new() }
    }

    /// The first line from now on that holds this.
    pub(super) fn until(&mut self, part: &str, limit: Duration) -> String {
        let end = Instant::now() + limit;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let line = self.lines.recv_timeout(left);
            let line = line.unwrap_or_else(|_| panic!("never said {part:?}, but:\n{}", self.said.join("\n")));
            self.said.push(line.clone());
            if line.contains(part) {
                return line;
            }
        }
    }

    /// A signal, and the end.
    pub(super) fn end(mut self, signal: Signal) -> std::process::ExitStatus {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
        self.child.wait().unwrap()
    }
}

impl Drop for Talker {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// A server, and commands for it.
pub(super) struct Town {
    pub(super) process: Talker,
    url: String,
    exe: PathBuf,
}

impl Town {
    pub(super) fn demo(dir: &Path) -> Town {
        let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
        command.args(["demo", "--listen", "127.0.0.1:0", "--dir"]).arg(dir).current_dir(root());
        Town::of(Talker::start(&mut command), LIMIT)
    }

    /// On a store of its own.
    pub(super) fn demo_on(store: &str, dir: &Path, environment: &[(&str, &str)]) -> Town {
        let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
        command.args(["demo", "--listen", "127.0.0.1:0", "--store", store, "--dir"]).arg(dir).current_dir(root());
        Town::of(Talker::start(command.envs(environment.iter().copied())), LIMIT)
    }

    pub(super) fn of(mut process: Talker, limit: Duration) -> Town {
        let line = process.until("listens on ", limit);
        let url = line.split("listens on ").nth(1).unwrap().split(' ').next().unwrap().to_owned();
        Town::at(process, url)
    }

    pub(super) fn at(process: Talker, url: String) -> Town {
        Town { process, url, exe: env!("CARGO_BIN_EXE_windlass").into() }
    }

    /// Until nothing of the plan moves any more. From then on, the executable is the one it names.
    pub(super) fn settled(&mut self) {
        self.process.until("Nothing moves any more", LIMIT);
        let alias = self.process.until("alias windlass=", LIMIT);
        self.exe = root().join(alias.split("alias windlass=").nth(1).unwrap());
    }

    pub(super) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.env("WINDLASS_SERVER", &self.url).env("USER", "zoe").env_remove("WINDLASS_KEY").current_dir(root());
        command
    }

    pub(super) fn run(&self, args: &[&str]) -> Output {
        self.command(&self.exe).args(args).output().unwrap()
    }

    /// What a command prints, line by line.
    pub(super) fn ask(&self, args: &[&str]) -> Vec<String> {
        let output = self.run(args);
        assert!(output.status.success(), "{args:?}: {}\n{}", text(&output.stdout), text(&output.stderr));
        text(&output.stdout).lines().map(str::to_owned).collect()
    }

    /// Asks until the answer is as it should be.
    pub(super) fn ask_until(&self, args: &[&str], fits: impl Fn(&[String]) -> bool) -> Vec<String> {
        let end = Instant::now() + LIMIT;
        loop {
            let lines = self.ask(args);
            if fits(&lines) {
                return lines;
            }
            assert!(Instant::now() < end, "{args:?} stays {lines:?}");
            // sleep: another process moves, and tells nobody here.
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// One `$ windlass …` line as a shell takes it, with what it printed.
    pub(super) fn typed(&self, line: &str) -> String {
        let script = format!("windlass() {{ \"$EXE\" \"$@\"; }}\n{line}");
        let output = self.command(Path::new("sh")).env("EXE", &self.exe).args(["-c", &script]).output().unwrap();
        let mut said = format!("$ {line}\n{}", text(&output.stdout));
        for line in text(&output.stderr).lines() {
            said += &format!("! {line}\n");
        }
        match output.status.code() {
            Some(0) => said,
            code => said + &format!("[exit {}]\n", code.unwrap_or(-1)),
        }
    }
}

/// The value of a member of a JSON document.
pub(super) fn member(line: &str, pointer: &str) -> String {
    let value: serde_json::Value = serde_json::from_str(line).unwrap();
    value.pointer(pointer).and_then(serde_json::Value::as_str).unwrap_or_default().to_owned()
}

#[test]
fn killed_in_the_middle_and_started_again_it_finishes_exactly_the_rest() {
    let dir = tempfile::tempdir().unwrap();
    let town = Town::demo(dir.path());
    // Some are done, some wait, and every slot is taken: those that have just begun will not end before the kill.
    let is = |lines: &[String], status: &str| lines.iter().filter(|line| member(line, "/status") == status).count();
    let tasks = ["plan", "tasks", "demo", "-o", "json"];
    town.ask_until(&tasks, |lines| is(lines, "COMPLETED") > 0 && is(lines, "RUNNING") == 4 && is(lines, "PENDING") > 0);
    town.process.end(Signal::KILL);

    let town = Town::demo(dir.path());
    let inbox = ["inbox", "-o", "json"];
    let found = town.ask_until(&inbox, |lines| {
        let kinds: Vec<_> = lines.iter().map(|line| member(line, "/kind")).collect();
        kinds.iter().any(|kind| kind == "interruptedPlan") && kinds.iter().any(|kind| kind == "interruptedTask")
    });
    let before = town.ask(&tasks);
    let cut: Vec<_> = found
        .iter()
        .filter(|line| member(line, "/kind") == "interruptedTask")
        .map(|line| member(line, "/task"))
        .collect();
    assert!(is(&before, "PENDING") > 0, "nothing moves by itself: {before:?}");
    town.ask(&["plan", "resume", "demo", "--reason", "the machine is back"]);
    for task in &cut {
        town.ask(&["task", "retry", task]);
    }
    let ended = |lines: &[String]| is(lines, "COMPLETED") + is(lines, "FAILED") + is(lines, "PAUSED") == 12;
    town.ask_until(&tasks, ended);
    for line in town.ask(&inbox) {
        match member(&line, "/kind").as_str() {
            "failure" => drop(town.ask(&["task", "retry", &member(&line, "/task")])),
            "approval" => drop(town.ask(&["task", "approve", &member(&line, "/task")])),
            kind => panic!("{kind}: {line}"),
        }
    }
    town.ask_until(&tasks, |lines| is(lines, "COMPLETED") == 12);
    for task in cut {
        let history = town.ask(&["task", "history", &task, "-o", "json"]);
        let mut done: Vec<_> = history
            .iter()
            .filter(|line| member(line, "/type") == "StageCompleted")
            .map(|line| member(line, "/data/at/stage"))
            .collect();
        let all = done.len();
        done.dedup();
        assert_eq!(done.len(), all, "a completed stage ran again: {history:?}");
    }
    assert!(town.process.end(Signal::TERM).success());
}

#[test]
fn a_worker_of_fifty_lines_in_another_language_does_the_work() {
    let program = root().join("examples/worker.py");
    let lines = std::fs::read_to_string(&program).unwrap().lines().count();
    assert!(lines <= 50, "{lines} lines");
    let dir = tempfile::tempdir().unwrap();
    let town = Town::demo(dir.path());
    let mut command = town.command(Path::new("python3"));
    let worker = Talker::start(command.arg(&program).arg("sums"));
    let good = town.ask(&["job", "submit", "sums", r#"{"numbers": [1, 2, 39]}"#, "--wait=5m"]);
    assert_eq!(good, [r#"{"sum":42}"#]);
    let bad = town.run(&["job", "submit", "sums", r#"{"numbers": "no"}"#, "--wait=5m"]);
    assert_eq!(bad.status.code(), Some(8));
    assert!(text(&bad.stderr).contains("unsupported operand"), "{}", text(&bad.stderr));
    assert!(worker.end(Signal::TERM).success());
}

#[test]
fn a_program_is_run_for_every_job_and_told_what_it_works_on() {
    let dir = tempfile::tempdir().unwrap();
    let town = Town::demo(dir.path());
    let script = r#"read x; [ "$x" = '"stop"' ] && { echo "no paper" >&2; exit 3; }
        echo "{\"got\": $x, \"attempt\": $WINDLASS_ATTEMPT, \"same\": \"$([ "$WINDLASS_JOB" = "$WINDLASS_IDEMPOTENCY_KEY" ] && echo yes)\", \
        \"fence\": $WINDLASS_FENCE, \"key\": \"${WINDLASS_KEY-none}\"}""#;
    let mut command = town.command(Path::new(env!("CARGO_BIN_EXE_windlass")));
    // The worker's key is not the program's.
    command
        .args(["worker", "--queue", "shell", "--concurrency", "2", "--", "sh", "-c", script])
        .env("WINDLASS_KEY", "wl_a_b");
    let mut worker = Talker::start(&mut command);
    worker.until("worker w-", LIMIT);
    let good = town.ask(&["job", "submit", "shell", "7", "--wait=5m"]).join("");
    assert_eq!((member(&good, "/same").as_str(), member(&good, "/key").as_str()), ("yes", "none"), "{good}");
    assert!(good.contains(r#""got":7,"attempt":1"#), "{good}");
    let bad = town.run(&["job", "submit", "shell", "\"stop\"", "--wait=5m"]);
    assert_eq!((bad.status.code(), text(&bad.stderr).contains("no paper")), (Some(8), true), "{}", text(&bad.stderr));
    assert!(worker.end(Signal::TERM).success());
}

#[test]
fn a_worker_that_stops_lets_its_program_end_and_hands_back_what_does_not() {
    let dir = tempfile::tempdir().unwrap();
    let town = Town::demo(dir.path());
    let exe = Path::new(env!("CARGO_BIN_EXE_windlass"));
    let worker = |drain: &str, script: &str| {
        let mut command = town.command(exe);
        let mut worker =
            Talker::start(command.args(["worker", "--queue", "slow", "--drain", drain, "--", "sh", "-c", script]));
        worker.until("worker w-", LIMIT);
        worker
    };
    let go = dir.path().join("go");
    let script = format!("echo begun >&2; while [ ! -e {} ]; do sleep 0.05; done; echo 1", go.display());
    let job = town.ask(&["job", "submit", "slow"]).join("");
    // The first one is not given the time: the job goes back to its queue.
    let mut first = worker("0s", &script);
    first.until("begun", LIMIT);
    assert!(first.end(Signal::TERM).success());
    assert_eq!(member(&town.ask(&["job", "get", &job, "-o", "json"]).join(""), "/status"), "PENDING");
    // The second one is.
    let mut second = worker("60s", &script);
    second.until("begun", LIMIT);
    kill_process(Pid::from_child(&second.child), Signal::TERM).unwrap();
    second.until("stopping", LIMIT);
    std::fs::write(&go, "").unwrap();
    second.until("every program ended", LIMIT);
    assert_eq!(town.ask(&["job", "wait", &job, "--timeout", "5m"]), ["1"]);
}
