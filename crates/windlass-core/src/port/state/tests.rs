use super::*;
use crate::event::Fact;
use crate::fixture::{checkpoint, created, event, ran, told};
use crate::port::BATCH_MAX;
use crate::task::status::TaskStatus;

fn put(task: Task, from: &[TaskStatus]) -> TaskPut {
    TaskPut { task, from: Statuses::of(from), version: 1, spec: None }
}

fn step(by: Writer, tasks: Vec<TaskPut>) -> Step {
    Step {
        op: Op { id: "op".parse().unwrap(), digest: 1 },
        by,
        plan: None,
        tasks,
        checkpoint: CheckpointPut::Keep,
        ask: None,
        events: Vec::new(),
        answer: None,
    }
}

fn person() -> Writer {
    Writer::Person("ann".parse().unwrap())
}

fn owners() -> [Writer; 2] {
    let instance: InstanceId = "i1".parse().unwrap();
    [Writer::Owner { instance: instance.clone(), fence: Fence(1) }, Writer::Claimer(instance)]
}

fn ask() -> Option<Ask> {
    Some(Ask { task: "t1".parse().unwrap(), from: Statuses::ALL, request: Request::Unpause })
}

fn refusal(step: &Step) -> String {
    step.check().err().map_or("taken".to_owned(), |refusal| refusal.to_string())
}

#[test]
fn an_owners_step_has_exactly_one_task() {
    for by in owners() {
        let one = || put(told(&ran(1)), &[TaskStatus::Running]);
        assert_eq!(refusal(&step(by.clone(), vec![one()])), "taken");
        for tasks in [vec![], vec![one(), one()]] {
            assert_eq!(refusal(&step(by.clone(), tasks)), "WL-3013 an owner's step has exactly one task");
        }
    }
}

#[test]
fn a_checkpoint_goes_with_exactly_one_task() {
    let task = || put(created(4), &[]);
    for checkpoint in [CheckpointPut::Put(checkpoint(1)), CheckpointPut::Remove] {
        for (tasks, ask, taken) in [
            (vec![task()], None, true),
            (vec![task()], ask(), true),
            (vec![], ask(), true),
            (vec![], None, false),
            (vec![task(), task()], None, false),
            (vec![task(), task()], ask(), false),
        ] {
            let step = Step { checkpoint: checkpoint.clone(), ask, ..step(person(), tasks) };
            let says = if taken { "taken" } else { "WL-3013 a checkpoint goes with exactly one task" };
            assert_eq!(refusal(&step), says);
        }
    }
}

#[test]
fn a_step_must_change_something() {
    assert_eq!(refusal(&step(person(), vec![])), "WL-3013 the step changes nothing");
    assert_eq!(refusal(&Step { ask: ask(), ..step(person(), vec![]) }), "taken");
    assert_eq!(refusal(&Step { events: vec![event(1, Fact::TenantFrozen)], ..step(person(), vec![]) }), "taken");
}

#[test]
fn no_step_leaves_a_state_in_a_way_that_the_table_does_not_have() {
    for from in TaskStatus::ALL {
        for to in TaskStatus::ALL {
            let task = Task { status: to, ..created(4) };
            for by in [person(), owners()[0].clone()] {
                let says = refusal(&step(by, vec![put(task.clone(), &[from])]));
                let expected = format!("WL-3005 it is {from}; expected one that may become {to}");
                assert_eq!(says, if from.may_become(to) { "taken".to_owned() } else { expected });
            }
        }
    }
    let completed = Task { status: TaskStatus::Completed, ..created(4) };
    let any = step(person(), vec![put(completed, &[TaskStatus::Running, TaskStatus::Cancelled])]);
    assert_eq!(refusal(&any), "WL-3005 it is CANCELLED; expected one that may become COMPLETED", "each of them counts");
}

#[test]
fn a_step_is_bounded() {
    let tasks = |n| step(person(), vec![put(created(1), &[]); n]);
    assert_eq!(refusal(&tasks(BATCH_MAX)), "taken");
    assert_eq!(refusal(&tasks(BATCH_MAX + 1)), "WL-3013 the step is too large");
    let events = |n| Step { events: vec![event(1, Fact::TenantFrozen); n], ..step(person(), vec![]) };
    assert_eq!(refusal(&events(4 * BATCH_MAX)), "taken");
    assert_eq!(refusal(&events(4 * BATCH_MAX + 1)), "WL-3013 the step is too large");
}
