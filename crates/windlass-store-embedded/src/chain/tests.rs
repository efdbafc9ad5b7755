use super::*;
use crate::kv::memory::Memory;
use crate::kv::{Kv, Survives};

fn write(memory: &Memory, seqs: impl IntoIterator<Item = u64>) {
    for seq in seqs {
        let mut batch = Batch::new();
        link(&mut batch, seq);
        memory.commit(batch, Survives::PowerLoss).unwrap();
    }
}

fn broken_at(memory: &Memory, last: u64) -> Option<u64> {
    let chain = walk(&*memory.read()).unwrap();
    assert_eq!(chain.last, last);
    chain.broken
}

#[test]
fn a_missing_batch_and_one_out_of_order_are_seen_and_can_be_accepted() {
    for (order, first_bad) in [
        (vec![], None),
        (vec![1], None),
        (vec![1, 2, 3, 4], None),
        (vec![2, 3, 4], Some(0)),
        (vec![1, 2, 4], Some(2)),
        (vec![1, 3, 2, 4], Some(2)),
        (vec![3, 1, 2, 4], Some(2)),
    ] {
        let memory = Memory::default();
        let last = order.iter().copied().max().unwrap_or(0);
        write(&memory, order.iter().copied());
        assert_eq!(broken_at(&memory, last), first_bad, "{order:?}");
        memory.commit(mended(last), Survives::PowerLoss).unwrap();
        assert_eq!(broken_at(&memory, last), None, "{order:?}");
    }
}

#[test]
fn the_ring_goes_round() {
    let memory = Memory::default();
    write(&memory, 1..=LINKS + 2);
    assert_eq!(broken_at(&memory, LINKS + 2), None);
    write(&memory, [LINKS + 4]);
    assert_eq!(broken_at(&memory, LINKS + 4), Some(LINKS + 2), "the one after it is missing");
}
