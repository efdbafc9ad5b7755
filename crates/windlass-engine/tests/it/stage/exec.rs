//! Programs: what they may be, what they see, what becomes of them.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

use windlass_core::failure::FailureKind;
use windlass_core::stage::Exec;
use windlass_engine::stage::exec::Allowed;

use super::*;

const SHELL: &str = "/bin/sh";

fn allowing(programs: &[&str]) -> Setup {
    let exec = Allowed::Programs(programs.iter().map(|program| (*program).to_owned()).collect());
    let environment =
        [("PATH", "/usr/bin:/bin"), ("HOME", "/nowhere"), ("LANG", "C"), ("LD_PRELOAD", "x"), ("AWS_KEY", "x")];
    let environment = environment.map(|(name, text)| (name.to_owned(), text.to_owned())).into();
    Setup { exec, environment, ..setup() }
}

fn exec(argv: &[&str]) -> Exec {
    Exec { argv: argv.iter().map(|text| (*text).to_owned()).collect(), env: BTreeMap::new() }
}

async fn shell(script: &str) -> Result<Ended, Trouble> {
    run_with(allowing(&[SHELL]), Action::Exec(exec(&[SHELL, "-c", script]))).await
}

#[tokio::test]
async fn only_what_is_on_the_list_is_run_letter_by_letter() {
    let refused = async |setup: Setup, program: &str| {
        let trouble = run_with(setup, Action::Exec(exec(&[program, "-c", "true"]))).await.unwrap_err();
        assert_eq!((trouble.kind, trouble.again), (FailureKind::Stage, false), "{program}");
        assert!(trouble.message.contains("WL-5003"), "{}", trouble.message);
    };
    refused(setup(), SHELL).await;
    for program in [
        "sh",
        "/bin/../bin/sh",
        "/bin//sh",
        "/bin/./sh",
        "bin/sh",
        "/bin/sh ",
        "/bin/s",
        "/bin/shx",
        "",
        "/usr/bin/env",
    ] {
        refused(allowing(&[SHELL]), program).await;
    }
    refused(allowing(&["sh"]), "/bin/sh").await;
    refused(allowing(&["sh"]), "./sh").await;
    run_with(allowing(&["sh"]), Action::Exec(exec(&["sh", "-c", "true"]))).await.unwrap();
    // It is judged after rendering, not before.
    refused(allowing(&["{{ 'sh' }}"]), "{{ 'sh' }}").await;
}

#[tokio::test]
async fn a_stage_cannot_make_an_allowed_name_another_program() {
    let folder = tempfile::tempdir().unwrap();
    let trap = folder.path().join("sh");
    std::fs::write(&trap, "#!/bin/sh\necho trapped\n").unwrap();
    std::fs::set_permissions(&trap, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let mut it = exec(&["sh", "-c", "echo $0 fine"]);
    it.env.insert("PATH".to_owned(), Text::Template(folder.path().display().to_string()));
    let output = returned(run_with(allowing(&["sh"]), Action::Exec(it.clone())).await);
    assert!(output.contains("sh fine"), "{output}");
    it.env.insert("LD_PRELOAD".to_owned(), Text::Template("/tmp/x.so".to_owned()));
    assert!(!run_with(allowing(&["sh"]), Action::Exec(it)).await.unwrap_err().again);
}

#[tokio::test]
async fn a_program_sees_little_of_the_environment_and_all_that_it_is_told() {
    let mut it = exec(&["env"]);
    it.env.insert("VERSION".to_owned(), Text::Template("v{{ config.version }}".to_owned()));
    let output = returned(run_with(allowing(&["env"]), Action::Exec(it)).await);
    let output: serde_json::Value = serde_json::from_str(&output).unwrap();
    let mut lines: Vec<&str> = output["stdout"].as_str().unwrap().lines().collect();
    lines.sort_unstable();
    let wanted = [
        "HOME=/nowhere",
        "LANG=C",
        "PATH=/usr/bin:/bin",
        "VERSION=v42",
        "WINDLASS_ATTEMPT=3",
        "WINDLASS_FENCE=77",
        "WINDLASS_IDEMPOTENCY_KEY=p1/t1/s1/2",
        "WINDLASS_PLAN=p1",
        "WINDLASS_STAGE=s1",
        "WINDLASS_TASK=t1",
        "WINDLASS_TENANT=acme",
    ];
    assert_eq!(lines, wanted);
}

#[tokio::test]
async fn arguments_are_rendered_and_no_shell_reads_them() {
    let it = exec(&["/bin/echo", "{{ tenant }}", "$HOME; *", "a b"]);
    let output = returned(run_with(allowing(&["/bin/echo"]), Action::Exec(it)).await);
    assert_eq!(output, r#"{"status":0,"stdout":"acme $HOME; * a b\n","stderr":""}"#);
}

#[tokio::test]
async fn output_that_is_json_is_offered_as_json() {
    let output = returned(shell(r#"echo '{"n": 18446744073709551615}'; echo note >&2"#).await);
    let wanted = r#"{"status":0,"stdout":"{\"n\": 18446744073709551615}\n","stderr":"note\n","json":{"n":18446744073709551615}}"#;
    assert_eq!(output, wanted);
}

#[tokio::test]
async fn long_output_is_cut_and_the_program_does_not_wait_for_a_reader() {
    let output =
        returned(shell("head -c 3000000 /dev/zero | tr '\\0' x; head -c 3000000 /dev/zero | tr '\\0' y >&2").await);
    let output: serde_json::Value = serde_json::from_str(&output).unwrap();
    for (stream, flag, letter) in [("stdout", "stdoutTruncated", "x"), ("stderr", "stderrTruncated", "y")] {
        assert_eq!(output[stream].as_str().unwrap(), letter.repeat(64 * 1024));
        assert_eq!(output[flag], true);
    }
}

#[tokio::test]
async fn a_failure_says_the_exit_code_and_the_last_words() {
    let trouble = shell("head -c 100000 /dev/zero | tr '\\0' y >&2; echo the reason >&2; exit 7").await.unwrap_err();
    assert!(trouble.again);
    assert!(trouble.message.starts_with("\"/bin/sh\" ended with exit code 7: yyy"), "{}", trouble.message);
    assert!(trouble.message.ends_with("the reason"), "{}", trouble.message);
    let trouble = shell("echo on stdout; exit 1").await.unwrap_err();
    assert!(trouble.message.ends_with("exit code 1: on stdout"), "{}", trouble.message);
    let trouble = shell("kill -KILL $$").await.unwrap_err();
    assert!(trouble.message.contains("signal"), "{}", trouble.message);
    let it = exec(&["/nowhere/program"]);
    let trouble = run_with(allowing(&["/nowhere/program"]), Action::Exec(it)).await.unwrap_err();
    assert!(trouble.again && trouble.message.contains("could not be run"), "{}", trouble.message);
}

#[tokio::test]
async fn a_secret_is_given_to_the_program_and_to_nobody_else() {
    let mut it =
        exec(&[SHELL, "-c", r#"test "$TOKEN" = 'Bearer s3cret-t0ken' && echo "\"$TOKEN\"" && echo "$TOKEN" >&2"#]);
    it.env.insert("TOKEN".to_owned(), secret());
    let output = returned(run_with(allowing(&[SHELL]), Action::Exec(it.clone())).await);
    assert_eq!(output, r#"{"status":0,"stdout":"\"***\"\n","stderr":"***\n","json":"***"}"#);
    it.argv[2] = r#"echo "token ${TOKEN#Bearer } is bad" >&2; exit 1"#.to_owned();
    let message = run_with(allowing(&[SHELL]), Action::Exec(it)).await.unwrap_err().message;
    assert!(message.ends_with("token *** is bad"), "{message}");
}

/// A pipe with a name. Whoever has it open for writing is alive: when the last one is gone, the reader is told.
fn fifo(folder: &Path) -> PathBuf {
    let path = folder.join("fifo");
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    path
}

#[tokio::test]
async fn a_program_that_is_dropped_is_killed_with_its_children() {
    let folder = tempfile::tempdir().unwrap();
    let path = fifo(folder.path());
    let script = format!("exec 3>{}; (printf x >&3; exec sleep 1000) & printf x >&3; exec sleep 1000", path.display());
    let running = tokio::spawn(async move { shell(&script).await });
    let open = tokio::task::spawn_blocking(move || {
        let mut alive = File::open(path).unwrap();
        alive.read_exact(&mut [0; 2]).unwrap();
        alive
    });
    let mut alive = open.await.unwrap();
    running.abort();
    assert!(running.await.unwrap_err().is_cancelled());
    let rest = tokio::task::spawn_blocking(move || alive.read(&mut [0; 1]).unwrap());
    assert_eq!(rest.await.unwrap(), 0, "both are gone");
}

#[tokio::test]
async fn what_a_program_leaves_behind_ends_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = fifo(folder.path());
    let script = format!("exec 3>{}; sleep 1000 & echo done", path.display());
    let read = tokio::task::spawn_blocking(move || File::open(path).unwrap().read(&mut [0; 1]).unwrap());
    // The child holds the program's output too; nobody waits for it.
    assert_eq!(returned(shell(&script).await), r#"{"status":0,"stdout":"done\n","stderr":""}"#);
    assert_eq!(read.await.unwrap(), 0, "the child is gone");
}

#[tokio::test(start_paused = true)]
async fn one_that_left_the_group_does_not_hold_the_stage_up() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pid");
    // It has left when it has written its number.
    let script = format!(
        "mkfifo {0}.up; setsid sh -c 'echo $$ > {0}; echo > {0}.up; exec sleep 1000' & cat {0}.up",
        file.display()
    );
    shell(&script).await.unwrap();
    let pid: i32 = std::fs::read_to_string(file).unwrap().trim().parse().unwrap();
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("it lives: it is not ours to kill");
}
