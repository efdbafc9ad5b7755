//! Several `windlass up` on one server, as people run them: a tenant has one task at a time, a trigger's time makes one job and one
//! plan, whoever is killed is followed by those that were up, and what is said to one is done by whoever it concerns.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use rustix::process::Signal;

use super::demo::{LIMIT, Talker, Town, member};
use super::{mysql_server, redis_server, root, server};
use windlass::core::time::Ms;

/// Where they meet.
struct Place {
    url: String,
    environment: Vec<(&'static str, String)>,
    /// It is there as long as this is.
    _database: Option<mysql_server::Database>,
}

fn postgres() -> Place {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    Place { url: runtime.block_on(server::schema()).url, environment: Vec::new(), _database: None }
}

fn mysql() -> Place {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let database = runtime.block_on(mysql_server::database());
    Place { url: database.url.clone(), environment: Vec::new(), _database: Some(database) }
}

fn redis() -> Place {
    let space = redis_server::space();
    Place { url: space.url, environment: vec![("WINDLASS_REDIS_PREFIX", space.prefix)], _database: None }
}

/// One of them.
struct Member {
    town: Town,
    instance: String,
}

struct Club {
    members: Vec<Member>,
    files: tempfile::TempDir,
}

impl Club {
    fn meet(place: &Place, count: usize) -> Club {
        let members = (0..count).map(|_| Member::start(place)).collect();
        Club { members, files: tempfile::tempdir().unwrap() }
    }

    fn ask(&self, n: usize, args: &[&str]) -> Vec<String> {
        self.members[n % self.members.len()].town.ask(args)
    }

    fn until(&self, n: usize, args: &[&str], fits: impl Fn(&[String]) -> bool) -> Vec<String> {
        self.members[n % self.members.len()].town.ask_until(args, fits)
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let file = self.files.path().join(name);
        std::fs::write(&file, text).unwrap();
        file
    }

    /// Creates and starts a plan at one of them.
    fn plan(&self, n: usize, id: &str, settings: &str, stages: &str, tenants: &[String]) {
        let tasks: Vec<_> = tenants.iter().map(|tenant| format!("{{ tenant: {tenant} }}")).collect();
        let yaml = format!("plan: p\nid: {id}\n{settings}stages: [{stages}]\ntasks: [{}]\n", tasks.join(", "));
        let file = self.file(&format!("{id}.yaml"), &yaml);
        self.ask(n, &["plan", "create", file.to_str().unwrap(), "--start"]);
    }

    fn tasks(&self, n: usize, id: &str, fits: impl Fn(&[String]) -> bool) -> Vec<String> {
        self.until(n, &["plan", "tasks", id, "-o", "json"], fits)
    }

    fn end(self) {
        for member in self.members {
            member.town.process.end(Signal::TERM);
        }
    }
}

impl Member {
    fn start(place: &Place) -> Member {
        let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
        command.args(["up", "--listen", "127.0.0.1:0", "--store", &place.url]).current_dir(root());
        // Short, so that an instance that died is missed soon; small, so that none of them can do everything.
        command.env("WINDLASS_ENGINE_LEASE_MS", "2000").env("WINDLASS_ENGINE_BEAT_MS", "400");
        command.env("WINDLASS_ENGINE_TASKS_MAX", "2").env("WINDLASS_EXEC_ALLOW", "sh");
        let environment = place.environment.iter().map(|(name, value)| (*name, value.as_str()));
        let mut process = Talker::start(command.envs(environment));
        let line = process.until("address=", LIMIT);
        let word = |name: &str| line.split(name).nth(1).unwrap().split(' ').next().unwrap().to_owned();
        let (address, instance) = (word("address="), word("instance="));
        Member { town: Town::at(process, format!("http://{address}")), instance }
    }
}

fn count(lines: &[String], status: &str) -> usize {
    lines.iter().filter(|line| member(line, "/status") == status).count()
}

fn owners(lines: &[String]) -> Vec<String> {
    let mut owners: Vec<_> =
        lines.iter().map(|line| member(line, "/owner")).filter(|owner| !owner.is_empty()).collect();
    owners.sort();
    owners.dedup();
    owners
}

/// Everybody wants the same tenant: one after the other has it, under fences that grow.
fn one_tenant(club: &Club) {
    let count = club.members.len();
    for n in 0..count {
        let stages = "{ name: a, sleep: 50ms }, { name: b, sleep: 50ms }";
        club.plan(n, &format!("want-{n}"), "on_conflict: wait\n", stages, &["acme".to_owned()]);
    }
    let mut runs = Vec::new();
    for n in 0..count {
        club.tasks(n + 1, &format!("want-{n}"), |lines| self::count(lines, "COMPLETED") == 1);
        let history = club.ask(n, &["task", "history", &format!("want-{n}-0"), "-o", "json"]);
        let of = |kind: &str| history.iter().find(|line| member(line, "/type") == kind).unwrap().clone();
        let begun: serde_json::Value = serde_json::from_str(&of("TaskStarted")).unwrap();
        let fence = begun.pointer("/data/fence").and_then(serde_json::Value::as_u64).unwrap();
        runs.push((fence, member(&of("TaskStarted"), "/at"), member(&of("TaskCompleted"), "/at")));
    }
    runs.sort();
    for pair in runs.windows(2) {
        assert!(pair[0].2 <= pair[1].1, "two at once: {pair:?}");
        assert!(pair[0].0 < pair[1].0, "{pair:?}");
    }
}

/// Everybody has a scheduler: each time of a trigger makes one job, or one plan, and none is left out.
fn one_for_each_time(club: &Club) {
    let job = club.file("job.json", r#"{"schedule": {"every": "200ms"}, "target": {"job": {"queue": "q"}}}"#);
    let plan = r#"{"plan": "tick", "stages": [{"name": "a", "sleep": "1ms"}], "tasks": [{"tenant": "clock"}]}"#;
    let plan = format!(r#"{{"schedule": {{"every": "400ms"}}, "target": {{"plan": {plan}}}}}"#);
    let plan = club.file("plan.json", &plan);
    club.ask(0, &["trigger", "create", "--id", "jobs", job.to_str().unwrap()]);
    club.ask(1, &["trigger", "create", "--id", "plans", plan.to_str().unwrap()]);
    let jobs = ["job", "list", "--queue", "q", "-o", "json"];
    club.until(1, &jobs, |lines| lines.len() >= 12);
    let made = |lines: &[String]| -> Vec<String> {
        lines.iter().map(|line| member(line, "/planId")).filter(|id| id.starts_with("tick-")).collect()
    };
    club.until(0, &["plan", "list", "-o", "json"], |lines| made(lines).len() >= 5);
    for id in ["jobs", "plans"] {
        club.ask(0, &["trigger", "pause", id]);
        club.until(1, &["trigger", "show", id, "-o", "json"], |lines| member(&lines[0], "/status") == "PENDING");
    }
    let mut times = BTreeMap::new();
    for line in club.ask(0, &jobs) {
        let key = member(&line, "/key");
        let at: u64 = key.rsplit_once('@').unwrap().1.parse().unwrap();
        assert_eq!(times.insert(at, line), None, "two jobs of {key}");
    }
    let times: Vec<u64> = times.into_keys().collect();
    assert!(times.windows(2).all(|pair| pair[1] - pair[0] == 200), "{times:?}");
    // What each time made, as the trigger tells it: all plans there are, and no two of one time.
    let notes = club.ask(1, &["trigger", "notes", "plans", "-o", "json"]);
    let time = |line: &String| Ms::parse(&member(line, "/occurrence")).unwrap().get();
    let mut times: Vec<u64> = notes.iter().map(time).collect();
    times.sort_unstable();
    assert!(times.windows(2).all(|pair| pair[1] - pair[0] == 400), "{notes:?}");
    let mut told: Vec<String> = notes.iter().map(|line| member(line, "/made/plan")).collect();
    let mut plans = made(&club.ask(1, &["plan", "list", "-o", "json"]));
    told.sort();
    plans.sort();
    assert_eq!(told, plans);
}

/// What is said to one reaches the work of the others.
fn commands_reach_everybody(club: &Club) {
    let tenants: Vec<_> = (0..4).map(|n| format!("far-{n}")).collect();
    club.plan(0, "far", "max_concurrency: 8\n", "{ name: a, sleep: 1h }, { name: b, sleep: 1ms }", &tenants);
    let lines = club.tasks(0, "far", |lines| count(lines, "RUNNING") == 4);
    assert!(owners(&lines).len() >= 2, "one of them has everything: {lines:?}");
    for line in &lines {
        // By one that does not run it.
        let other = club.members.iter().position(|one| one.instance != member(line, "/owner")).unwrap();
        club.ask(other, &["task", "pause", &member(line, "/taskId"), "--reason", "from afar"]);
    }
    let lines = club.tasks(1, "far", |lines| count(lines, "PAUSED") == 4);
    assert_eq!(owners(&lines), Vec::<String>::new());
    club.ask(1, &["task", "resume", "far-0"]);
    club.tasks(0, "far", |lines| count(lines, "RUNNING") == 1);
    club.ask(club.members.len() - 1, &["plan", "cancel", "far"]);
    club.tasks(0, "far", |lines| count(lines, "CANCELLED") == 4);
}

/// The one that conducts a plan is killed: another that was up goes on with it, and a person decides on what the dead one ran.
fn somebody_dies(club: &mut Club) {
    const TENANTS: usize = 16;
    // More at once than the others have room for: whoever conducts it runs some of it too.
    let tenants: Vec<_> = (0..TENANTS).map(|n| format!("die-{n}")).collect();
    // Nobody comes past the second stage before the kill.
    let gate = club.files.path().join("gate");
    let wait = format!("exec: [sh, -c, 'until [ -e \"$0\" ]; do sleep 0.05; done', {}]", gate.display());
    let stages = format!("{{ name: a, sleep: 50ms }}, {{ name: b, {wait} }}, {{ name: c, sleep: 50ms }}");
    club.plan(0, "die", "max_concurrency: 8\n", &stages, &tenants);
    let victim = club.members[0].instance.clone();
    let has_some = |lines: &[String]| {
        let of = |line: &&String| member(line, "/owner") == victim && member(line, "/status") == "RUNNING";
        count(lines, "PENDING") > 0 && lines.iter().any(|line| of(&line))
    };
    club.tasks(1, "die", has_some);
    club.members.remove(0).town.process.end(Signal::KILL);
    std::fs::write(&gate, "").unwrap();
    let cut = |lines: &[String]| -> Vec<String> {
        let tasks = lines.iter().filter(|line| member(line, "/kind") == "interruptedTask");
        tasks.map(|line| member(line, "/task")).collect()
    };
    // What nobody ran goes on without a person; what the dead one ran waits.
    let inbox = club.until(0, &["inbox", "-o", "json"], |lines| !cut(lines).is_empty());
    for task in cut(&inbox) {
        let why = club.ask(club.members.len() - 1, &["why", &task]).join("\n");
        assert!(why.contains(&victim), "{why}");
        club.ask(club.members.len() - 1, &["task", "retry", &task, "--reason", "it is gone"]);
    }
    club.tasks(0, "die", |lines| count(lines, "COMPLETED") == TENANTS);
    let history = club.ask(0, &["plan", "history", "die", "-o", "json"]);
    let conductors: Vec<_> = history.iter().map(|line| member(line, "/data/conductor")).collect();
    assert!(conductors.contains(&victim) && conductors.last().unwrap().is_empty(), "{history:?}");
    for n in 0..TENANTS {
        let history = club.ask(0, &["task", "history", &format!("die-{n}"), "-o", "json"]);
        let done: Vec<_> = history.iter().filter(|line| member(line, "/type") == "StageCompleted").collect();
        let stages: Vec<_> = done.iter().map(|line| member(line, "/data/at/stage")).collect();
        assert_eq!(stages, ["a", "b", "c"], "{history:?}");
    }
    assert_eq!(club.ask(0, &["inbox", "-o", "json"]), Vec::<String>::new());
}

fn together(place: &Place, count: usize) {
    let mut club = Club::meet(place, count);
    one_tenant(&club);
    one_for_each_time(&club);
    commands_reach_everybody(&club);
    somebody_dies(&mut club);
    club.end();
}

#[test]
fn two_on_postgres_work_as_one() {
    together(&postgres(), 2);
}

#[test]
fn four_on_postgres_work_as_one() {
    together(&postgres(), 4);
}

#[test]
fn two_on_mysql_work_as_one() {
    together(&mysql(), 2);
}

#[test]
fn four_on_mysql_work_as_one() {
    together(&mysql(), 4);
}

#[test]
fn two_on_redis_work_as_one() {
    together(&redis(), 2);
}

#[test]
fn four_on_redis_work_as_one() {
    together(&redis(), 4);
}
