use super::*;

fn upper(json: &str) -> String {
    map(&Json::parse(json).unwrap(), |text| Some(text.to_uppercase())).as_str().to_owned()
}

#[test]
fn strings_and_keys_change_and_nothing_else_does() {
    let json = r#"{"a":[1.10,"b\"c",true,{"d":"é\\"}],"big":123456789012345678901234567890}"#;
    let wanted = r#"{"A":[1.10,"B\"C",true,{"D":"É\\"}],"BIG":123456789012345678901234567890}"#;
    assert_eq!(upper(json), wanted);
}

#[test]
fn a_key_is_told_from_a_value() {
    let mut seen = Vec::new();
    let _same = replace::<Infallible>(r#"{"k" : "v","l":["w",":"]}"#, |place, raw| {
        seen.push((place, raw.to_owned()));
        Ok(None)
    });
    let wanted = [(Place::Key, "k"), (Place::Value, "v"), (Place::Key, "l"), (Place::Value, "w"), (Place::Value, ":")];
    assert_eq!(seen, wanted.map(|(place, text)| (place, text.to_owned())));
}

#[test]
fn escapes_are_decoded() {
    assert_eq!(decoded(r"\u007b\n\ud83d\ude00"), "{\n😀");
    assert_eq!(decoded(r"\ud83d"), r"\ud83d", "half a pair stays as it is");
    assert_eq!(upper(r#""""#), r#""""#);
}
