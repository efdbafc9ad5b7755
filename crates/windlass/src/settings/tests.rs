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
    ] {
        let environment = |asked: &str| (asked == name).then(|| value.to_owned());
        let error = format!("{:#}", Settings::load(None, environment).unwrap_err());
        assert!(error.contains("WL-4021"), "{error}");
    }
    assert!(Settings::load(Some(&folder.path().join("absent")), none).is_err());
}
