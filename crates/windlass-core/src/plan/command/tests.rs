use super::*;
use crate::fixture::{event, golden, plan_spec};
use crate::plan::PlanStatus;
use crate::port::state::PlanRow;
use crate::projection::apply_plan;
use crate::task::status::TaskStatus;
use crate::time::Ms;

fn instance() -> InstanceId {
    "i2".parse().unwrap()
}

/// A plan of two tasks after these facts.
fn told(facts: &[Fact]) -> Plan {
    let created = event(1, Fact::PlanCreated { name: "p".parse().unwrap(), tasks: 2 });
    let plan = apply_plan(None, &plan_spec(), &created).unwrap();
    facts.iter().fold(plan, |plan, fact| apply_plan(Some(plan), &plan_spec(), &event(2, fact.clone())).unwrap())
}

/// A plan in some state, and whether its conductor's lease has expired.
fn scenes() -> Vec<(&'static str, Plan, bool)> {
    let tally = Tally::default();
    let running = || vec![Fact::PlanStarted { conductor: "i1".parse().unwrap() }];
    let then = |fact| told(&[running(), vec![fact]].concat());
    let cancelling = |plan| Plan { cancelled: true, ..plan };
    vec![
        ("READY", told(&[]), true),
        ("READY, cancelling", cancelling(told(&[])), true),
        ("RUNNING", told(&running()), false),
        ("RUNNING, interrupted", told(&running()), true),
        ("RUNNING, cancelling", cancelling(told(&running())), false),
        ("RUNNING, cancelling, interrupted", cancelling(told(&running())), true),
        ("PAUSED", then(Fact::PlanPaused), true),
        ("PAUSED, cancelling", cancelling(then(Fact::PlanPaused)), true),
        ("COMPLETED", then(Fact::PlanCompleted { tally }), true),
        ("FAILED", then(Fact::PlanFailed { tally }), true),
        ("CANCELLED", then(Fact::PlanCancelled { tally }), true),
    ]
}

fn commands() -> Vec<Command> {
    let conductor = instance();
    vec![
        Command::Start { conductor: conductor.clone() },
        Command::Pause,
        Command::Resume { conductor: conductor.clone() },
        Command::Cancel,
        Command::Reopen { conductor },
    ]
}

fn applied(plan: &Plan, decision: &Decision) -> Plan {
    let marked = Plan { cancelled: plan.cancelled || decision.cancel, ..plan.clone() };
    decision
        .facts
        .iter()
        .fold(marked, |plan, fact| apply_plan(Some(plan), &plan_spec(), &event(9, fact.clone())).unwrap())
}

#[test]
fn every_command_in_every_state_moves_as_the_table_says_or_says_why_not() {
    let mut table = String::from("What each command comes to in each state of a plan, and where that leads.\n");
    for (name, plan, expired) in scenes() {
        table.push_str(&format!("\n{name}\n"));
        for command in commands() {
            let says = match decide(&plan, expired, &command) {
                Ok(decision) => {
                    let mut parts: Vec<&str> = decision.facts.iter().map(Fact::name).collect();
                    parts.extend(decision.cancel.then_some("marked cancelled"));
                    let new = applied(&plan, &decision);
                    let by = new.conductor.map(|by| format!(", conducted by {by}")).unwrap_or_default();
                    format!(
                        "{} -> {}{by}",
                        if parts.is_empty() { "nothing".into() } else { parts.join(", ") },
                        new.status
                    )
                }
                Err(refused) => refused.to_string(),
            };
            table.push_str(&format!("  {:<8}{says}\n", command.name()));
        }
    }
    golden("plan-commands.txt", &table);
}

#[test]
fn what_is_called_possible_is_taken_and_nothing_else_is() {
    for (name, plan, expired) in scenes() {
        let possible = possible(&plan, expired);
        for command in commands() {
            let taken = decide(&plan, expired, &command).is_ok();
            match command {
                Command::Reopen { .. } if plan.status.is_final() => {
                    assert!(taken && possible == ["retry or rollback of a task"], "{name}");
                }
                Command::Reopen { .. } => {}
                _ => assert_eq!(taken, possible.contains(&command.name()), "{name}: {}", command.name()),
            }
        }
    }
}

#[test]
fn a_plan_ends_by_the_outcome_of_its_tasks_and_only_from_where_it_may() {
    let mut done = Tally::default();
    done.add(TaskStatus::Completed, 2);
    let mut mixed = done;
    mixed.add(TaskStatus::Failed, 1);
    let mut open = mixed;
    open.add(TaskStatus::Paused, 1);
    for (name, plan, _) in scenes() {
        let names = [done, mixed, open].map(|tally| settle(&plan, tally).map_or("-", |fact| fact.name()));
        let expected = match plan.status {
            PlanStatus::Ready | PlanStatus::Running | PlanStatus::Paused if plan.cancelled => {
                ["PlanCancelled", "PlanCancelled", "-"]
            }
            PlanStatus::Running | PlanStatus::Paused => ["PlanCompleted", "PlanFailed", "-"],
            _ => ["-", "-", "-"],
        };
        assert_eq!(names, expected, "{name}");
    }
    let Some(Fact::PlanFailed { tally }) = settle(&told(&[Fact::PlanStarted { conductor: instance() }]), mixed) else {
        panic!("it fails")
    };
    assert_eq!(tally, mixed, "with counts by outcome");
}

#[test]
fn a_cancelled_plan_that_is_reopened_may_be_cancelled_again() {
    let (_, plan, _) = scenes().pop().unwrap();
    assert!(plan.cancelled && plan.ended_at.is_some());
    let reopened = applied(&plan, &decide(&plan, true, &Command::Reopen { conductor: instance() }).unwrap());
    assert_eq!((reopened.cancelled, reopened.ended_at, reopened.conductor.clone()), (false, None, Some(instance())));
    assert!(decide(&reopened, false, &Command::Cancel).unwrap().cancel);
}

#[test]
fn what_was_written_of_a_plan_since_its_start_is_seen() {
    let start = || Fact::PlanStarted { conductor: instance() };
    let row = |plan: &Plan, seq| PlanRow { plan: plan.clone(), version: 1, seq };
    let ready = told(&[]);
    assert!(!row(&ready, 1).is_as_started());
    let plan = told(&[start()]);
    assert!(row(&plan, 2).is_as_started());
    // Even by a clock that is late.
    for now in [Ms::ZERO, plan.updated_at, plan.updated_at.plus(1_000)] {
        let asked = plan.touched(now);
        assert!(!row(&asked, 2).is_as_started());
        assert!(!row(&asked.touched(now), 2).is_as_started());
    }
    let resumed = told(&[start(), Fact::PlanPaused, Fact::PlanResumed { conductor: instance() }]);
    let same_time = Plan { updated_at: plan.updated_at, ..resumed };
    assert!(!row(&same_time, 4).is_as_started());
}
