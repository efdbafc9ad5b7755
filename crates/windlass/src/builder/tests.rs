use windlass_core::port::state::{Key, Row};

use super::*;

/// How long the lease of an instance is that was built like this.
async fn lease_ms(builder: Builder) -> u64 {
    let windlass = builder.start().await.unwrap();
    let rows = windlass.stores().state.load(&[Key::Instance(windlass.instance().clone())]).await.unwrap();
    let Some(Some(Row::Instance(row))) = rows.first() else { panic!("{rows:?}") };
    let lease_ms = row.until.minus(row.since.get()).get();
    windlass.stop().await;
    lease_ms
}

fn lasting(lease_ms: u64) -> Settings {
    let mut settings = Settings::default();
    settings.engine.lease_ms = lease_ms;
    settings
}

#[tokio::test]
async fn options_follow_from_the_settings_unless_they_are_given() {
    // The lease may have been renewed since: what it lasts is a little more than what was set.
    let about = |ms: u64| ms..ms + 30_000;
    assert!(about(30_000).contains(&lease_ms(Windlass::builder()).await));
    assert!(about(600_000).contains(&lease_ms(Windlass::builder().settings(lasting(600_000))).await));
    let given = Options { lease_ms: 1_200_000, ..Options::default() };
    for builder in [
        Windlass::builder().settings(lasting(600_000)).options(given.clone()),
        Windlass::builder().options(given).settings(lasting(600_000)),
    ] {
        assert!(about(1_200_000).contains(&lease_ms(builder).await));
    }
}

/// How the only stage of a plan ended, carried out by an instance that was built like this.
async fn carried_out(builder: Builder, action: &str) -> (String, Windlass) {
    let windlass = builder.start().await.unwrap();
    let plan = format!("{{ plan: p, stages: [{{ name: a, {action} }}], tasks: [{{ tenant: acme }}] }}");
    let zoe = Caller::new("zoe".parse().unwrap());
    let created = windlass.submit(&plan, &zoe).await.unwrap();
    let ended = windlass.wait(&created.plan, Duration::from_secs(30)).await.unwrap().unwrap();
    let which = windlass_engine::command::task::Which::Tenant("acme".parse().unwrap());
    let task = windlass.view_task(&which).await.unwrap().task;
    let said = task.failure.map(|failure| failure.message.to_string()).unwrap_or_default();
    (format!("{} {said}", ended.plan.status.name()), windlass)
}

#[tokio::test]
async fn programs_and_secrets_of_the_settings_reach_the_stages() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("secrets.toml");
    std::fs::write(&file, "A = \"from the file\"\nB = \"from the file\"\n").unwrap();
    let mut settings = Settings::default();
    settings.exec.allow = vec!["sh".to_owned()];
    settings.secrets.file = file.clone();
    let variables = || BTreeMap::from([("WINDLASS_SECRET_B".to_owned(), "from the environment".to_owned())]);
    let built = |settings: &Settings| Windlass::builder().settings(settings.clone()).environment(variables());
    let sees = |script: &str| {
        let env = "{ A: { secret: A }, B: { secret: B } }";
        format!("exec: {{ argv: [sh, -c, '{script}'], env: {env} }}")
    };

    let both = sees(r#"test "$A" = "from the file" && test "$B" = "from the environment""#);
    let (ended, windlass) = carried_out(built(&settings), &both).await;
    assert!(ended.starts_with("COMPLETED"), "{ended}");
    // The file is read again for each stage, and the builder goes before the settings.
    std::fs::write(&file, "A = \"changed\"\n").unwrap();
    let again = format!(
        "{{ plan: q, stages: [{{ name: a, {} }}], tasks: [{{ tenant: blue }}] }}",
        sees(r#"test "$A" = changed"#)
    );
    let created = windlass.submit(&again, &Caller::new("zoe".parse().unwrap())).await.unwrap();
    let ended = windlass.wait(&created.plan, Duration::from_secs(30)).await.unwrap().unwrap();
    assert_eq!(ended.plan.status.name(), "COMPLETED");
    windlass.stop().await;

    let (ended, windlass) = carried_out(built(&settings).allow_exec(Allowed::Nothing), &both).await;
    assert!(ended.starts_with("FAILED") && ended.contains("WL-5003"), "{ended}");
    windlass.stop().await;
    let (ended, windlass) = carried_out(built(&settings).secrets(Secrets::default()), &both).await;
    assert!(ended.starts_with("FAILED") && ended.contains("WINDLASS_SECRET_A"), "{ended}");
    windlass.stop().await;
    std::fs::remove_file(&file).unwrap();
    assert!(matches!(built(&settings).start().await, Err(StartError::Secrets(_))));
}

#[tokio::test]
async fn the_guard_follows_from_the_settings_and_from_who_can_hand_plans_in() {
    // Nobody listens there: what is not refused by the guard finds no connection.
    let action = "http: { url: \"http://127.0.0.1:1\" }";
    let listening = |address: &str| Windlass::builder().listen(address.parse().unwrap());
    let mut allowing = Settings::default();
    allowing.http.allow = vec!["127.0.0.0/8".to_owned()];
    for (builder, refused) in [
        (Windlass::builder(), true),
        (listening("0.0.0.0:80"), true),
        (listening("127.0.0.1:80"), false),
        (listening("127.0.0.1:80").guard(Guard::default()), true),
        (Windlass::builder().settings(allowing), false),
    ] {
        let (ended, windlass) = carried_out(builder, action).await;
        assert!(ended.starts_with("FAILED") && ended.contains("WL-5001") == refused, "{ended}");
        windlass.stop().await;
    }
}
