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
