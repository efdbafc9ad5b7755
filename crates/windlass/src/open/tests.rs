use super::*;

#[test]
fn each_url_is_a_store_or_a_clear_no() {
    assert_eq!("memory:".parse(), Ok(StoreUrl::Memory));
    assert_eq!("embedded:a/b".parse(), Ok(StoreUrl::Embedded("a/b".into())));
    assert_eq!("embedded:".parse::<StoreUrl>(), Err(BadUrl::NoPath));
    assert_eq!("mongodb://h".parse::<StoreUrl>(), Err(BadUrl::NotYet("MongoDB")));
    assert_eq!("redis-cluster://h".parse::<StoreUrl>(), Err(BadUrl::NotYet("Redis Cluster")));
    assert_eq!("data".parse::<StoreUrl>(), Err(BadUrl::Unknown("data".into())));
    assert!(matches!("postgresql://h/db".parse(), Ok(StoreUrl::Postgres(_))));
    assert!(matches!("mysql://h/db".parse(), Ok(StoreUrl::MySql(_))));
    assert!(matches!("rediss://h".parse(), Ok(StoreUrl::Redis(_))));
    for url in ["memory:", "embedded:x", "postgres://h:5433/db", "mysql://h:3307/db", "redis://h:6380/1", "rediss://h"]
    {
        assert_eq!(url.parse::<StoreUrl>().unwrap().to_string(), url);
    }
}

#[test]
fn an_unknown_url_is_not_repeated_because_it_may_hold_a_password() {
    let error = "oracle://scott:tiger@h".parse::<StoreUrl>().unwrap_err().to_string();
    assert!(error.contains("oracle:") && !error.contains("tiger"), "{error}");
}

#[test]
fn a_password_in_a_url_is_never_shown() {
    for url in [
        "redis://:tiger@h/db",
        "postgres://scott:tiger@h/db",
        "postgres://scott:ti@tiger@h/db",
        "postgres://h/db?password=tiger",
        "mysql://scott:tiger@h/db?ssl-mode=REQUIRED",
    ] {
        let url: StoreUrl = url.parse().unwrap();
        assert!(!format!("{url} {url:?}").contains("tiger"), "{url}");
        assert!(url.to_string().ends_with("h/db"), "{url}");
    }
}
