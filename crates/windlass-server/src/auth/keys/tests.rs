use super::*;

fn new(name: &str, role: Role) -> NewKey {
    NewKey { name: name.parse().unwrap(), role, tenants: BTreeSet::new(), queues: BTreeSet::new(), expires: None }
}

#[test]
fn a_key_is_found_by_what_was_shown_and_by_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.toml");
    let token = create(&path, new("ops", Role::Operator), Ms::new(5)).unwrap();
    let kept = std::fs::read_to_string(&path).unwrap();
    assert!(!kept.contains(token.rsplit('_').next().unwrap()), "the secret is in the file");
    let keys = Keys::open(path).unwrap();
    let who = keys.find(&token, Ms::new(9)).ok().unwrap();
    assert_eq!((who.by.as_ref().unwrap().as_str(), who.role), ("ops", Role::Operator));
    for wrong in [&token[..token.len() - 1], &format!("{token}0"), "wl_", "", "Bearer", &token.replace("wl_", "wl-")] {
        assert!(matches!(keys.find(wrong, Ms::new(9)), Err(Unknown::Never)), "{wrong}");
    }
}

#[test]
fn a_key_expires_at_its_time_by_the_clock_that_is_asked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.toml");
    let token = create(&path, NewKey { expires: Some(Ms::new(1_000)), ..new("ci", Role::Viewer) }, Ms::ZERO).unwrap();
    let keys = Keys::open(path).unwrap();
    assert!(keys.find(&token, Ms::new(999)).is_ok());
    assert!(matches!(keys.find(&token, Ms::new(1_000)), Err(Unknown::Expired(at)) if at == Ms::new(1_000)));
}

#[test]
fn a_revoked_key_is_gone_once_the_file_was_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.toml");
    let ann = create(&path, new("ann", Role::Admin), Ms::ZERO).unwrap();
    let ben = create(&path, new("ben", Role::Admin), Ms::ZERO).unwrap();
    assert!(matches!(create(&path, new("ben", Role::Viewer), Ms::ZERO), Err(KeysError::Exists(_))));
    let keys = Keys::open(path.clone()).unwrap();
    assert!(!keys.read_again().unwrap(), "nothing has changed");
    assert!(revoke(&path, "ann").unwrap());
    assert!(!revoke(&path, "ann").unwrap());
    assert!(keys.read_again().unwrap());
    assert!(keys.find(&ann, Ms::ZERO).is_err());
    assert!(keys.find(&ben, Ms::ZERO).is_ok());
}

#[test]
fn a_file_that_others_may_read_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.toml");
    create(&path, new("ann", Role::Admin), Ms::ZERO).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
    assert!(matches!(Keys::open(path), Err(KeysError::Mode { mode: 0o640, .. })));
}

#[test]
fn a_file_that_is_no_list_of_keys_is_refused_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.toml");
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path)
        .unwrap()
        .write_all(b"[[key]]\nid = 7\n")
        .unwrap();
    let error = list(&path).unwrap_err().to_string();
    assert!(error.starts_with("WL-6031") && error.contains("line 2"), "{error}");
}
