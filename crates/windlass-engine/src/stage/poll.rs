//! Requests until every answer is the expected one.

use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream;
use reqwest::Method;
use serde_json::Value;
use windlass_core::failure::FailureKind;
use windlass_core::json::Json;
use windlass_core::stage::Poll;

use super::http::{headers, output, shown, url};
use super::secret::{Secrets, Used};
use super::template::Rendering;
use super::web::{Answer, Ask, Request};
use super::{Ended, Told, Trouble, Yield};

/// Requests of one round at the same time, at most.
const AT_ONCE: usize = 16;
/// One request of a round takes this long at most: a target that hangs is one that is not ready yet.
const ANSWER_MS: u64 = 30_000;
/// Answers that a failure's message tells.
const TOLD: usize = 5;
/// What such a message tells of one value, at most.
const BRIEF_BYTES: usize = 80;

pub(super) async fn run(
    web: &dyn Ask,
    secrets: &Secrets,
    poll: &Poll,
    told: &Told,
    rendering: Rendering<'_>,
    stop: &mut Yield,
) -> Result<Ended, Trouble> {
    let mut used = Used::none(secrets);
    let asked = Asked::new(poll, told, &rendering, &mut used)?;
    drop(rendering);
    for round in 1..=poll.attempts {
        let answers = asked.round(web).await.map_err(|trouble| used.hide_trouble(trouble))?;
        let missing: Vec<String> = asked.missing(&answers, &used).collect();
        if missing.is_empty() {
            return done(round, &answers, &used);
        }
        if round == poll.attempts {
            let (count, all) = (missing.len(), asked.requests.len());
            let last = missing.iter().take(TOLD).map(String::as_str).collect::<Vec<_>>().join("; ");
            let more = if count > TOLD { format!("; and {} more", count - TOLD) } else { String::new() };
            let message = format!("after {round} rounds, {count} of {all} are not as expected: {last}{more}");
            return Err(Trouble::stage(used.hide(message)));
        }
        tokio::select! {
            biased;
            () = stop.wanted() => return Ok(Ended::Yielded),
            () = tokio::time::sleep(Duration::from_millis(poll.every_ms)) => {}
        }
    }
    Err(Trouble::hopeless(FailureKind::Stage, "a poll without rounds cannot succeed"))
}

/// One URL's answer is returned as an http stage would; of several, there is no one answer.
fn done(round: u32, answers: &[Result<Answer, Trouble>], used: &Used<'_>) -> Result<Ended, Trouble> {
    let bad = |error: serde_json::Error| Trouble::stage(format!("the answer cannot be kept: {error}"));
    let rounds = Json::of(&serde_json::json!({ "rounds": round })).map_err(bad)?;
    let [Ok(only)] = answers else { return Ok(Ended::Done(Some(rounds))) };
    let only = output(only, used)?;
    let rest = only.as_str().strip_prefix('{').unwrap_or_default();
    Ok(Ended::Done(Some(Json::parse(&format!("{{\"rounds\":{round},{rest}")).map_err(bad)?)))
}

/// What is asked and what is expected, rendered.
struct Asked {
    requests: Vec<Request>,
    status: Option<u16>,
    value: Option<(String, Value)>,
}

impl Asked {
    fn new(poll: &Poll, told: &Told, rendering: &Rendering<'_>, used: &mut Used<'_>) -> Result<Asked, Trouble> {
        let headers = headers(&poll.headers, told, rendering, used)?;
        let request = |template: &String| {
            let url = url("url", template, rendering)?;
            Ok(Request { method: Method::GET, url, headers: headers.clone(), body: None })
        };
        let value = match (&poll.expect.json, &poll.expect.equals) {
            (Some(pointer), Some(equals)) => {
                let pointer = rendering.text("expect.json", pointer)?.into_owned();
                let equals = rendering.json("expect.equals", equals)?;
                let bad = |error| Trouble::hopeless(FailureKind::Template, format!("expect.equals: {error}"));
                Some((pointer, equals.to::<Value>().map_err(bad)?))
            }
            _ => None,
        };
        let requests = poll.urls.iter().map(request).collect::<Result<_, Trouble>>()?;
        Ok(Asked { requests, status: poll.expect.status, value })
    }

    /// Asks every URL. A request that fails is an answer too, unless it can never succeed.
    async fn round(&self, web: &dyn Ask) -> Result<Vec<Result<Answer, Trouble>>, Trouble> {
        // Gathered, because rustc cannot see that a closure held across an await may move between threads.
        let asking: Vec<_> = self.requests.iter().map(|request| self.one(web, request)).collect();
        let mut answers = stream::iter(asking).buffered(AT_ONCE);
        let mut all = Vec::with_capacity(self.requests.len());
        while let Some(answer) = answers.next().await {
            match answer {
                Err(trouble) if !trouble.again => return Err(trouble),
                answer => all.push(answer),
            }
        }
        Ok(all)
    }

    async fn one(&self, web: &dyn Ask, request: &Request) -> Result<Answer, Trouble> {
        let answer = web.ask(request, self.status.as_slice());
        let late = |_| Err(Trouble::stage(format!("{request}: no answer within {} s", ANSWER_MS / 1000)));
        tokio::time::timeout(Duration::from_millis(ANSWER_MS), answer).await.unwrap_or_else(late)
    }

    /// What each answer says that is not as expected.
    fn missing<'a>(
        &'a self,
        answers: &'a [Result<Answer, Trouble>],
        used: &'a Used<'_>,
    ) -> impl Iterator<Item = String> + 'a {
        self.requests.iter().zip(answers).filter_map(|(request, answer)| match answer {
            Ok(answer) => self.differs(answer, used).map(|what| format!("{request} {what}")),
            Err(trouble) => Some(trouble.message.clone()),
        })
    }

    fn differs(&self, answer: &Answer, used: &Used<'_>) -> Option<String> {
        let as_expected = self.status.map_or((200..300).contains(&answer.status), |status| status == answer.status);
        if !as_expected {
            return Some(format!("answered {}{}", answer.status, shown(answer, used)));
        }
        let (pointer, wanted) = self.value.as_ref()?;
        let Ok(body) = serde_json::from_slice::<Value>(&answer.body) else {
            return Some(format!("answered no JSON{}", shown(answer, used)));
        };
        match body.pointer(pointer) {
            Some(found) if same(found, wanted) => None,
            Some(found) => Some(format!("has {} at {pointer:?}, not {}", brief(found, used), brief(wanted, used))),
            None => Some(format!("has nothing at {pointer:?}{}", shown(answer, used))),
        }
    }
}

/// The beginning of a value, for a message; secrets are hidden before it is cut.
fn brief(value: &Value, used: &Used<'_>) -> String {
    let json = Json::of(value).map_or_else(|_| Json::null(), |json| used.hide_in(&json));
    let text = json.as_str();
    let end = text.floor_char_boundary(BRIEF_BYTES);
    if end < text.len() { format!("{}…", &text[..end]) } else { text.to_owned() }
}

/// JSON has one kind of number: 42 and 42.0 are the same.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(x), Value::Number(y)) => x == y || (x.is_f64() || y.is_f64()) && x.as_f64() == y.as_f64(),
        (Value::Array(x), Value::Array(y)) => x.len() == y.len() && x.iter().zip(y).all(|(x, y)| same(x, y)),
        (Value::Object(x), Value::Object(y)) => {
            x.len() == y.len() && x.iter().all(|(key, x)| y.get(key).is_some_and(|y| same(x, y)))
        }
        _ => a == b,
    }
}

#[cfg(test)]
mod tests;
