//! One of the two that are compared: a store or the model, and what its callers remember.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::Arc;

use windlass_core::fence::Fence;
use windlass_core::id::{JobId, TenantId};
use windlass_core::job::limit::{Limits, Rule, Scope};
use windlass_core::job::rules::{JobAsk, Outcome};
use windlass_core::job::{Asker, Backoff, Job, JobError, JobStatus, NewJob, When};
use windlass_core::json::Json;
use windlass_core::port::job::{Delivery, JobFilter, Jobs, Turn, Turned};
use windlass_core::port::{Mark, PortError, Refusal};
use windlass_core::time::Ms;

use super::call::{self, ALL, Call, Draft, FILTERS, JOBS, QUEUES, RIVALS, SCOPES, Says, Speech, TENANTS, What};
use crate::job::JobHarness;
use crate::job::model::JobModel;
use crate::job::world::{Client, asker, job_id, json};
use crate::random::{GRAIN_MS, refusal};
use crate::world::id;

/// How far a clock jumps: everything that has a length ends a grain after it began, or outlasts one jump and not two,
/// so that the real milliseconds of a store never decide anything.
const JUMP_MS: u64 = 10 * GRAIN_MS;
const LONG_MS: u64 = 15 * GRAIN_MS;

pub(super) struct Side<'h> {
    store: &'h dyn JobHarness,
    model: Option<&'h JobModel>,
    rivals: Vec<Rival>,
    /// When the sequence began, by the store's clock.
    base: Ms,
    /// The fences each job was delivered under, in order.
    fences: BTreeMap<JobId, Vec<Fence>>,
    submitted: Vec<Vec<Vec<NewJob>>>,
    rules: BTreeMap<Scope, Rule>,
}

struct Rival {
    client: Client,
    model: Option<JobModel>,
    ahead_ms: u64,
    feed: Mark,
    /// What had ended when the feed was looked at.
    ended: BTreeSet<JobId>,
}

impl<'h> Side<'h> {
    pub(super) async fn of_store(store: &'h dyn JobHarness) -> Side<'h> {
        Side::new(store, None).await
    }

    pub(super) async fn of_model(model: &'h JobModel) -> Side<'h> {
        Side::new(model, Some(model)).await
    }

    async fn new(store: &'h dyn JobHarness, model: Option<&'h JobModel>) -> Side<'h> {
        let (fences, submitted, rules) = (BTreeMap::new(), Vec::new(), BTreeMap::new());
        let mut side = Side { store, model, rivals: Vec::new(), base: Ms::ZERO, fences, submitted, rules };
        for _ in 0..RIVALS {
            let rival = side.open(0).await;
            side.rivals.push(rival);
        }
        // A turn that says nothing says what time it is.
        side.base = side.rivals[0].client.turn(crate::job::world::turn(&id("clock"))).await.at;
        side
    }

    async fn open(&self, ahead_ms: u64) -> Rival {
        let (jobs, model): (Arc<dyn Jobs>, _) = match self.model {
            Some(model) => {
                let rival = model.rival(ahead_ms);
                (Arc::new(rival.clone()), Some(rival))
            }
            None => (self.store.open_jobs(ahead_ms).await, None),
        };
        let client = Client { jobs, me: id("me") };
        let ended = ended(&client).await;
        Rival { feed: client.ended_mark().await, client, model, ahead_ms, ended }
    }

    /// Makes the call; answers what came of it, comparably, and what was claimed, turn by turn.
    pub(super) async fn make(&mut self, call: &Call, chosen: &[Vec<JobId>]) -> (String, Vec<Vec<JobId>>) {
        let rival = call.rival as usize;
        let jobs = self.rivals[rival].client.jobs.clone();
        let text = match &call.what {
            What::Turn(speeches) => return self.turn(rival, speeches, chosen).await,
            What::Later => {
                self.rivals[rival] = self.open(self.rivals[rival].ahead_ms + JUMP_MS).await;
                String::new()
            }
            What::Restart => {
                self.store.restart().await;
                for i in 0..self.rivals.len() {
                    self.rivals[i] = self.open(self.rivals[i].ahead_ms).await;
                }
                String::new()
            }
            What::Submit(groups) => {
                let groups: Vec<Vec<NewJob>> =
                    groups.iter().map(|group| group.iter().map(|draft| self.new_job(draft)).collect()).collect();
                self.submitted.push(groups.clone());
                each(jobs.submit(&groups).await)
            }
            What::Again { back } => match self.submitted.iter().rev().nth(*back) {
                Some(groups) => each(jobs.submit(groups).await),
                None => "nothing was submitted".to_owned(),
            },
            What::Ask { jobs: asked, requeue } => {
                let asked: Vec<JobId> = asked.iter().map(|job| job_id(u64::from(*job))).collect();
                let ask = if *requeue { JobAsk::Requeue } else { JobAsk::Cancel };
                each(jobs.ask(&asked, ask, &asker()).await)
            }
            What::Rule { scope, running, waiting, held } => {
                let limits = Limits { running: *running, waiting: *waiting };
                let rule = Rule { scope: scope_of(*scope), limits, held: held.then(asker) };
                self.rules.insert(rule.scope.clone(), rule.clone());
                whole(jobs.set_rules(&[rule]).await)
            }
            What::Sweep => whole(jobs.sweep(ALL).await),
            What::Purge { all } => {
                let ahead_ms = if *all { self.rivals[rival].ahead_ms + GRAIN_MS / 2 } else { JUMP_MS / 2 };
                whole(jobs.purge(self.base.plus(ahead_ms), ALL).await)
            }
            What::List { filter, limit } => self.list(rival, *filter, *limit).await,
            What::Queues { limit } => self.queues(rival, *limit).await,
            What::Ended => self.look(rival).await,
        };
        (text, Vec::new())
    }

    fn new_job(&self, draft: &Draft) -> NewJob {
        let body = json(&format!(r#"{{"body":{}}}"#, draft.body));
        let queue = id(&format!("queue-{}", draft.queue));
        NewJob {
            tenant: draft.tenant.map(tenant),
            priority: draft.priority,
            when: match draft.when {
                call::When::Now => When::Now,
                call::When::Soon => When::In(GRAIN_MS),
                call::When::Long => When::In(LONG_MS),
                call::When::Fixed => When::At(self.base.plus(JUMP_MS / 2)),
            },
            max_attempts: draft.attempts,
            backoff: Backoff { first_ms: GRAIN_MS, max_ms: GRAIN_MS },
            timeout_ms: draft.timeout.map(|long| if long { LONG_MS } else { GRAIN_MS }),
            key: draft.key.map(|key| format!("key-{key}")),
            ..NewJob::new(job_id(u64::from(draft.job)), queue, Some(body))
        }
    }

    /// What a worker knows of a job: the newest delivery, or the one before.
    fn delivery(&self, job: u32, late: bool) -> Delivery {
        let job = job_id(u64::from(job));
        let known = self.fences.get(&job).and_then(|all| all.iter().rev().nth(usize::from(late)));
        Delivery { job, fence: known.copied().unwrap_or(Fence::NONE) }
    }

    async fn turn(&mut self, rival: usize, speeches: &[Speech], chosen: &[Vec<JobId>]) -> (String, Vec<Vec<JobId>>) {
        let turns: Vec<Turn> = speeches.iter().map(|speech| self.said(speech)).collect();
        let mut text = String::new();
        // How much of what ran out a claim judges that is full, or held, is open: then it is judged before.
        let full = turns.iter().flat_map(|turn| &turn.want).any(|(_, n)| *n < ALL);
        if full || self.rules.values().any(|rule| rule.held.is_some()) {
            text += &whole(self.rivals[rival].client.jobs.sweep(ALL).await);
        }
        let turned = match &self.rivals[rival].model {
            None => self.rivals[rival].client.jobs.turn(&turns).await.map_err(|why| failed(&why)),
            Some(model) => model.follow(&turns, chosen),
        };
        let turned = match turned {
            Ok(turned) => turned,
            Err(why) => return (text + &why, Vec::new()),
        };
        for job in turned.iter().flat_map(|turned| &turned.claimed) {
            self.fences.entry(job.id).or_default().push(job.fence);
        }
        for (turn, turned) in turns.iter().zip(&turned) {
            text += &self.turned(turn, turned);
        }
        let claimed = turned.iter().map(|turned| turned.claimed.iter().map(|job| job.id).collect());
        (text, claimed.collect())
    }

    fn said(&self, speech: &Speech) -> Turn {
        let mut deep = JobError::of("E", "deep");
        (0..20).for_each(|_| deep = JobError { previous: Some(Box::new(deep.clone())), ..JobError::of("E", "deeper") });
        let failed = |error, retry| Outcome::Failed { error: Box::new(error), retry, spread: 0 };
        let settle = speech.settle.iter().map(|(job, says, late)| {
            let outcome = match says {
                Says::Done => Outcome::Completed(Json::null()),
                Says::Failed { retry } => failed(JobError::of("E", "no"), *retry),
                Says::Released => Outcome::Released,
                Says::TooDeep => failed(deep.clone(), true),
            };
            (self.delivery(*job, *late), outcome)
        });
        Turn {
            worker: id(&format!("worker-{}", speech.worker)),
            lease_ms: if speech.long { LONG_MS } else { GRAIN_MS },
            settle: settle.collect(),
            beat: speech.beat.iter().map(|(job, late)| self.delivery(*job, *late)).collect(),
            want: speech.want.iter().map(|(queue, n)| (id(&format!("queue-{queue}")), *n)).collect(),
        }
    }

    fn turned(&self, turn: &Turn, turned: &Turned) -> String {
        let mut lines = vec![format!("at {}", self.grains(turned.at))];
        for ((of, _), answer) in turn.settle.iter().zip(&turned.settled) {
            lines.push(format!("settled {:?}", answer.as_ref().map_err(|why| self.refused(of.job, why))));
        }
        for (of, answer) in turn.beat.iter().zip(&turned.beaten) {
            let answer = answer.as_ref().map(|beaten| (self.grains(beaten.until), beaten.cancel));
            lines.push(format!("beaten {:?}", answer.map_err(|why| self.refused(of.job, why))));
        }
        lines.extend(turned.claimed.iter().map(|job| format!("claimed {}", self.plain(job))));
        // What a hold or a limit stops may be left out of it, and a queue that gave all that was wanted of it.
        let gave_all = turn.want.iter().any(|(queue, n)| {
            let given = turned.claimed.iter().filter(|job| job.queue == *queue).count();
            given >= *n as usize
        });
        if self.rules.is_empty() && !gave_all {
            lines.push(format!("next {:?}", turned.next.map(|next| self.grains(next))));
        }
        lines.join("\n") + "\n"
    }

    fn refused(&self, job: JobId, why: &Refusal) -> String {
        match why {
            Refusal::Stale { given, stored } => {
                format!("Stale {:?} {:?}", self.rank(job, *given), self.rank(job, *stored))
            }
            why => refusal(why),
        }
    }

    /// Which delivery of the job it was.
    fn rank(&self, job: JobId, fence: Fence) -> u64 {
        let known = self.fences.get(&job).and_then(|all| all.iter().position(|known| *known == fence));
        known.map_or(if fence == Fence::NONE { 0 } else { 999 }, |at| at as u64 + 1)
    }

    /// A time of the store, in grains since the beginning.
    fn grains(&self, ms: Ms) -> u64 {
        if ms == Ms::ZERO { 0 } else { 1 + (ms.get() + GRAIN_MS / 2).saturating_sub(self.base.get()) / GRAIN_MS }
    }

    /// A job without what is the store's own.
    fn plain(&self, job: &Job) -> String {
        let grains = |ms: Ms| Ms::new(self.grains(ms));
        let asker = |asker: &Option<Asker>| asker.clone().map(|asker| Asker { at: grains(asker.at), ..asker });
        let plain = Job {
            submitted_at: grains(job.submitted_at),
            started_at: job.started_at.map(grains),
            completed_at: job.completed_at.map(grains),
            run_at: grains(job.run_at),
            lease_until: grains(job.lease_until),
            fence: Fence(self.rank(job.id, job.fence)),
            seq: 0,
            digest: 0,
            cancel: asker(&job.cancel),
            asked: asker(&job.asked),
            ..job.clone()
        };
        format!("{plain:?}")
    }

    /// A list's jobs by id; its order is held to what the store itself says of them.
    async fn list(&self, rival: usize, filter: u32, limit: u32) -> String {
        let mut listed = self.rivals[rival].client.list(&filter_of(filter), limit).await;
        if let Some(pair) = listed.windows(2).find(|pair| place(&pair[0]) > place(&pair[1])) {
            return format!("out of order: {pair:?}");
        }
        listed.sort_by_key(|job| job.id);
        listed.iter().map(|job| self.plain(job)).collect::<Vec<_>>().join("\n")
    }

    /// Queues that are there because of their jobs or rules; who asks for them is known for a while only.
    async fn queues(&self, rival: usize, limit: u32) -> String {
        let views = self.rivals[rival].client.queues(limit).await;
        let ordered = views.windows(2).all(|pair| pair[0].queue < pair[1].queue);
        let views = views.iter().filter(|view| view.waiting + view.running > 0).map(|view| {
            let oldest = view.oldest.map(|oldest| self.grains(oldest));
            format!("{} {} {} {oldest:?}", view.queue, view.waiting, view.running)
        });
        format!("{ordered} {:?}", views.collect::<Vec<_>>())
    }

    /// Whatever ended since the last look is told, or a gap is.
    async fn look(&mut self, rival: usize) -> String {
        let rival = &mut self.rivals[rival];
        let now = ended(&rival.client).await;
        let mut missing: BTreeSet<JobId> = now.difference(&rival.ended).copied().collect();
        for _ in 0..20 {
            let wait_ms = if missing.is_empty() { 0 } else { 1_000 };
            let told = rival.client.jobs.ended(rival.feed, wait_ms).await.expect("ended");
            told.jobs.iter().for_each(|job| _ = missing.remove(job));
            rival.feed = told.mark;
            if told.gap || missing.is_empty() {
                missing.clear();
                break;
            }
        }
        rival.ended = now;
        format!("not told of {missing:?}")
    }

    /// All that is stored, seen by every rival.
    pub(super) async fn everything(&mut self) -> Vec<String> {
        let mut all = Vec::new();
        for rival in 0..self.rivals.len() {
            for filter in 0..FILTERS {
                all.push(format!("rival {rival} lists {filter}: {}", self.list(rival, filter, 1_000).await));
            }
            all.push(format!("rival {rival} sees {}", self.queues(rival, 1_000).await));
            all.push(format!("rival {rival} is {}", self.look(rival).await));
        }
        let client = &self.rivals[0].client;
        let mut order = client.everything().await;
        order.sort_by_key(|job| job.seq);
        all.push(format!("submitted in the order {:?}", order.iter().map(|job| job.id).collect::<Vec<_>>()));
        let scopes: Vec<Scope> = (0..SCOPES).map(scope_of).collect();
        all.push(format!("{:?}", client.jobs.rules(&scopes).await));
        all
    }
}

async fn ended(client: &Client) -> BTreeSet<JobId> {
    let ids: Vec<JobId> = (0..JOBS).map(|job| job_id(u64::from(job))).collect();
    let jobs = client.jobs.load(&ids).await.expect("load");
    jobs.into_iter().flatten().filter(|job| job.status.is_ended()).map(|job| job.id).collect()
}

fn tenant(i: u32) -> TenantId {
    id(&format!("tenant-{i}"))
}

fn scope_of(i: u32) -> Scope {
    match i {
        i if i < QUEUES => Scope::Queue(id(&format!("queue-{i}"))),
        i if i < QUEUES + TENANTS => Scope::Tenant(tenant(i - QUEUES)),
        _ => Scope::EachTenant,
    }
}

fn filter_of(i: u32) -> JobFilter {
    let all = JobFilter::default();
    match i % FILTERS {
        0 => all,
        1 => JobFilter { queue: Some(id("queue-1")), ..all },
        2 => JobFilter { tenant: Some(tenant(1)), ..all },
        3 => JobFilter { statuses: vec![JobStatus::Failed, JobStatus::Running], ..all },
        4 => JobFilter { queue: Some(id("queue-0")), tenant: Some(tenant(0)), statuses: vec![JobStatus::Pending] },
        _ => JobFilter { queue: Some(id("queue-0")), tenant: None, statuses: vec![JobStatus::Completed] },
    }
}

/// Where a job comes in a list; nothing is said of ends within a millisecond.
fn place(job: &Job) -> impl PartialOrd {
    let ended = |kind: u8| (kind, Some(std::cmp::Reverse(job.completed_at)), None);
    let live = || (job.queue.clone(), job.tenant.clone(), -i16::from(job.priority), job.run_at, job.seq);
    match job.status {
        JobStatus::Pending | JobStatus::Running => (0, None, Some(live())),
        JobStatus::Failed => ended(1),
        JobStatus::Cancelled => ended(2),
        JobStatus::Completed => ended(3),
    }
}

/// An answer per item, one line each.
fn each<T: Debug>(answers: Result<Vec<Result<T, Refusal>>, PortError>) -> String {
    let line = |answer: &Result<T, Refusal>| format!("{:?}", answer.as_ref().map_err(refusal));
    answers.map_or_else(|why| failed(&why), |answers| answers.iter().map(line).collect::<Vec<_>>().join("\n"))
}

fn whole<T: Debug>(answer: Result<T, PortError>) -> String {
    answer.map_or_else(|why| failed(&why), |answer| format!("{answer:?}\n"))
}

/// A call that failed as a whole; random calls may be wrong, but nothing is ever unavailable.
fn failed(why: &PortError) -> String {
    match why {
        PortError::Invalid(_) => "Invalid call".to_owned(),
        other => panic!("the store failed: {other}"),
    }
}
