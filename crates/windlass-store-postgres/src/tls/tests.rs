use super::*;

fn no(url: &str) -> String {
    Target::of(url).err().map(|error| format!("{error} {error:?}")).unwrap()
}

#[test]
fn a_bad_url_is_not_repeated() {
    for (url, code) in [
        ("postgres://u:hunter2@h:notaport/db", "WL-4030"),
        ("postgres://u:hunter2@h/db?password=hunter2&x=y", "WL-4030"),
        ("postgres://u:hunter2@h/db?sslmode=hunter2", "WL-4031"),
        ("postgres://u:hunter2@h/db?sslmode=allow", "WL-4031"),
        ("postgres://u:hunter2@h/db?sslmode=verify-full&sslrootcert=%2Fnowhere%2Fca.crt", "WL-4031"),
        ("postgres://u:hunter2@h/db?sslmode=verify-full&sslrootcert=%ff", "WL-4030"),
    ] {
        let error = no(url);
        assert!(error.contains(code) && !error.contains("hunter2"), "{error}");
    }
    assert!(no("postgres://h/db?sslmode=verify-full&sslrootcert=%2Fnowhere%2Fca.crt").contains("/nowhere/ca.crt"));
}

#[test]
fn modes_are_read_as_libpq_reads_them() {
    for (url, mode) in [
        ("postgresql://h/db", SslMode::Prefer),
        ("postgres://u:p@h/db?sslmode=prefer", SslMode::Prefer),
        ("postgres://h/db?connect_timeout=7&sslmode=disable&options=-csearch_path%3Dx", SslMode::Disable),
        ("postgres://h/db?sslmode=require", SslMode::Require),
    ] {
        let target = Target::of(url).unwrap();
        assert_eq!(target.config.get_ssl_mode(), mode, "{url}");
        if mode == SslMode::Disable {
            assert_eq!(target.config.get_options(), Some("-csearch_path=x"), "the rest of the URL stays");
        }
    }
}
