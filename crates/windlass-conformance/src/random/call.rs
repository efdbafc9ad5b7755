//! What is done: calls over a small universe, so that they meet. A call names things by number and
//! is made of what a store answers when its turn comes, so that any call can be left out.

/// Plans, tenants, tasks in a plan, instances, rivals.
pub(super) const PLANS: u32 = 3;
pub(super) const TENANTS: u32 = 4;
pub(super) const TASKS: u32 = 2;
pub(super) const INSTANCES: u32 = 3;
pub(super) const RIVALS: u32 = 3;

/// One call, by one rival. `n` makes its operation's id, and is never used twice.
#[derive(Debug, Clone)]
pub(super) struct Call {
    pub(super) n: u32,
    pub(super) rival: u32,
    pub(super) what: What,
}

/// What a call does.
#[derive(Debug, Clone)]
pub(super) enum What {
    /// The rival's clock jumps ahead.
    Later,
    Beat {
        instance: u32,
        lease: Lease,
    },
    Create {
        plan: u32,
        tenant: u32,
        at_once: u32,
    },
    Plan {
        plan: u32,
        go: Go,
        instance: u32,
        late: bool,
    },
    Ready {
        instance: u32,
        plan: Option<u32>,
        limit: u32,
    },
    Named {
        instance: u32,
        tasks: Vec<u32>,
    },
    Acquire {
        task: u32,
        long: bool,
    },
    Renew {
        task: u32,
        late: bool,
    },
    Release {
        task: u32,
        late: bool,
    },
    Force {
        tenant: u32,
        force: u32,
    },
    Owner {
        task: u32,
        does: Does,
        wrong: Wrong,
    },
    Claimer {
        task: u32,
        skips: bool,
        wrong: Wrong,
    },
    Person {
        task: u32,
        wants: Wants,
        wrong: Wrong,
    },
    /// The whole way into an attempt: beat, take, lock, begin.
    Run {
        instance: u32,
        task: u32,
    },
    PutOff {
        task: u32,
        epochs: u64,
    },
    /// The same step as `back` steps before, or another one under its id.
    Again {
        back: usize,
        reused: bool,
    },
    List {
        filter: u32,
        limit: u32,
    },
    Tenants {
        limit: u32,
    },
    Purge {
        old: bool,
    },
    PurgeLocks,
}

/// How an instance beats.
#[derive(Debug, Clone, Copy)]
pub(super) enum Lease {
    Ends,
    Short,
    Long,
}

/// Where a plan goes.
#[derive(Debug, Clone, Copy)]
pub(super) enum Go {
    Start,
    Pause,
    Resume,
    Settle,
}

/// What an owner writes.
#[derive(Debug, Clone, Copy)]
pub(super) enum Does {
    Begin,
    Stage,
    Onward,
    Approval,
    Fail,
    Forget,
}

/// What a person wants of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wants {
    Pause,
    Resume,
    Cancel,
    Retry,
    RetryFromStart,
    Rollback,
    Approve,
    Reject,
    Skip,
}

impl Wants {
    pub(super) const ALL: [Wants; 9] = [
        Wants::Pause,
        Wants::Resume,
        Wants::Cancel,
        Wants::Retry,
        Wants::RetryFromStart,
        Wants::Rollback,
        Wants::Approve,
        Wants::Reject,
        Wants::Skip,
    ];
}

/// What is wrong with a write, if anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wrong {
    Nothing,
    Fence,
    Owner,
    From,
    Version,
    Checkpoint,
    Task,
}

/// Splitmix64: the same numbers for the same seed, for ever.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Dice {
        Dice(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`.
    pub(crate) fn below(&mut self, n: u32) -> u32 {
        (self.next() % u64::from(n)) as u32
    }

    pub(crate) fn one_in(&mut self, n: u32) -> bool {
        self.below(n) == 0
    }

    pub(crate) fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u32) as usize]
    }

    fn task(&mut self) -> u32 {
        self.below(PLANS * TASKS)
    }

    fn wrong(&mut self) -> Wrong {
        use Wrong::{Checkpoint, Fence, From, Nothing, Owner, Task, Version};
        if self.one_in(5) { self.of(&[Fence, Owner, From, Version, Checkpoint, Task]) } else { Nothing }
    }
}

/// A sequence that begins with something to work on.
pub(super) fn sequence(dice: &mut Dice, calls: u32) -> Vec<Call> {
    (0..calls)
        .map(|n| {
            let rival = dice.below(RIVALS);
            let what = match n {
                0..3 => What::Beat { instance: n, lease: Lease::Long },
                3 | 4 => What::Create { plan: n - 3, tenant: dice.below(TENANTS), at_once: 1 + dice.below(3) },
                5 => What::Plan { plan: 0, go: Go::Start, instance: dice.below(INSTANCES), late: false },
                _ => what(dice),
            };
            Call { n, rival, what }
        })
        .collect()
}

fn what(dice: &mut Dice) -> What {
    match dice.below(100) {
        0..2 => What::Later,
        2..9 => What::Beat {
            instance: dice.below(INSTANCES),
            lease: dice.of(&[Lease::Short, Lease::Short, Lease::Long, Lease::Long, Lease::Ends]),
        },
        9..14 => What::Create { plan: dice.below(PLANS), tenant: dice.below(TENANTS), at_once: 1 + dice.below(3) },
        14..22 => What::Plan {
            plan: dice.below(PLANS),
            go: dice.of(&[Go::Start, Go::Start, Go::Pause, Go::Resume, Go::Resume, Go::Settle, Go::Settle]),
            instance: dice.below(INSTANCES),
            late: dice.one_in(6),
        },
        22..28 => What::Ready {
            instance: dice.below(INSTANCES),
            plan: if dice.one_in(2) { Some(dice.below(PLANS)) } else { None },
            limit: dice.of(&[0, 1, 2, 100, 100]),
        },
        28..36 => {
            let tasks = (0..1 + dice.below(2)).map(|_| dice.task()).collect();
            What::Named { instance: dice.below(INSTANCES), tasks }
        }
        36..43 => What::Acquire { task: dice.task(), long: dice.one_in(2) },
        43..45 => What::Renew { task: dice.task(), late: dice.one_in(3) },
        45..48 => What::Release { task: dice.task(), late: dice.one_in(3) },
        48..50 => What::Force { tenant: dice.below(TENANTS), force: dice.below(3) },
        50..56 => What::Run { instance: dice.below(INSTANCES), task: dice.task() },
        56..72 => What::Owner {
            task: dice.task(),
            does: dice.of(&[
                Does::Begin,
                Does::Begin,
                Does::Begin,
                Does::Stage,
                Does::Stage,
                Does::Stage,
                Does::Onward,
                Does::Approval,
                Does::Fail,
                Does::Forget,
            ]),
            wrong: dice.wrong(),
        },
        72..74 => What::Claimer { task: dice.task(), skips: dice.one_in(2), wrong: dice.wrong() },
        74..84 => What::Person { task: dice.task(), wants: dice.of(&Wants::ALL), wrong: dice.wrong() },
        84..86 => What::PutOff { task: dice.task(), epochs: u64::from(dice.below(3)) },
        86..91 => What::Again { back: dice.below(4) as usize, reused: dice.one_in(4) },
        91..95 => What::List { filter: dice.below(6), limit: dice.of(&[1, 2, 3, 1_000]) },
        95..97 => What::Tenants { limit: dice.of(&[1, 2, 1_000]) },
        97..99 => What::Purge { old: dice.one_in(2) },
        _ => What::PurgeLocks,
    }
}
