//! What is done: calls over a small universe, so that they meet. A call names things by number and is made of what a
//! store answered before, so that any call can be left out.

use crate::random::Dice;

/// Triggers, tenants, rivals, filters of lists.
pub(super) const TRIGGERS: u32 = 8;
pub(super) const TENANTS: u32 = 2;
pub(super) const RIVALS: u32 = 3;
pub(super) const FILTERS: u32 = 6;

/// One call, by one rival.
#[derive(Debug, Clone)]
pub(super) struct Call {
    pub(super) n: u64,
    pub(super) rival: u32,
    pub(super) what: What,
}

/// What a call does.
#[derive(Debug, Clone)]
pub(super) enum What {
    /// The rival's clock jumps ahead.
    Later,
    Restart,
    Save(Vec<Draft>),
    /// A person does something about what they read, or what they read before.
    Person {
        trigger: u32,
        does: Does,
        late: bool,
    },
    Remove {
        triggers: Vec<u32>,
    },
    Claim {
        limit: u32,
        long: bool,
    },
    Settle(Vec<Says>),
    Renew {
        trigger: u32,
        late: bool,
        long: bool,
    },
    FindDue {
        limit: u32,
    },
    List {
        filter: u32,
        limit: u32,
    },
    Purge {
        limit: u32,
    },
}

/// A trigger to be saved.
#[derive(Debug, Clone)]
pub(super) struct Draft {
    pub(super) trigger: u32,
    pub(super) tenant: Option<u32>,
    pub(super) when: When,
    pub(super) held: bool,
    pub(super) retries: u32,
    pub(super) large: bool,
}

/// When it is due.
#[derive(Debug, Clone, Copy)]
pub(super) enum When {
    Past,
    Soon,
    Every,
}

/// What a person does.
#[derive(Debug, Clone, Copy)]
pub(super) enum Does {
    Pause,
    Resume,
    Fire,
    Skip,
    Replace,
}

/// What an owner says of an occurrence.
#[derive(Debug, Clone, Copy)]
pub(super) struct Says {
    pub(super) trigger: u32,
    pub(super) late: bool,
    pub(super) end: End,
}

/// What an occurrence came to.
#[derive(Debug, Clone, Copy)]
pub(super) enum End {
    Judged,
    Fired,
    Failed,
    Skipped,
    Back,
}

/// A sequence that begins with something to work on.
pub(super) fn sequence(dice: &mut Dice, calls: u32) -> Vec<Call> {
    (0..u64::from(calls))
        .map(|n| {
            let what = if n < 3 { What::Save(drafts(dice)) } else { what(dice) };
            Call { n, rival: dice.below(RIVALS), what }
        })
        .collect()
}

fn drafts(dice: &mut Dice) -> Vec<Draft> {
    let draft = |dice: &mut Dice| Draft {
        trigger: dice.below(TRIGGERS),
        tenant: if dice.one_in(2) { Some(dice.below(TENANTS)) } else { None },
        when: dice.of(&[When::Past, When::Soon, When::Every, When::Every]),
        held: dice.one_in(4),
        retries: dice.below(3),
        large: dice.one_in(5),
    };
    (0..=dice.below(3)).map(|_| draft(dice)).collect()
}

fn what(dice: &mut Dice) -> What {
    match dice.below(100) {
        0..5 => What::Later,
        5..6 => What::Restart,
        6..18 => What::Save(drafts(dice)),
        18..32 => What::Person {
            trigger: dice.below(TRIGGERS),
            does: dice.of(&[Does::Pause, Does::Resume, Does::Resume, Does::Fire, Does::Skip, Does::Replace]),
            late: dice.one_in(6),
        },
        32..36 => What::Remove { triggers: (0..=dice.below(2)).map(|_| dice.below(TRIGGERS)).collect() },
        36..56 => What::Claim { limit: dice.of(&[0, 1, 2, 50]), long: !dice.one_in(3) },
        56..80 => What::Settle((0..=dice.below(3)).map(|_| says(dice)).collect()),
        80..87 => What::Renew { trigger: dice.below(TRIGGERS), late: dice.one_in(5), long: !dice.one_in(3) },
        87..92 => What::FindDue { limit: dice.of(&[1, 2, 50]) },
        92..97 => What::List { filter: dice.below(FILTERS), limit: dice.of(&[1, 3, 1_000]) },
        _ => What::Purge { limit: dice.of(&[1, 50]) },
    }
}

fn says(dice: &mut Dice) -> Says {
    Says {
        trigger: dice.below(TRIGGERS),
        late: dice.one_in(6),
        end: dice.of(&[End::Judged, End::Fired, End::Fired, End::Failed, End::Failed, End::Skipped, End::Back]),
    }
}
