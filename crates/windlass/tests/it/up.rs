//! `windlass up` killed in the middle of a plan and started again, on every store; what is done to a store itself; and the
//! page for beginners, as it is written.

use std::path::Path;
use std::process::Command;

use rustix::process::Signal;

use super::demo::{LIMIT, Talker, Town, member};
use super::{mysql_server, redis_server, root, server, text};

/// A task's second stage lasts until there is a file with its tenant's name in the folder.
const PLAN: &str = r#"
plan: rest
id: rest
max_concurrency: 2
stages:
  - { name: first, sleep: 100ms }
  - { name: second, exec: [sh, -c, 'until [ -e "$0/$WINDLASS_TENANT" ]; do sleep 0.05; done', FOLDER] }
  - { name: third, sleep: 100ms }
tasks: [{ tenant: a }, { tenant: b }, { tenant: c }, { tenant: d }, { tenant: e }, { tenant: f }]
"#;

fn up(store: &str) -> Town {
    up_with(store, &[])
}

fn up_with(store: &str, environment: &[(&str, &str)]) -> Town {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
    command.args(["up", "--listen", "127.0.0.1:0", "--store", store]).current_dir(root());
    // Short, so that an instance that died is missed soon.
    command
        .env("WINDLASS_ENGINE_LEASE_MS", "1500")
        .env("WINDLASS_ENGINE_BEAT_MS", "400")
        .env("WINDLASS_EXEC_ALLOW", "sh");
    let mut process = Talker::start(command.envs(environment.iter().copied()));
    let line = process.until("address=", LIMIT);
    let address = line.split("address=").nth(1).unwrap().split(' ').next().unwrap().to_owned();
    Town::at(process, format!("http://{address}"))
}

fn killed_and_started_again(store: &str) {
    killed_and_started_again_with(store, &[]);
}

fn killed_and_started_again_with(store: &str, environment: &[(&str, &str)]) {
    let town = up_with(store, environment);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("plan.yaml");
    std::fs::write(&file, PLAN.replace("FOLDER", folder.path().to_str().unwrap())).unwrap();
    let open =
        |tenants: &[&str]| tenants.iter().for_each(|tenant| std::fs::write(folder.path().join(tenant), "").unwrap());
    open(&["a", "b"]);
    town.ask(&["plan", "create", file.to_str().unwrap(), "--start", "--reason", "a test"]);
    let created = town.ask(&["plan", "history", "rest", "-o", "json"]).remove(0);
    assert_eq!((member(&created, "/by").as_str(), member(&created, "/reason").as_str()), ("zoe", "a test"));
    let is = |lines: &[String], status: &str| lines.iter().filter(|line| member(line, "/status") == status).count();
    let tasks = ["plan", "tasks", "rest", "-o", "json"];
    town.ask_until(&tasks, |lines| ["COMPLETED", "RUNNING", "PENDING"].iter().all(|status| is(lines, status) == 2));
    town.process.end(Signal::KILL);
    open(&["c", "d", "e", "f"]);

    let town = up_with(store, environment);
    let of = |lines: &[String], kind: &str| -> Vec<String> {
        lines.iter().filter(|line| member(line, "/kind") == kind).map(|line| member(line, "/task")).collect()
    };
    let inbox = town.ask_until(&["inbox", "-o", "json"], |lines| {
        !of(lines, "interruptedPlan").is_empty() && of(lines, "interruptedTask").len() == 2
    });
    town.ask(&["plan", "resume", "rest"]);
    for task in of(&inbox, "interruptedTask") {
        town.ask(&["task", "retry", &task, "--wait=5m"]);
    }
    town.ask_until(&tasks, |lines| is(lines, "COMPLETED") == 6);
    for task in 0..6 {
        let history = town.ask(&["task", "history", &format!("rest-{task}"), "-o", "json"]);
        let completed = history.iter().filter(|line| member(line, "/type") == "StageCompleted");
        let stages: Vec<_> = completed.map(|line| member(line, "/data/at/stage")).collect();
        assert_eq!(stages, ["first", "second", "third"], "{history:?}");
    }
    assert!(town.ask(&["inbox", "-o", "json"]).is_empty());
    assert!(town.process.end(Signal::TERM).success());
}

#[test]
fn killed_and_started_again_on_the_embedded_store() {
    let folder = tempfile::tempdir().unwrap();
    killed_and_started_again(&format!("embedded:{}", folder.path().join("store").display()));
}

#[test]
fn killed_and_started_again_on_postgres() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    killed_and_started_again(&runtime.block_on(server::schema()).url);
}

#[test]
fn killed_and_started_again_on_mysql() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let database = runtime.block_on(mysql_server::database());
    killed_and_started_again(&database.url);
}

#[test]
fn killed_and_started_again_on_redis() {
    let space = redis_server::space();
    killed_and_started_again_with(&space.url, &[("WINDLASS_REDIS_PREFIX", &space.prefix)]);
}

#[test]
fn the_doctor_looks_at_redis_and_changes_nothing() {
    let server = redis_server::Server::start(&["--appendonly", "yes", "--appendfsync", "always"]);
    let examined = |more: &[(&str, &str)]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
        let args = ["doctor", "--store", &server.url(), "-o", "json"];
        let output = command.args(args).envs(more.iter().copied()).output().unwrap();
        let found: Vec<_> =
            text(&output.stdout).lines().map(|line| (member(line, "/what"), member(line, "/level"))).collect();
        (output.status.code(), found, text(&output.stdout))
    };
    let keys = || {
        let port = server.port().to_string();
        text(&Command::new("redis-cli").args(["-p", &port, "dbsize"]).output().unwrap().stdout)
    };
    let (code, found, said) = examined(&[]);
    assert_eq!(code, Some(0), "{said}");
    let is = |what: &str, level: &str| found.contains(&(what.to_owned(), level.to_owned()));
    for what in ["durability", "round trip"] {
        assert!(is(what, "good"), "{what}: {said}");
    }
    assert_eq!(keys().trim(), "0", "the doctor wrote something");
    let set = |name: &str, value: &str| {
        let port = server.port().to_string();
        let done = Command::new("redis-cli").args(["-p", &port, "config", "set", name, value]).output().unwrap();
        assert_eq!(text(&done.stdout).trim(), "OK");
    };
    set("appendfsync", "everysec");
    let (code, found, said) = examined(&[]);
    assert!(found.contains(&("durability".to_owned(), "doubtful".to_owned())), "{code:?} {said}");
    set("maxmemory-policy", "allkeys-lru");
    set("maxmemory", "100mb");
    let (code, _, said) = examined(&[]);
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("allkeys-lru"), "{said}");
}

#[test]
fn the_doctor_finds_what_migrate_mends() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let store = runtime.block_on(server::schema()).url;
    let with = |name: &str| {
        let args = [name, "--store", &store, "-o", "json"];
        Command::new(env!("CARGO_BIN_EXE_windlass"))
            .args(args)
            .env("WINDLASS_POSTGRES_MIGRATE", "false")
            .output()
            .unwrap()
    };
    let layout = |out: &str| out.lines().find(|line| member(line, "/what") == "layout").unwrap().to_owned();
    let before = with("doctor");
    assert_eq!(before.status.code(), Some(3), "{}", text(&before.stdout));
    assert_eq!(member(&layout(&text(&before.stdout)), "/mend"), "run `windlass migrate`");
    let migrated = with("migrate");
    assert!(
        migrated.status.success() && text(&migrated.stdout).starts_with("applied 1 "),
        "{}",
        text(&migrated.stdout)
    );
    let after = with("doctor");
    assert!(after.status.success(), "{}", text(&after.stdout));
    assert_eq!(member(&layout(&text(&after.stdout)), "/level"), "good");
    let purged = with("purge");
    assert!(text(&purged.stdout).starts_with("removed 0 "), "{}", text(&purged.stderr));
}

#[test]
fn the_schema_that_is_dumped_can_be_made() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let dump = super::windlass(&["schema", "dump"]);
    assert!(dump.status.success());
    runtime.block_on(async {
        let store = server::schema().await.url;
        let client = server::client(&store).await;
        client.batch_execute(&text(&dump.stdout)).await.unwrap();
        let tables = "SELECT count(*) FROM async_tasks, triggers, plan_state_projection, task_state_projection";
        assert_eq!(client.query_one(tables, &[]).await.unwrap().get::<_, i64>(0), 0);
    });
}

#[test]
fn the_page_for_beginners_works_as_it_is_written() {
    let page = std::fs::read_to_string(root().join("docs/first-plan.md")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let yaml = page.split("```yaml\n").nth(1).unwrap().split("```").next().unwrap();
    std::fs::write(folder.path().join("hello.yaml"), yaml).unwrap();
    let mut commands = page.lines().filter_map(|line| line.strip_prefix("    windlass "));
    assert_eq!(commands.next(), Some("up"));
    let town = up("memory:");
    let mut worker = None;
    for line in commands {
        let script = format!("windlass() {{ \"$EXE\" \"$@\"; }}\nwindlass {line}");
        let mut command = town.command(Path::new("sh"));
        command.env("EXE", env!("CARGO_BIN_EXE_windlass")).current_dir(folder.path());
        if line.starts_with("worker ") {
            let script = script.replace("\nwindlass ", "\nexec \"$EXE\" ");
            let mut begun = Talker::start(command.args(["-c", &script]));
            begun.until("Guten Morgen", LIMIT);
            worker = Some(begun);
            // What it did is known when both wait for a person.
            let waits = |lines: &[String]| lines.iter().filter(|line| member(line, "/kind") == "approval").count() == 2;
            town.ask_until(&["inbox", "-o", "json"], waits);
            continue;
        }
        let output = command.args(["-c", &script]).output().unwrap();
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        // A retry from the start asks again, and that is what the page says it waits for.
        let expected = if line.contains("--from-start") { 10 } else { 0 };
        assert_eq!(output.status.code(), Some(expected), "windlass {line}\n{out}\n{err}");
        if line.starts_with("why ") {
            assert!(out.contains("no worker"), "{out}");
        }
    }
    assert!(worker.unwrap().end(Signal::TERM).success());
}

#[test]
fn a_key_opens_what_its_role_may_and_is_never_printed() {
    let folder = tempfile::tempdir().unwrap();
    let keys = folder.path().join("keys.toml");
    let made = super::windlass(&["key", "create", "zoe", "--role", "viewer", "--file", keys.to_str().unwrap()]);
    assert!(made.status.success(), "{}", text(&made.stderr));
    let key = text(&made.stdout).split_whitespace().find(|word| word.starts_with("wl_")).unwrap().to_owned();
    let town = up_with("memory:", &[("WINDLASS_SERVER_KEYS", keys.to_str().unwrap())]);
    let with = |key: Option<&str>, args: &[&str]| {
        let mut command = town.command(Path::new(env!("CARGO_BIN_EXE_windlass")));
        let output = command.envs(key.map(|key| ("WINDLASS_KEY", key))).args(args).output().unwrap();
        let said = text(&output.stdout) + &text(&output.stderr);
        assert!(key.is_none_or(|key| !said.contains(key)), "{said}");
        output.status.code()
    };
    assert_eq!(with(None, &["inbox"]), Some(6));
    assert_eq!(with(Some("wl_none_none"), &["inbox"]), Some(6));
    assert_eq!(with(Some(&key), &["inbox"]), Some(0));
    assert_eq!(with(Some(&key), &["tenant", "freeze", "acme"]), Some(6));
}
