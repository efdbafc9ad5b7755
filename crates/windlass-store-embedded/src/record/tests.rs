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
