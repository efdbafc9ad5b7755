use super::*;

const EXAMPLE: &str = include_str!("../../../../windlass.example.toml");

#[test]
fn the_example_file_holds_the_defaults() {
    assert_eq!(Settings::parse(EXAMPLE).unwrap(), Settings::default());
}

#[test]
fn an_unknown_key_is_an_error_with_its_line_and_column() {
    let error = Settings::parse("[store]\nurl = \"memory:\"\ncolour = 1\n").unwrap_err().to_string();
    assert!(error.contains("line 3, column 1") && error.contains("colour"), "{error}");
}

#[test]
fn the_environment_is_over_the_file_and_checked() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("w.toml");
    std::fs::write(&file, "[store]\nurl = \"memory:\"\n[embedded]\ncache_mib = 8\n").unwrap();
    let none = |_: &str| None;
    let from_file = Settings::load(Some(&file), none).unwrap();
    assert_eq!((from_file.store.url.as_str(), from_file.embedded.cache_mib), ("memory:", 8));
    let over = |name: &str| (name == "WINDLASS_STORE_URL").then(|| "embedded:x".to_owned());
    assert_eq!(Settings::load(Some(&file), over).unwrap().store.url, "embedded:x");
    for (name, value) in [
        ("WINDLASS_EMBEDDED_CACHE_MIB", "lots"),
        ("WINDLASS_EMBEDDED_CACHE_MIB", "0"),
        ("WINDLASS_EMBEDDED_ACCEPT_LOSS", "maybe"),
        ("WINDLASS_POSTGRES_CONNECTIONS", "0"),
        ("WINDLASS_POSTGRES_MIGRATE", "later"),
        ("WINDLASS_MYSQL_CONNECTIONS", "0"),
        ("WINDLASS_MYSQL_MIGRATE", "later"),
        ("WINDLASS_MYSQL_ANSWER_MS", "99"),
        ("WINDLASS_REDIS_ANSWER_MS", "99"),
    ] {
        let environment = |asked: &str| (asked == name).then(|| value.to_owned());
        let error = format!("{:#}", Settings::load(None, environment).unwrap_err());
        assert!(error.contains("WL-4021"), "{error}");
    }
    assert!(Settings::load(Some(&folder.path().join("absent")), none).is_err());
}

#[test]
fn every_setting_of_the_engine_reaches_its_options() {
    let text = "[engine]\nlease_ms = 301\nbeat_ms = 99\nlock_ms = 302\nlock_renew_ms = 98\ntasks_max = 97\nscan_ms = 96\n\
        janitor_ms = 95\nretention_ms = 1094\nretry_limit = 93\noutage = \"hold\"\ndrain_ms = 92\n";
    let wanted = Options {
        lease_ms: 301,
        beat_ms: 99,
        lock_ms: 302,
        lock_renew_ms: 98,
        tasks_max: 97,
        scan_ms: 96,
        janitor_ms: 95,
        retention_ms: 1094,
        retry_limit: 93,
        outage: OnOutage::Hold,
        drain_ms: 92,
        ..Options::default()
    };
    let settings = Settings::parse(text).unwrap();
    settings.check().unwrap();
    assert_eq!(Options::from(&settings), wanted);
    assert_eq!(wanted.clone().bounded(), wanted, "what is allowed here is not changed there");
    assert_eq!(Options::from(&Settings::default()), Options::default());
}

#[test]
fn every_setting_in_the_example_file_names_its_variable_and_the_variable_sets_it() {
    let table: toml::Table = EXAMPLE.parse().unwrap();
    let mut seen = 0;
    for (name, settings) in &table {
        for key in settings.as_table().unwrap().keys() {
            let variable = format!("WINDLASS_{}_{}", name.to_uppercase(), key.to_uppercase());
            assert!(EXAMPLE.lines().any(|line| line == format!("# {variable}")), "{variable} is not in the example");
            let asked = std::cell::Cell::new(false);
            let environment = |name: &str| {
                asked.set(asked.get() || name == variable);
                None
            };
            Settings::load(None, environment).unwrap();
            assert!(asked.get(), "{variable} is not read");
            seen += 1;
        }
    }
    assert_eq!(seen, 45);
}

#[test]
fn a_setting_of_the_engine_that_cannot_be_is_refused_with_what_can() {
    for (name, value, said) in [
        ("LEASE_MS", "99", "[engine] lease_ms is 99; 100 to 3600000 is allowed"),
        ("LEASE_MS", "3000", "[engine] beat_ms is 10000; 1 to 1000 is allowed: a lease is renewed"),
        ("BEAT_MS", "0", "[engine] beat_ms is 0; 1 to 10000 is allowed"),
        ("LOCK_MS", "29999", "[engine] lock_ms is 29999; 30000 to 2592000000 is allowed"),
        ("LOCK_RENEW_MS", "4500001", "[engine] lock_renew_ms is 4500001; 1 to 4500000 is allowed"),
        ("TASKS_MAX", "10001", "[engine] tasks_max is 10001; 1 to 10000 is allowed"),
        ("TASKS_MAX", "-1", "WINDLASS_ENGINE_TASKS_MAX is \"-1\"; expected a whole number"),
        ("SCAN_MS", "9", "[engine] scan_ms is 9; 10 to 60000 is allowed"),
        ("JANITOR_MS", "9", "[engine] janitor_ms is 9; 10 to 86400000 is allowed"),
        ("RETENTION_MS", "0", "[engine] retention_ms is 0; 1000 to 315360000000 is allowed"),
        ("RETRY_LIMIT", "1001", "[engine] retry_limit is 1001; 0 to 1000 is allowed"),
        ("OUTAGE", "panic", "WINDLASS_ENGINE_OUTAGE is \"panic\"; expected degrade, hold or fail"),
        ("DRAIN_MS", "86400001", "[engine] drain_ms is 86400001; 0 to 86400000 is allowed"),
    ] {
        let environment = |asked: &str| (asked == format!("WINDLASS_ENGINE_{name}")).then(|| value.to_owned());
        let error = format!("{:#}", Settings::load(None, environment).unwrap_err());
        assert!(error.starts_with("WL-4021 ") && error.contains(said), "{name} = {value}: {error}");
    }
    let error = Settings::parse("[engine]\noutage = \"panic\"\n").unwrap_err().to_string();
    assert!(error.contains("line 2") && error.contains("degrade"), "{error}");
}

#[test]
fn what_stages_may_do_is_read_from_the_file_and_from_the_environment() {
    let text = "[http]\nguard = \"on\"\nallow = [\"10.1.0.0/16\"]\n[exec]\nallow = [\"/bin/true\"]\n[secrets]\nfile = \"s.toml\"\n";
    let from_file = Settings::parse(text).unwrap();
    from_file.check().unwrap();
    let said = |name: &str| match name {
        "WINDLASS_HTTP_GUARD" => Some("on".to_owned()),
        "WINDLASS_HTTP_ALLOW" => Some(" 10.1.0.0/16,".to_owned()),
        "WINDLASS_EXEC_ALLOW" => Some("/bin/true".to_owned()),
        "WINDLASS_SECRETS_FILE" => Some("s.toml".to_owned()),
        _ => None,
    };
    assert_eq!(Settings::load(None, said).unwrap(), from_file);
}

#[test]
fn what_stages_cannot_be_allowed_is_refused() {
    for (name, value, said) in [
        ("HTTP_GUARD", "maybe", "WINDLASS_HTTP_GUARD is \"maybe\"; expected auto, on or off"),
        ("HTTP_ALLOW", "::1,10.1.0.0/33", "[http] allow has \"10.1.0.0/33\"; expected a network"),
        ("HTTP_ALLOW", "10.1.2", "[http] allow has \"10.1.2\"; expected a network"),
        ("HTTP_ALLOW", "https://intern.example", "[http] allow has \"https://intern.example\"; expected a network"),
        ("EXEC_ALLOW", "true,bin/migrate", "[exec] allow has \"bin/migrate\"; expected an absolute path"),
    ] {
        let environment = |asked: &str| (asked == format!("WINDLASS_{name}")).then(|| value.to_owned());
        let error = format!("{:#}", Settings::load(None, environment).unwrap_err());
        assert!(error.starts_with("WL-4021 ") && error.contains(said), "{name} = {value}: {error}");
    }
    let error = Settings::parse("[http]\nguard = \"on\"\nallowed = []\n").unwrap_err().to_string();
    assert!(error.contains("line 3, column 1") && error.contains("allowed"), "{error}");
}
