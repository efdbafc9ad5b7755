//! What many callers want at once is written together; what cannot be read harms only whoever asked for it.

use std::sync::Arc;

use windlass_conformance::harness::Ports;
use windlass_conformance::world::step::{Draft, plan};
use windlass_conformance::world::{Rival, id};
use windlass_core::event::Fact;
use windlass_core::port::state::{Key, State, Step, Stepped};
use windlass_core::port::{PortError, Refusal};
use windlass_store_postgres::{Options, Postgres};

use crate::server::{Schema, execute, schema};

async fn rival(schema: &Schema) -> (Postgres, Rival) {
    let store = Postgres::open(&schema.url, &Options::default()).await.unwrap();
    let ports = Ports { state: Arc::new(store.clone()), locks: Arc::new(store.clone()) };
    let rival = Rival { ports, me: id("one") };
    rival.beat(3_600_000).await;
    (store, rival)
}

/// Each by a caller of its own, at once.
async fn at_once(store: &Postgres, steps: Vec<Step>) -> Vec<Result<Result<Stepped, Refusal>, PortError>> {
    let calls = steps.into_iter().map(|step| {
        let store = store.clone();
        tokio::spawn(async move { State::commit(&store, &[step]).await.map(|mut answers| answers.remove(0)) })
    });
    let calls: Vec<_> = calls.collect();
    let mut answers = Vec::new();
    for call in calls {
        answers.push(call.await.unwrap());
    }
    answers
}

/// New plans, and the steps that start them.
async fn starts(rival: &Rival, names: &[String]) -> Vec<Step> {
    let mut steps = Vec::new();
    for name in names {
        let draft = Draft::new(name, &[name]);
        rival.create(&draft).await;
        let fact = Fact::PlanStarted { conductor: rival.me.clone() };
        steps.push(plan(&format!("start-{name}"), &rival.plan(&draft.id()).await, fact));
    }
    steps
}

#[tokio::test]
async fn plans_that_start_at_once_are_written_together() {
    let schema = schema().await;
    let (store, one) = rival(&schema).await;
    let names: Vec<_> = (0..100).map(|n| format!("p{n}")).collect();
    let steps = starts(&one, &names).await;
    let batches = || store.batches().counts().sum::<u64>();
    let before = batches();
    for answer in at_once(&store, steps).await {
        assert!(matches!(answer, Ok(Ok(_))), "{answer:?}");
    }
    assert_eq!(batches() - before, 2, "as many as fit one transaction, and the rest");
    for name in &names {
        let row = one.plan(&id(name)).await;
        assert_eq!(row.plan.conductor, Some(id("one")));
    }
}

#[tokio::test]
async fn a_plan_or_task_that_cannot_be_read_harms_only_whoever_writes_it() {
    let schema = schema().await;
    let (store, one) = rival(&schema).await;
    let names = ["a", "b", "c"].map(str::to_owned);
    let steps = starts(&one, &names).await;
    execute(&schema.url, "UPDATE plan_state_projection SET status = 'SPOILT' WHERE plan_id = 'b'").await;
    let answers = at_once(&store, steps).await;
    assert!(matches!(&answers[..], [Ok(Ok(_)), Err(PortError::Corrupt(_)), Ok(Ok(_))]), "{answers:?}");

    let draft = Draft::wide("wide", 3);
    one.run(&draft).await;
    let mut boundaries = Vec::new();
    for n in 0..3 {
        let attempt = one.begin(&draft.task(n)).await;
        boundaries.push(one.boundary(&attempt).await);
    }
    execute(&schema.url, "UPDATE task_state_projection SET status = 'SPOILT' WHERE task_id = 'wide-1'").await;
    let answers = at_once(&store, boundaries).await;
    assert!(matches!(&answers[..], [Ok(Ok(_)), Err(PortError::Corrupt(_)), Ok(Ok(_))]), "{answers:?}");
    for n in [0, 2] {
        assert_eq!(one.checkpoint(&draft.task(n)).await.map(|saved| saved.version), Some(1), "written once");
        assert!(one.load(Key::Task(draft.task(n))).await.is_some());
    }
}
