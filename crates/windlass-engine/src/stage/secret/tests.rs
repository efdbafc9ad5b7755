use super::*;

fn used(secrets: &Secrets) -> Used<'_> {
    let mut used = Used::none(secrets);
    for name in secrets.by_name.keys() {
        used.remember(secrets.get(name).unwrap());
    }
    used
}

fn secrets(given: &[(&str, &str)]) -> Secrets {
    Secrets::new(given.iter().map(|(name, text)| (name.parse().unwrap(), SecretString::from(*text))).collect())
}

#[test]
fn an_unknown_secret_is_hopeless_and_names_the_place_to_set_it() {
    let trouble = secrets(&[]).get(&"TOKEN".parse().unwrap()).err().unwrap();
    assert!(!trouble.again);
    assert!(trouble.message.contains("WINDLASS_SECRET_TOKEN"), "{}", trouble.message);
}

#[test]
fn the_longest_secret_is_hidden_first_and_so_is_the_token_after_bearer() {
    let secrets = secrets(&[("A", "hush"), ("B", "hushhush"), ("C", "Bearer abcdefgh")]);
    let used = used(&secrets);
    assert_eq!(used.hide("hushhush hush Bearer abcdefgh, abcdefgh Bearer"), "*** *** ***, *** Bearer");
    assert_eq!(used.longest(), 15);
}

#[test]
fn secrets_are_hidden_in_json_however_they_are_escaped() {
    let secrets = secrets(&[("A", "a\"b\nc")]);
    let json = Json::parse(r#"{"a\"b\nc":["x a\"\u0062\nc y",1.10],"ok":"a"}"#).unwrap();
    assert_eq!(used(&secrets).hide_in(&json).as_str(), r#"{"***":["x *** y",1.10],"ok":"a"}"#);
}

#[test]
fn a_secret_in_json_that_is_shown_as_text_is_hidden() {
    let secrets = secrets(&[("A", "a\"b\nc")]);
    assert_eq!(used(&secrets).hide(r#"{"x":"a\"b\nc"}"#), r#"{"x":"***"}"#);
}

#[test]
fn every_long_line_of_a_key_is_hidden() {
    let secrets = secrets(&[("KEY", "-----BEGIN KEY-----\nMIIEvQIBADAN\nBgkqhkiG9w0B\n-----END KEY-----\n")]);
    assert_eq!(used(&secrets).hide("line 2: MIIEvQIBADAN\r\nBgkqhkiG9w0B"), "line 2: ***\r\n***");
}

#[test]
fn an_empty_secret_hides_nothing() {
    let secrets = secrets(&[("A", ""), ("B", "  ")]);
    assert_eq!(used(&secrets).hide("a b"), "a b");
}
