//! What is done: calls over a small universe, so that they meet. A call names things by number and is made of what a
//! store answered before, so that any call can be left out.

use crate::random::Dice;

/// Jobs, queues, tenants, keys, rivals, scopes of rules.
pub(super) const JOBS: u32 = 14;
pub(super) const QUEUES: u32 = 2;
pub(super) const TENANTS: u32 = 3;
pub(super) const KEYS: u32 = 2;
pub(super) const RIVALS: u32 = 3;
pub(super) const SCOPES: u32 = QUEUES + TENANTS + 1;
/// More than there is of anything.
pub(super) const ALL: u32 = 500;

/// One call, by one rival.
#[derive(Debug, Clone)]
pub(super) struct Call {
    pub(super) rival: u32,
    pub(super) what: What,
}

/// What a call does.
#[derive(Debug, Clone)]
pub(super) enum What {
    /// The rival's clock jumps ahead.
    Later,
    Restart,
    Submit(Vec<Vec<Draft>>),
    /// The same groups as `back` submissions before.
    Again {
        back: usize,
    },
    Turn(Vec<Speech>),
    Ask {
        jobs: Vec<u32>,
        requeue: bool,
    },
    Rule {
        scope: u32,
        running: Option<u32>,
        waiting: Option<u32>,
        held: bool,
    },
    Sweep,
    Purge {
        all: bool,
    },
    List {
        filter: u32,
        limit: u32,
    },
    Queues {
        limit: u32,
    },
    Ended,
}

/// A job to be submitted.
#[derive(Debug, Clone)]
pub(super) struct Draft {
    pub(super) job: u32,
    pub(super) queue: u32,
    pub(super) tenant: Option<u32>,
    pub(super) priority: i8,
    pub(super) when: When,
    pub(super) attempts: u32,
    pub(super) timeout: Option<bool>,
    pub(super) key: Option<u32>,
    pub(super) body: u32,
}

/// When a job may begin; long lasts over one jump of a clock and not over two.
#[derive(Debug, Clone, Copy)]
pub(super) enum When {
    Now,
    Soon,
    Long,
    Fixed,
}

/// A worker's turn. Jobs are those it was given, or the delivery before that.
#[derive(Debug, Clone)]
pub(super) struct Speech {
    pub(super) worker: u32,
    pub(super) long: bool,
    pub(super) settle: Vec<(u32, Says, bool)>,
    pub(super) beat: Vec<(u32, bool)>,
    pub(super) want: Vec<(u32, u32)>,
}

/// What a worker says.
#[derive(Debug, Clone, Copy)]
pub(super) enum Says {
    Done,
    Failed { retry: bool },
    Released,
    TooDeep,
}

pub(super) fn sequence(dice: &mut Dice, calls: u32) -> Vec<Call> {
    (0..calls).map(|_| Call { rival: dice.below(RIVALS), what: what(dice) }).collect()
}

fn what(dice: &mut Dice) -> What {
    match dice.below(100) {
        0..7 => What::Later,
        7..8 => What::Restart,
        8..28 => {
            let groups = 1 + dice.below(2);
            What::Submit((0..groups).map(|_| (0..1 + dice.below(3)).map(|_| draft(dice)).collect()).collect())
        }
        28..31 => What::Again { back: dice.below(3) as usize },
        31..68 => {
            let mut turns = vec![speech(dice)];
            if dice.one_in(4) {
                // Whether this one is seen by the turn before is open if it settles.
                turns.push(Speech { settle: Vec::new(), beat: Vec::new(), ..speech(dice) });
            }
            What::Turn(turns)
        }
        68..76 => What::Ask { jobs: jobs(dice, 3), requeue: dice.one_in(2) },
        76..83 => What::Rule {
            scope: dice.below(SCOPES),
            running: dice.of(&[None, None, Some(0), Some(1), Some(2)]),
            waiting: dice.of(&[None, None, Some(1), Some(3)]),
            held: dice.one_in(5),
        },
        83..86 => What::Sweep,
        86..88 => What::Purge { all: dice.one_in(2) },
        88..92 => What::List { filter: dice.below(FILTERS), limit: dice.of(&[1, 2, 3, 1_000]) },
        92..95 => What::Queues { limit: dice.of(&[1, 1_000]) },
        _ => What::Ended,
    }
}

/// Filters of lists.
pub(super) const FILTERS: u32 = 6;

fn draft(dice: &mut Dice) -> Draft {
    Draft {
        job: dice.below(JOBS),
        queue: dice.below(QUEUES),
        tenant: Some(dice.below(TENANTS + 1)).filter(|tenant| *tenant < TENANTS),
        priority: dice.of(&[0, 0, 0, 1, -1]),
        when: dice.of(&[When::Now, When::Now, When::Now, When::Soon, When::Long, When::Fixed]),
        attempts: 1 + dice.below(3),
        timeout: dice.of(&[None, None, None, Some(false), Some(true)]),
        key: Some(dice.below(4 * KEYS)).filter(|key| *key < KEYS),
        body: dice.below(2),
    }
}

fn speech(dice: &mut Dice) -> Speech {
    let says = [Says::Done, Says::Done, Says::Failed { retry: true }, Says::Failed { retry: false }, Says::Released];
    let settle = jobs(dice, 2).into_iter().map(|job| {
        let says = if dice.one_in(12) { Says::TooDeep } else { dice.of(&says) };
        (job, says, dice.one_in(5))
    });
    let settle: Vec<_> = settle.collect();
    let beat = jobs(dice, 2).into_iter().map(|job| (job, dice.one_in(5))).collect();
    let mut want: Vec<(u32, u32)> = Vec::new();
    for _ in 0..dice.below(3) {
        want.push((dice.below(QUEUES), dice.of(&[1, 1, 2, 3, ALL])));
    }
    // A worker asks at most so much in one turn.
    let mut room = ALL + 100;
    want.iter_mut().for_each(|(_, n)| {
        *n = (*n).min(room);
        room -= *n;
    });
    Speech { worker: dice.below(3), long: dice.one_in(3), settle, beat, want }
}

fn jobs(dice: &mut Dice, most: u32) -> Vec<u32> {
    (0..dice.below(most + 1)).map(|_| dice.below(JOBS)).collect()
}
