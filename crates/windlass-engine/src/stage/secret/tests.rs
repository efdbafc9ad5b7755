use super::*;

fn used(secrets: &Secrets) -> Used<'_> {
    let mut used = Used::none(secrets);
    for name in secrets.by_name.keys() {
        used.remember(&secrets.get(name).unwrap());
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

#[test]
fn variables_are_secrets_and_leave_the_environment_that_programs_see() {
    let mut environment: BTreeMap<String, String> = [
        ("PATH", "/bin"),
        ("WINDLASS_SECRET_A", "from the environment"),
        ("WINDLASS_SECRET_B", "from the environment"),
        ("WINDLASS_SECRETS_FILE", "secrets.toml"),
        ("WINDLASS_SECRET_", "no name"),
    ]
    .map(|(name, text)| (name.to_owned(), text.to_owned()))
    .into();
    let mut secrets = secrets(&[("B", "handed in")]);
    secrets.take_from(&mut environment);
    assert_eq!(environment.into_keys().collect::<Vec<_>>(), ["PATH", "WINDLASS_SECRETS_FILE", "WINDLASS_SECRET_"]);
    assert_eq!(secrets.get(&"A".parse().unwrap()).unwrap(), "from the environment");
    assert_eq!(secrets.get(&"B".parse().unwrap()).unwrap(), "handed in");
}

#[test]
fn a_source_is_asked_each_time_and_only_for_what_is_not_known() {
    let asked = std::sync::Arc::new(std::sync::atomic::AtomicU32::new(0));
    let count = asked.clone();
    let secrets = secrets(&[("A", "known")]).or_from(Box::new(move |name| match name.as_str() {
        "B" => Ok(Some(format!("{}", count.fetch_add(1, std::sync::atomic::Ordering::Relaxed)).into())),
        "C" => Err("the file is away".to_owned()),
        _ => Ok(None),
    }));
    let get = |name: &str| secrets.get(&name.parse().unwrap());
    assert_eq!((get("A").unwrap(), get("B").unwrap(), get("B").unwrap()), ("known".into(), "0".into(), "1".into()));
    let away = get("C").unwrap_err();
    assert!(away.again && away.message.contains("the file is away"), "{away:?}");
    assert!(get("D").unwrap_err().message.contains("WL-5002"));
}
