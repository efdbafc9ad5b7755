use super::*;

#[test]
fn a_record_comes_back_and_a_damaged_one_does_not() {
    let value = encode(&("acme", 7u64)).unwrap();
    assert_eq!(decode::<(String, u64)>(&value).unwrap(), ("acme".to_owned(), 7));
    for at in 0..value.len() {
        let mut bytes = value.to_vec();
        bytes[at] ^= 1;
        assert!(matches!(decode::<(String, u64)>(&bytes), Err(KvError::Corrupt(_))), "byte {at}");
    }
    assert!(decode::<(String, u64)>(&value[..4]).is_err());
    assert!(decode_u64(&encode_u64(u64::MAX)).is_ok_and(|n| n == u64::MAX));
}

#[test]
fn a_record_of_known_words_is_packed_to_a_fraction_and_comes_back() {
    let text = |n: usize| "\"taskId\":\"t\",\"completedStages\":[]".repeat(n);
    for (n, packs) in [(0, false), (1, false), (10, true), (1_000, true)] {
        let value = encode(&text(n)).unwrap();
        assert_eq!(value[0], if packs { PACKED } else { PLAIN }, "{n}");
        assert!(!packs || value.len() * 3 < text(n).len(), "{n}: {} bytes", value.len());
        assert_eq!(decode::<String>(&value).unwrap(), text(n));
        for at in (0..value.len()).step_by(7) {
            let mut bytes = value.to_vec();
            bytes[at] ^= 64;
            assert!(decode::<String>(&bytes).is_err(), "{n}: byte {at}");
        }
    }
}

#[test]
fn what_cannot_be_packed_is_stored_as_it_is() {
    let mut noise = 7u64;
    let text: String = (0..400)
        .map(|_| {
            noise = noise.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            char::from_u32(0x4e00 + (noise >> 40) as u32 % 0x5000).unwrap()
        })
        .collect();
    let value = encode(&text).unwrap();
    assert_eq!((value[0], decode::<String>(&value).unwrap()), (PLAIN, text));
}

#[test]
fn a_packed_record_that_lies_about_its_size_is_refused() {
    let mut bytes = encode(&"\"taskId\":".repeat(50)).unwrap().to_vec();
    for size in [0u32, 1, u32::MAX] {
        bytes[HEAD_BYTES..HEAD_BYTES + 4].copy_from_slice(&size.to_le_bytes());
        let sum = crc32fast::hash(&bytes[HEAD_BYTES..]).to_le_bytes();
        bytes[1..HEAD_BYTES].copy_from_slice(&sum);
        assert!(matches!(decode::<String>(&bytes), Err(KvError::Corrupt(_))), "{size}");
    }
}
