use std::collections::VecDeque;
use std::sync::Mutex;

use async_trait::async_trait;
use tokio::time::Instant;
use windlass_core::stage::Expect;

use super::*;
use crate::stage::fixture::{ask, quiet, told};
use crate::stage::template::Templates;

/// Answers what it was given, one after the other; the last one for ever. It hangs when there is nothing.
struct Script {
    answers: Mutex<VecDeque<Result<(u16, &'static str), Trouble>>>,
    asked: Mutex<Vec<String>>,
}

impl Script {
    fn new(answers: impl IntoIterator<Item = Result<(u16, &'static str), Trouble>>) -> Script {
        Script { answers: Mutex::new(answers.into_iter().collect()), asked: Mutex::default() }
    }

    fn asked(&self) -> usize {
        self.asked.lock().unwrap().len()
    }
}

#[async_trait]
impl Ask for Script {
    async fn ask(&self, request: &Request, _: &[u16]) -> Result<Answer, Trouble> {
        self.asked.lock().unwrap().push(request.to_string());
        let answer = {
            let mut answers = self.answers.lock().unwrap();
            if answers.len() > 1 { answers.pop_front() } else { answers.front().cloned() }
        };
        let Some(answer) = answer else { std::future::pending().await };
        answer.map(|(status, body)| Answer { status, maybe_json: true, body: body.into() })
    }
}

fn poll(urls: usize, attempts: u32) -> Poll {
    let equals = Json::parse(r#""{{ config.n }}""#).unwrap();
    Poll {
        urls: (0..urls).map(|i| format!("http://{{{{ tenant }}}}.example/{i}")).collect(),
        headers: Default::default(),
        expect: Expect { status: None, json: Some("/version".to_owned()), equals: Some(equals) },
        every_ms: 3_000,
        attempts,
    }
}

async fn run_with(script: &Script, poll: &Poll, stop: &mut Yield) -> Result<Ended, Trouble> {
    let (told, secrets, templates) = (told(), Secrets::default(), Templates::new());
    run(script, &secrets, poll, &told, templates.over(&told), stop).await
}

async fn polled(script: &Script, poll: &Poll) -> Result<Ended, Trouble> {
    run_with(script, poll, &mut quiet().1).await
}

fn done(text: &str) -> Result<Ended, Trouble> {
    Ok(Ended::Done(Some(Json::parse(text).unwrap())))
}

const OLD: Result<(u16, &str), Trouble> = Ok((200, r#"{"version":40}"#));
const NEW: Result<(u16, &str), Trouble> = Ok((200, r#"{"version":41}"#));

#[tokio::test(start_paused = true)]
async fn it_asks_until_the_answer_is_the_expected_one() {
    let begun = Instant::now();
    let script = Script::new([Err(Trouble::stage("refused")), Ok((503, "busy")), OLD, Ok((200, "no json")), NEW]);
    assert_eq!(polled(&script, &poll(1, 10)).await, done(r#"{"rounds":5,"status":200,"body":{"version":41}}"#));
    assert_eq!(begun.elapsed(), Duration::from_secs(12), "of the paused clock: four pauses of three seconds");
}

#[tokio::test(start_paused = true)]
async fn all_must_agree_in_the_same_round() {
    let script = Script::new([NEW, OLD, NEW, OLD, NEW, NEW, NEW, NEW, NEW]);
    assert_eq!(polled(&script, &poll(3, 10)).await, done(r#"{"rounds":3}"#));
    assert_eq!(script.asked(), 9);
}

#[tokio::test(start_paused = true)]
async fn when_the_rounds_are_over_the_last_answers_are_told() {
    let begun = Instant::now();
    let script = Script::new([OLD, NEW, Ok((200, "{}")), Ok((500, "broken"))]);
    let trouble = polled(&script, &poll(2, 2)).await.unwrap_err();
    let wanted = "after 2 rounds, 2 of 2 are not as expected: \
                  GET http://acme.example/0 has nothing at \"/version\": {}; GET http://acme.example/1 answered 500: broken";
    assert_eq!(trouble, Trouble::stage(wanted));
    assert_eq!(begun.elapsed(), Duration::from_secs(3), "there is no pause after the last round");
    let trouble = polled(&Script::new([OLD]), &poll(7, 1)).await.unwrap_err();
    assert!(trouble.message.contains("0 has 40 at \"/version\", not 41"), "{}", trouble.message);
    assert!(trouble.message.ends_with("; and 2 more"), "{}", trouble.message);
}

#[tokio::test(start_paused = true)]
async fn what_can_never_succeed_is_not_asked_again() {
    let hopeless = Trouble::hopeless(FailureKind::Stage, "refused by the guard");
    let script = Script::new([Err(hopeless.clone())]);
    assert_eq!(polled(&script, &poll(1, 10)).await, Err(hopeless));
    assert_eq!(script.asked(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_pause_between_rounds_yields() {
    let (signal, mut stop) = quiet();
    ask(&signal);
    let begun = Instant::now();
    let script = Script::new([OLD]);
    assert_eq!(run_with(&script, &poll(1, 10), &mut stop).await, Ok(Ended::Yielded));
    assert_eq!((script.asked(), begun.elapsed()), (1, Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn a_target_that_hangs_is_one_that_is_not_ready() {
    let trouble = polled(&Script::new([]), &poll(1, 2)).await.unwrap_err();
    assert!(trouble.message.contains("no answer within 30 s"), "{}", trouble.message);
}

#[tokio::test(start_paused = true)]
async fn at_most_sixteen_are_asked_at_once() {
    let script = Script::new([]);
    let poll = poll(40, 1);
    let asking = tokio::time::timeout(Duration::from_secs(1), polled(&script, &poll));
    asking.await.unwrap_err();
    assert_eq!(script.asked(), AT_ONCE);
}

#[tokio::test(start_paused = true)]
async fn a_status_alone_can_be_expected() {
    let mut poll = poll(1, 1);
    poll.expect = Expect { status: Some(404), json: None, equals: None };
    assert_eq!(polled(&Script::new([Ok((404, ""))]), &poll).await, done(r#"{"rounds":1,"status":404,"body":null}"#));
    assert!(polled(&Script::new([Ok((200, ""))]), &poll).await.is_err());
    poll.expect = Expect::default();
    assert!(polled(&Script::new([Ok((204, ""))]), &poll).await.is_ok());
    assert!(polled(&Script::new([Ok((302, ""))]), &poll).await.is_err());
}

#[test]
fn numbers_are_compared_as_numbers_and_as_nothing_else() {
    let same = |a: &str, b: &str| same(&serde_json::from_str(a).unwrap(), &serde_json::from_str(b).unwrap());
    assert!(same("42", "42.0") && same(r#"{"a":[1,2]}"#, r#"{"a":[1.0,2]}"#));
    assert!(!same("42", r#""42""#) && !same("[1]", "[1,2]") && !same(r#"{"a":1}"#, r#"{"b":1}"#));
    assert!(!same("18446744073709551615", "18446744073709551614"), "64 bits are compared exactly");
}
