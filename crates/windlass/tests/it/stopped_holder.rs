//! Two processes on one store of a server. One tenant has one winner at a time; and a holder that was stopped beyond its lease,
//! while somebody else took its task up, has every late write refused when it wakes: by the store, and by a target that
//! remembers fences. The processes are the example `puppet`.

mod target;

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use crate::{mysql_server, puppet, server, setting};
use target::{Gate, Run, Target};

const ROUNDS: u32 = 50;
const SOAK_ROUNDS: u32 = 1_000;
/// Rounds of the race for one tenant.
const RACES: u32 = 20;
const SOAK_RACES: u32 = 300;
/// How long something that must happen may take.
const PATIENCE: Duration = Duration::from_secs(60);

fn rounds(few: u32, many: u32) -> u32 {
    if setting("WINDLASS_SOAK").is_some() { many } else { few }
}

/// One process.
struct Instance {
    name: &'static str,
    child: Child,
    commands: ChildStdin,
    answers: Receiver<String>,
    /// What it says unasked: attempts that were lost.
    lost: Receiver<String>,
}

impl Instance {
    fn start(name: &'static str, store: &str, target: &Target) -> Instance {
        let mut command = Command::new(puppet());
        command.args(["serve", store, name, &target.address]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (commands, out) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let ((answer, answers), (lose, lost)) = (channel(), channel());
        std::thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                match (line.strip_prefix("= "), line.strip_prefix("lost ")) {
                    (Some(text), _) => drop(answer.send(text.to_owned())),
                    (None, Some(text)) => drop(lose.send(text.to_owned())),
                    (None, None) => panic!("{name} said {line:?}"),
                }
            }
        });
        let instance = Instance { name, child, commands, answers, lost };
        assert_eq!(instance.answer("start"), "up");
        instance
    }

    fn tell(&mut self, command: &str) {
        self.commands.write_all(format!("{command}\n").as_bytes()).unwrap();
    }

    fn answer(&self, to: &str) -> String {
        self.answers.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("{}: it never came to `{to}`", self.name))
    }

    fn ask(&mut self, command: &str) -> String {
        self.tell(command);
        self.answer(command)
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id().try_into().unwrap()).unwrap()
    }

    /// Stops all of it; when this returns, none of its threads runs any more.
    fn stop(&self) {
        kill_process(self.pid(), Signal::STOP).unwrap();
        let (_, status) = waitpid(Some(self.pid()), WaitOptions::UNTRACED).unwrap().unwrap();
        assert!(status.stopped(), "{}: {status:?}", self.name);
    }

    fn wake(&self) {
        kill_process(self.pid(), Signal::CONT).unwrap();
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // Stopped or not.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn two(store: &str) -> (Target, [Instance; 2]) {
    let target = Target::start();
    let instances = ["one", "two"].map(|name| Instance::start(name, store, &target));
    (target, instances)
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

#[test]
fn postgres_two_processes_that_want_one_tenant_have_it_one_after_the_other() {
    race(&runtime().block_on(server::schema()).url);
}

#[test]
fn mysql_two_processes_that_want_one_tenant_have_it_one_after_the_other() {
    let database = runtime().block_on(mysql_server::database());
    race(&database.url);
}

fn race(store: &str) {
    let (target, mut both) = two(store);
    let mut won = [0, 0];
    for round in 0..rounds(RACES, SOAK_RACES) {
        let plans = [format!("race-{round}-one"), format!("race-{round}-two")];
        target.hold(Gate::End, format!("race-{round}-"));
        for (instance, plan) in both.iter_mut().zip(&plans) {
            instance.tell(&format!("create {plan} acme"));
        }
        for (instance, plan) in both.iter().zip(&plans) {
            assert_eq!(instance.answer("create"), format!("created {plan}"));
        }
        let winner = target.held(PATIENCE);
        won[usize::from(winner.who == "two")] += 1;
        // The winner stays in its stage until the other has tried and was told to wait.
        let loser = plans.iter().find(|plan| *plan != winner.plan()).unwrap();
        assert_eq!(both[0].ask(&format!("locked {loser}")), "locked");
        target.give_leave();
        for (instance, plan) in both.iter_mut().zip(&plans) {
            assert_eq!(instance.ask(&format!("ended {plan}")), "COMPLETED");
            let (accepted, refused) = target.effects(plan);
            let stages: Vec<_> = accepted.iter().map(|run| run.stage.as_str()).collect();
            assert_eq!((stages, refused), (vec!["a", "b"], vec![]), "{plan}");
        }
        assert_eq!(target.overlaps(), [], "{plans:?}");
    }
    println!("{} races: one won {}, two won {}", won[0] + won[1], won[0], won[1]);
}

/// What the late writes of a stopped holder came to.
#[derive(Debug, Default)]
struct Late {
    /// The store refused the boundary for its fence, which it judges before anything else.
    refused: u32,
    /// It was told before it tried, or refused for something else.
    told: u32,
    /// The target refused an effect.
    effects: u32,
}

#[test]
fn postgres_a_holder_that_slept_beyond_its_lease_has_every_late_write_refused() {
    late(&runtime().block_on(server::schema()).url);
}

#[test]
fn mysql_a_holder_that_slept_beyond_its_lease_has_every_late_write_refused() {
    let database = runtime().block_on(mysql_server::database());
    late(&database.url);
}

fn late(store: &str) {
    let (target, mut both) = two(store);
    let rounds = rounds(ROUNDS, SOAK_ROUNDS);
    let mut late = Late::default();
    for round in 0..rounds {
        sleep_and_wake(round, &target, &mut both, &mut late);
    }
    println!("{rounds} holders slept: {late:?}");
    let lost: u32 = both.iter_mut().map(|instance| instance.ask("lost").parse::<u32>().unwrap()).sum();
    assert_eq!(lost, rounds, "every sleeper lost its task, and nobody else did");
    assert!(late.refused * 10 >= rounds * 6, "too few late writes were tried: {late:?}");
    assert!(late.effects > 0, "no late effect was tried: {late:?}");
}

/// One holder is stopped in its stage, another takes its task up, the first wakes.
fn sleep_and_wake(round: u32, target: &Target, both: &mut [Instance; 2], late: &mut Late) {
    let plan = format!("sleep-{round}");
    // Before its effect, or after it and just before the boundary.
    let key = format!("{plan}/");
    target.hold(if round.is_multiple_of(2) { Gate::Begin } else { Gate::End }, &key);
    assert_eq!(both[(round / 4 % 2) as usize].ask(&format!("create {plan} acme")), format!("created {plan}"));
    let sleeper = target.held(PATIENCE);
    let [one, two] = both;
    let (old, new) = if sleeper.who == one.name { (one, two) } else { (two, one) };
    old.stop();
    target.give_leave();
    assert_eq!(new.ask(&format!("interrupted {plan}")), "interrupted");
    // It wakes while the other is in the stage, or when everything is over.
    let inside = (round / 2).is_multiple_of(2);
    if inside {
        target.hold(Gate::End, &key);
    }
    assert_eq!(new.ask(&format!("retry {plan}")), "asked");
    let winner = match inside {
        true => target.held(PATIENCE),
        false => {
            assert_eq!(new.ask(&format!("ended {plan}")), "COMPLETED");
            target.effects(&plan).0.pop().unwrap()
        }
    };
    assert!(winner.who == new.name && winner.fence > sleeper.fence, "{winner:?} after {sleeper:?}");
    old.wake();
    let lost = old.lost.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("{plan}: {} did not lose it", old.name));
    assert!(lost.starts_with(&format!("{plan}-0 ")), "{lost}");
    match lost.contains("WL-3003") {
        true => late.refused += 1,
        false => late.told += 1,
    }
    if inside {
        assert_eq!(
            new.ask(&format!("holder {plan}")),
            winner.fence.to_string(),
            "the lock is not the sleeper's to give"
        );
        target.give_leave();
        assert_eq!(new.ask(&format!("ended {plan}")), "COMPLETED");
    }
    check_effects(&plan, target, &sleeper, &winner, round.is_multiple_of(2), late);
}

/// The second one's effects are there once, the sleeper's only from before it slept.
fn check_effects(plan: &str, target: &Target, sleeper: &Run, winner: &Run, slept_before: bool, late: &mut Late) {
    let (accepted, refused) = target.effects(plan);
    let of = |who: &str| {
        let of = accepted.iter().filter(|run| run.who == who);
        of.map(|run| (run.stage.as_str(), run.fence)).collect::<Vec<_>>()
    };
    let before = if slept_before { vec![] } else { vec![("a", sleeper.fence)] };
    assert_eq!(of(&sleeper.who), before, "{plan}: {accepted:?}");
    assert_eq!(of(&winner.who), [("a", winner.fence), ("b", winner.fence)], "{plan}: {accepted:?}");
    assert!(accepted.iter().filter(|run| run.stage == "a").all(|run| run.key == sleeper.key), "{accepted:?}");
    assert!(refused.iter().all(|run| run == sleeper), "{plan}: {refused:?}");
    late.effects += u32::try_from(refused.len()).unwrap();
}
