//! A turn: what is said to the store, what handlers do while it is on its way, and what its answer changes.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::{Id, JoinError};
use tokio::time::Instant;
use windlass_core::id::{JobId, QueueName};
use windlass_core::job::JobStatus;
use windlass_core::job::rules::settle;
use windlass_core::port::job::{Turn, Turned};
use windlass_core::port::{BATCH_MAX, PortError, Refusal};

use super::{Loop, back, beat_every, lane};

/// What the store says to a turn.
pub(super) type Answer = Result<Vec<Turned>, PortError>;

/// A turn that is on its way.
pub(super) struct Sent {
    turn: Arc<[Turn; 1]>,
    /// How often there had been a reason to look.
    looks: u64,
    pub(super) beats: bool,
    at: Instant,
}

impl Loop {
    /// Says everything there is to say.
    pub(super) async fn turn(&mut self, want: Vec<(QueueName, u32)>, beats: bool) {
        let lease_ms = self.queues.0.options.lease_ms;
        if beats {
            // From one heartbeat to the next: handlers have become slow, and others can do it sooner.
            let unbegun = self.places.iter_mut().flat_map(|place| place.hand_back(beat_every(lease_ms)));
            self.settle.extend(unbegun.map(|job| back(job.id, job.fence)));
        }
        let beat = if beats { self.held() } else { Vec::new() };
        let fits = self.settle.len().min(BATCH_MAX - beat.len().min(BATCH_MAX));
        let settle = self.settle.drain(..fits).collect();
        let turn = Turn { worker: self.id.clone(), lease_ms, settle, beat, want };
        let idle = self.running.is_empty() && self.calls.is_empty();
        lane::asked(&mut self.places, &turn.want);
        let turn = Arc::new([turn]);
        let sent = Sent { turn: Arc::clone(&turn), looks: self.looks, beats, at: Instant::now() };
        let port = Arc::clone(&self.queues.0.port);
        let call = async move { port.turn(&*turn).await };
        match idle {
            // Nothing happens here meanwhile, and to hand the call to another task takes its time.
            true => {
                let answer = call.await;
                self.answered(sent, answer).await;
            }
            false => drop(self.sent.insert(self.calls.spawn(call).id(), sent)),
        }
    }

    /// The end of a turn that was on its way.
    pub(super) async fn came(&mut self, call: Result<(Id, Answer), JoinError>) {
        let (id, answer) = match call {
            Ok(came) => came,
            Err(why) => (why.id(), Err(PortError::Unavailable(format!("the call was lost: {why}")))),
        };
        if let Some(sent) = self.sent.remove(&id) {
            self.answered(sent, answer).await;
        }
    }

    /// Until no turn is on its way.
    pub(super) async fn all_came(&mut self) {
        while let Some(call) = self.calls.join_next_with_id().await {
            self.came(call).await;
        }
    }

    /// What an answer changes.
    async fn answered(&mut self, sent: Sent, answer: Answer) {
        let Sent { turn, looks, beats, at } = sent;
        let [turn] = Arc::unwrap_or_clone(turn);
        self.took = at.elapsed();
        lane::heard(&mut self.places, &turn.want);
        match answer {
            Ok(mut answers) if answers.len() == 1 => {
                if beats {
                    self.beat_at = Instant::now() + beat_every(turn.lease_ms);
                }
                if let Some(turned) = answers.pop() {
                    self.turned(&turn, turned, looks);
                }
            }
            Ok(_) => self.away(turn, &PortError::Corrupt("the store answered another number of turns".into())).await,
            Err(error) => self.away(turn, &error).await,
        }
    }

    /// No answer: what ended is told again, which changes nothing if it was heard. What may have been claimed is
    /// delivered again when its lease is over.
    async fn away(&mut self, turn: Turn, error: &PortError) {
        tracing::warn!(worker = %self.id, %error, "the store of jobs does not answer");
        // If it was heard, when it was is not known here: who waits for it reads it.
        let told = turn.settle.iter().filter_map(|(delivery, _)| self.no_longer(*delivery));
        let left = told.map(|job| job.id).collect();
        self.leave(left);
        self.settle.splice(0..0, turn.settle);
        tokio::time::sleep(Duration::from_millis(self.queues.0.options.poll_ms)).await;
    }

    fn turned(&mut self, turn: &Turn, turned: Turned, looks: u64) {
        self.endings();
        let mut left = Vec::new();
        for ((delivery, outcome), answer) in turn.settle.iter().zip(&turned.settled) {
            if let Err(why) = answer {
                tracing::warn!(job = %delivery.job, %why, "the answer came too late and was not taken");
            }
            let Some(job) = self.no_longer(*delivery) else { continue };
            let ended = match answer {
                Ok(JobStatus::Completed) => settle(job, delivery.fence, outcome.clone(), turned.at).ok().flatten(),
                _ => None,
            };
            // Who waits here for a job that was completed is told now, and does not have to read it.
            match ended {
                Some(job) => self.queues.0.waiting.completed(job),
                None => left.push(delivery.job),
            }
        }
        self.leave(left);
        for (delivery, answer) in turn.beat.iter().zip(turned.beaten) {
            match answer {
                Ok(beaten) if beaten.cancel => self.cancel(delivery.job),
                Ok(_) => {}
                Err(Refusal::TimedOut { timeout_ms }) => self.timed_out(*delivery, timeout_ms),
                Err(why) => {
                    tracing::warn!(job = %delivery.job, %why, "the job is not this worker's any more");
                    self.lost(*delivery);
                }
            }
        }
        let now = Instant::now();
        if let Some(next) = turned.next {
            let next = now + Duration::from_millis(next.since(turned.at).max(1));
            self.next = Some(self.next.map_or(next, |before| before.min(next)));
        }
        for (queue, wanted) in turn.want.iter().filter(|(_, wanted)| *wanted > 0) {
            let claimed = turned.claimed.iter().filter(|job| job.queue == *queue).count();
            let place = self.places.iter_mut().find(|place| place.lane.queue == *queue);
            if let Some(place) = place {
                // All that was asked for came: there may be more. So there may if that was heard since it was asked.
                let all = claimed >= *wanted as usize;
                place.look = all || looks != self.looks;
                if all {
                    place.gave_all();
                }
            }
        }
        // What was this worker's before was so under a fence that does not count any more.
        let again: HashSet<JobId> = turned.claimed.iter().map(|job| job.id).collect();
        self.places.iter_mut().for_each(|place| place.waiting.retain(|(job, _)| !again.contains(&job.id)));
        for job in turned.claimed {
            self.forget(job.id);
            if let Some(place) = self.places.iter_mut().find(|place| place.lane.queue == job.queue) {
                place.waiting.push_back((job, now));
            }
        }
    }
}
