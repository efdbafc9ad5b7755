//! Turns: everything workers have to say at one moment, and what they get.

use redis::Value;
use windlass_core::id::JobId;
use windlass_core::job::error::CANCELLED;
use windlass_core::job::rules::{Outcome, check_result};
use windlass_core::job::{JobError, JobStatus};
use windlass_core::json::Json;
use windlass_core::port::job::{Beaten, Delivery, Turn, Turned};
use windlass_core::port::{PortError, Refusal};
use windlass_core::time::Ms;

use super::held::Handed;
use super::record;
use crate::Inner;
use crate::error::corrupt;
use crate::reply::{Parts, array, parts, text};
use crate::script::{self, Call};
use crate::state::step::json;

pub(super) async fn turn(inner: &Inner, turns: &[Turn]) -> Result<Vec<Turned>, PortError> {
    let mut call = inner.script(&script::TURN).arg(turns.len());
    let said: Vec<Said> = turns.iter().map(|turn| Said::of(inner, turn)).collect();
    for (turn, said) in turns.iter().zip(&said) {
        call.push((turn.worker.as_str(), turn.lease_ms));
        said.push(&mut call)?;
        call.push(turn.beat.len());
        turn.beat.iter().for_each(|of| call.push((of.job.to_string(), of.fence.0)));
        call.push(turn.want.len());
        turn.want.iter().for_each(|(queue, n)| call.push((queue.as_str(), *n)));
    }
    let answers = parts(inner.call(&call).await?)?;
    let turned = turns.iter().zip(said).zip(answers).map(|((turn, said), answer)| turned(inner, turn, &said, answer));
    turned.collect()
}

/// What a turn settles.
struct Said<'t> {
    /// What was handed out here and is done, by queue: nearly all there is.
    done: Vec<Done<'t>>,
    /// All else, with its place in the turn.
    rest: Vec<(usize, &'t Delivery, &'t Outcome)>,
}

/// A job that is done.
struct Done<'t> {
    /// Its place in the turn.
    place: usize,
    of: &'t Delivery,
    handed: Handed,
    result: &'t Json,
}

impl<'t> Said<'t> {
    fn of(inner: &Inner, turn: &'t Turn) -> Said<'t> {
        let mut said = Said { done: Vec::with_capacity(turn.settle.len()), rest: Vec::new() };
        for (place, (of, outcome)) in turn.settle.iter().enumerate() {
            match (inner.held.take(of), outcome) {
                (Some(handed), Outcome::Completed(result)) if unfit(outcome).is_none() => {
                    said.done.push(Done { place, of, handed, result });
                }
                _ => said.rest.push((place, of, outcome)),
            }
        }
        said.done.sort_by(|one, other| one.handed.queue.cmp(&other.handed.queue));
        said
    }

    fn by_queue(&self) -> impl Iterator<Item = &[Done<'t>]> {
        self.done.chunk_by(|one, other| one.handed.queue == other.handed.queue)
    }

    fn push(&self, call: &mut Call) -> Result<(), PortError> {
        call.push(self.by_queue().count());
        for done in self.by_queue() {
            let Some(Done { handed: Handed { queue, .. }, .. }) = done.first() else { continue };
            let latest = done.iter().map(|done| done.handed.started_at.get()).max().unwrap_or(0);
            call.push((queue.as_str(), latest, done.len()));
            done.iter().for_each(|done| call.push((done.handed.entry(done.of.job), done.result.as_str())));
        }
        call.push(self.rest.len());
        self.rest.iter().try_for_each(|(_, of, outcome)| push_settle(call, of, outcome))
    }

    /// Where each stands now, in the order of the turn. Of what was handed out here only what is not done is named, by
    /// its number.
    fn settled(&self, mut not_done: Parts, rest: Parts) -> Result<Vec<Result<JobStatus, Refusal>>, PortError> {
        let mut all = vec![Ok(JobStatus::Completed); self.done.len() + self.rest.len()];
        let mut put = |place: usize, answer| all.get_mut(place).map(|at| *at = answer);
        for ((place, of, outcome), answer) in self.rest.iter().zip(rest) {
            put(*place, settled(of, outcome, answer)?);
        }
        while let Some(number) = not_done.next() {
            let number: usize = crate::reply::number(number)?;
            let done = number.checked_sub(1).and_then(|at| self.done.get(at));
            let Done { place, of, .. } = done.ok_or_else(|| corrupt("a number", number))?;
            put(*place, settle_answer(of.job, not_done.value()?)?);
        }
        Ok(all)
    }
}

/// What is wrong with an outcome, whatever is stored: said only to whoever still holds the job.
fn unfit(outcome: &Outcome) -> Option<Refusal> {
    match outcome {
        Outcome::Completed(result) => check_result(result).err(),
        Outcome::Failed { error, .. } => error.check().err(),
        Outcome::Released => None,
    }
}

fn push_settle(call: &mut Call, of: &Delivery, outcome: &Outcome) -> Result<(), PortError> {
    call.push((of.job.to_string(), of.fence.0));
    match outcome {
        outcome if unfit(outcome).is_some() => call.push("unfit"),
        Outcome::Completed(result) => call.push(("completed", result.as_str())),
        Outcome::Released => call.push("released"),
        Outcome::Failed { error, retry, spread } => {
            // If its end was asked for meanwhile, that is why, and this is what it came to.
            let mut cancelled = JobError::of(CANCELLED, "its end was asked for while it ran");
            cancelled.previous = Some(error.clone());
            call.push(("failed", json(error)?, json(&cancelled.cut())?, u8::from(*retry), *spread));
        }
    }
    Ok(())
}

fn turned(inner: &Inner, turn: &Turn, said: &Said, answer: Value) -> Result<Turned, PortError> {
    let parts = &mut parts(answer)?;
    let settled = said.settled(parts.parts()?, parts.parts()?)?;
    let beaten = turn.beat.iter().zip(parts.parts()?).map(|(of, answer)| beaten(of, answer));
    let beaten = beaten.collect::<Result<_, _>>()?;
    let claimed = record::claimed(parts.parts()?)?;
    inner.held.put(&claimed);
    let next = parts.some()?.and_then(|next| next.parse().ok()).map(Ms::new);
    Ok(Turned { settled, beaten, claimed, next, at: parts.at()? })
}

fn settled(of: &Delivery, outcome: &Outcome, answer: Value) -> Result<Result<JobStatus, Refusal>, PortError> {
    match (answer, unfit(outcome)) {
        (Value::Array(why), Some(unfit)) if why == [Value::BulkString(b"Invalid".to_vec())] => Ok(Err(unfit)),
        (answer, _) => settle_answer(of.job, answer),
    }
}

fn settle_answer(job: JobId, answer: Value) -> Result<Result<JobStatus, Refusal>, PortError> {
    match answer {
        Value::Array(_) => super::refusal(job, answer, "RUNNING").map(Err),
        status => super::status(&text(status)?).map(Ok),
    }
}

fn beaten(of: &Delivery, answer: Value) -> Result<Result<Beaten, Refusal>, PortError> {
    let all = array(answer)?;
    match &all[..] {
        [Value::BulkString(ok), _, cancel] if ok == b"ok" => {
            let cancel = *cancel == Value::Int(1);
            let until = text(all[1].clone())?;
            let until = until.parse().map_err(|error| corrupt("a time", error))?;
            Ok(Ok(Beaten { until: Ms::new(until), cancel }))
        }
        _ => super::refusal(of.job, Value::Array(all), "RUNNING").map(Err),
    }
}
