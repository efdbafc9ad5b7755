use super::*;
use crate::kv::memory::Memory;
use crate::kv::{Kv, Survives};

fn seen(read: &dyn Read, from: &[u8], to: &[u8], limit: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut seen = Vec::new();
    read.scan(from, to, &mut |key, value| {
        seen.push((key.to_vec(), value.to_vec()));
        Ok(seen.len() < limit)
    })
    .unwrap();
    seen
}

#[test]
fn a_scan_shows_the_batch_over_what_is_stored_whatever_the_mixture() {
    let keys: Vec<Vec<u8>> = (b'a'..=b'f').map(|c| vec![c]).collect();
    // Every key: absent, stored, stored and overwritten, stored and removed, new, new and removed.
    for mixture in 0..6usize.pow(4) {
        let kinds: Vec<usize> = (0..4).map(|i| mixture / 6usize.pow(i) % 6).collect();
        let memory = Memory::default();
        let of = |kinds: &[usize], wanted: &[usize]| -> Vec<Vec<u8>> {
            kinds.iter().zip(&keys).filter(|(k, _)| wanted.contains(k)).map(|(_, key)| key.clone()).collect()
        };
        let old = of(&kinds, &[1, 2, 3]).into_iter().map(|k| (k, Some(Value::from("old")))).collect();
        memory.commit(old, Survives::PowerLoss).unwrap();
        let stored = memory.read();
        let mut hot = Hot::default();
        let mut tx = Tx::new(&*stored, &mut hot, 0);
        of(&kinds, &[2, 4, 5]).into_iter().for_each(|k| tx.put(k, Value::from("new")));
        of(&kinds, &[3, 5]).into_iter().for_each(|k| tx.remove(k));
        let expected: Vec<_> = kinds
            .iter()
            .zip(&keys)
            .filter_map(|(kind, key)| match kind {
                1 => Some((key.clone(), b"old".to_vec())),
                2 | 4 => Some((key.clone(), b"new".to_vec())),
                _ => None,
            })
            .collect();
        for limit in 1..5 {
            let cut: Vec<_> = expected.iter().take(limit).cloned().collect();
            assert_eq!(seen(&tx, b"a", b"g", limit), cut, "{kinds:?} up to {limit}");
        }
        for (key, value) in &expected {
            assert_eq!(tx.get(key).unwrap().as_deref(), Some(value.as_slice()));
        }
    }
}
