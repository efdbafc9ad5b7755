use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use windlass_core::failure::FailureKind;
use windlass_core::json::Json;
use windlass_core::stage::{Approval, Handler, Sleep};

use super::*;
use crate::stage::Signals;
use crate::stage::fixture::{ask, pause, quiet, told};

async fn echo(told: Told, args: Json) -> Result<Option<Json>, Trouble> {
    Json::of(&(told.idempotency_key(), args)).map(Some).map_err(|error| Trouble::stage(error.to_string()))
}

fn actions() -> Actions {
    let mut setup = Setup::default();
    setup.handlers.insert("echo".to_owned(), Arc::new(echo));
    setup.handlers.insert("other".to_owned(), Arc::new(echo));
    Actions::new(setup).unwrap()
}

fn handler(name: &str, args: &str) -> Action {
    Action::Handler(Handler { name: name.to_owned(), args: Json::parse(args).unwrap() })
}

#[tokio::test]
async fn a_handler_gets_what_it_is_told_and_its_args_rendered() {
    let (_signal, mut stop) = quiet();
    let ended = actions().run(&handler("echo", r#"{"n":"{{ config.n + 1 }}"}"#), told(), &mut stop).await;
    assert_eq!(ended, Ok(Ended::Done(Some(Json::parse(r#"["p1/t1/s1/2",{"n":42}]"#).unwrap()))));
}

#[tokio::test]
async fn an_unknown_handler_is_hopeless_and_the_known_ones_are_named() {
    let (_signal, mut stop) = quiet();
    let trouble = actions().run(&handler("ecko", "null"), told(), &mut stop).await.unwrap_err();
    assert!(!trouble.again);
    assert!(trouble.message.contains("\"ecko\"; registered are echo, other"), "{}", trouble.message);
}

#[tokio::test]
async fn args_that_cannot_be_rendered_do_not_reach_the_handler() {
    let called = Arc::new(AtomicBool::new(false));
    let seen = called.clone();
    let mut setup = Setup::default();
    let note = move |_: Told, _: Json| {
        seen.store(true, Ordering::SeqCst);
        std::future::ready(Ok(None))
    };
    setup.handlers.insert("note".to_owned(), Arc::new(note));
    let (_signal, mut stop) = quiet();
    let actions = Actions::new(setup).unwrap();
    let trouble = actions.run(&handler("note", r#""{{ nobody }}""#), told(), &mut stop).await.unwrap_err();
    assert_eq!(trouble.kind, FailureKind::Template);
    assert!(!called.load(Ordering::SeqCst));
}

#[tokio::test(start_paused = true)]
async fn a_sleep_ends_when_its_time_is_over() {
    let (_signal, mut stop) = quiet();
    let begun = tokio::time::Instant::now();
    let ended = actions().run(&Action::Sleep(Sleep { for_ms: 90_000 }), told(), &mut stop).await;
    assert_eq!(ended, Ok(Ended::Done(None)));
    assert_eq!(begun.elapsed(), Duration::from_secs(90), "of the paused clock");
}

#[tokio::test(start_paused = true)]
async fn a_sleep_yields_to_a_pause() {
    let (signal, mut stop) = quiet();
    let begun = tokio::time::Instant::now();
    let ask = async {
        tokio::task::yield_now().await;
        ask(&signal);
    };
    let (actions, told, action) = (actions(), told(), Action::Sleep(Sleep { for_ms: 90_000 }));
    let (ended, ()) = tokio::join!(actions.run(&action, told, &mut stop), ask);
    assert_eq!(ended, Ok(Ended::Yielded));
    assert_eq!(begun.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_rollback_sleeps_on() {
    let mut stop = Yield::new(Arc::new(Signals::new(pause())), true, 0);
    let ended = actions().run(&Action::Sleep(Sleep { for_ms: 5 }), told(), &mut stop).await;
    assert_eq!(ended, Ok(Ended::Done(None)));
}

#[tokio::test]
async fn an_approval_asks_its_rendered_question() {
    let (_signal, mut stop) = quiet();
    let approval = Approval { message: "Go on with {{ tenant }}?".to_owned() };
    let ended = actions().run(&Action::Approval(approval), told(), &mut stop).await;
    assert_eq!(ended, Ok(Ended::ApprovalWanted("Go on with acme?".to_owned())));
}

#[test]
fn a_program_that_cannot_be_meant_is_refused_at_once() {
    let exec = Allowed::Programs(vec!["bin/deploy".to_owned()]);
    let refused = Actions::new(Setup { exec, ..Setup::default() }).err();
    assert_eq!(refused, Some(BadSetup::Program("bin/deploy".to_owned())));
}

#[test]
fn a_stage_that_waits_costs_little() {
    let (actions, told, action) = (actions(), told(), Action::Sleep(Sleep { for_ms: 1 }));
    let (_signal, mut stop) = quiet();
    let size = size_of_val(&*actions.run(&action, told, &mut stop));
    assert!(size <= 320, "{size} bytes");
}
