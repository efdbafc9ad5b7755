use super::*;

fn http(guard: Guarding) -> Http {
    Http { guard, allow: vec!["10.1.0.0/16".to_owned(), "Intern.example".to_owned()] }
}

#[test]
fn the_guard_is_on_unless_plans_come_in_from_this_machine_only() {
    let on = Guard::On { allow: vec!["10.1.0.0/16".parse().unwrap(), "intern.example".parse().unwrap()] };
    for (listen, auto) in [
        (None, &on),
        (Some("127.0.0.1:8080"), &Guard::Off),
        (Some("[::1]:8080"), &Guard::Off),
        (Some("[::ffff:127.0.0.1]:8080"), &Guard::Off),
        (Some("0.0.0.0:8080"), &on),
        (Some("[::]:8080"), &on),
        (Some("10.1.2.3:8080"), &on),
    ] {
        let listen = listen.map(|address| address.parse().unwrap());
        assert_eq!(http(Guarding::Auto).guard(listen), *auto, "{listen:?}");
        assert_eq!(http(Guarding::On).guard(listen), on);
        assert_eq!(http(Guarding::Off).guard(listen), Guard::Off);
    }
}

#[test]
fn no_programs_turn_exec_off() {
    assert!(matches!(Exec::default().allowed(), Allowed::Nothing));
    let programs = Exec { allow: vec!["true".to_owned()] };
    assert!(matches!(programs.allowed(), Allowed::Programs(list) if list == ["true"]));
}

#[test]
fn a_secret_file_that_is_of_no_use_says_where_and_shows_no_secret() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("secrets.toml");
    let said = |text: &str| {
        std::fs::write(&file, text).unwrap();
        let error = Secrets { file: file.clone() }.open().err().map(|bad| format!("{bad} {bad:?}")).unwrap();
        assert!(error.starts_with("WL-4022") && !error.contains("hunter2"), "{error}");
        error
    };
    assert!(said("A = \"hunter2\"\nB = hunter2\n").contains("line 2, column 5"));
    assert!(said("A = \"x\"\nB = [\"hunter2\"]\n").contains("line 2, column 5"));
    assert!(said("A = \"x\"\n\"not a name\" = \"hunter2\"\n").contains("line 2, column 1"));
    assert!(said("A = \"hunter2\"\nA = \"hunter2\"\n").contains("line 2, column 1"));
    assert!(said(&"#hunter2".repeat(200_000)).contains("more than 1 MiB"));
    let absent = Secrets { file: folder.path().join("absent") }.open().err().unwrap().to_string();
    assert!(absent.starts_with("WL-4022") && absent.contains("absent"), "{absent}");
    assert!(Secrets::default().open().is_ok());
}
