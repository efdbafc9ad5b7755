//! Turns: everything workers have to say at one moment, and what they get.

use redis::Value;
use windlass_core::job::error::CANCELLED;
use windlass_core::job::rules::{Outcome, check_result};
use windlass_core::job::{JobError, JobStatus};
use windlass_core::port::job::{Beaten, Delivery, Turn, Turned};
use windlass_core::port::{PortError, Refusal};
use windlass_core::time::Ms;

use super::record;
use crate::Inner;
use crate::reply::{array, parts, text};
use crate::script::{self, Call};
use crate::state::step::json;

pub(super) async fn turn(inner: &Inner, turns: &[Turn]) -> Result<Vec<Turned>, PortError> {
    let mut call = inner.script(&script::TURN).arg(turns.len());
    for turn in turns {
        call.push((turn.worker.as_str(), turn.lease_ms, turn.settle.len()));
        for (of, outcome) in &turn.settle {
            push_settle(&mut call, of, outcome)?;
        }
        call.push(turn.beat.len());
        turn.beat.iter().for_each(|of| call.push((of.job.to_string(), of.fence.0)));
        call.push(turn.want.len());
        turn.want.iter().for_each(|(queue, n)| call.push((queue.as_str(), *n)));
    }
    let answers = parts(inner.call(&call).await?)?;
    turns.iter().zip(answers).map(|(turn, answer)| turned(turn, answer)).collect()
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

fn turned(turn: &Turn, answer: Value) -> Result<Turned, PortError> {
    let parts = &mut parts(answer)?;
    let settled = turn.settle.iter().zip(parts.parts()?).map(|((of, outcome), answer)| settled(of, outcome, answer));
    let settled = settled.collect::<Result<_, _>>()?;
    let beaten = turn.beat.iter().zip(parts.parts()?).map(|(of, answer)| beaten(of, answer));
    let beaten = beaten.collect::<Result<_, _>>()?;
    let claimed = record::claimed(parts.parts()?)?;
    let next = parts.some()?.and_then(|next| next.parse().ok()).map(Ms::new);
    Ok(Turned { settled, beaten, claimed, next, at: parts.at()? })
}

fn settled(of: &Delivery, outcome: &Outcome, answer: Value) -> Result<Result<JobStatus, Refusal>, PortError> {
    match (answer, unfit(outcome)) {
        (Value::Array(why), Some(unfit)) if why == [Value::BulkString(b"Invalid".to_vec())] => Ok(Err(unfit)),
        (Value::Array(why), _) => super::refusal(of.job, Value::Array(why), "RUNNING").map(Err),
        (status, _) => super::status(&text(status)?).map(Ok),
    }
}

fn beaten(of: &Delivery, answer: Value) -> Result<Result<Beaten, Refusal>, PortError> {
    let all = array(answer)?;
    match &all[..] {
        [Value::BulkString(ok), _, cancel] if ok == b"ok" => {
            let cancel = *cancel == Value::Int(1);
            let until = text(all[1].clone())?;
            let until = until.parse().map_err(|error| crate::error::corrupt("a time", error))?;
            Ok(Ok(Beaten { until: Ms::new(until), cancel }))
        }
        _ => super::refusal(of.job, Value::Array(all), "RUNNING").map(Err),
    }
}
