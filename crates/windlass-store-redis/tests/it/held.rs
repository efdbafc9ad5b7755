//! A process completes what it handed out without reading it: only as long as it is still as it was handed out.

use std::sync::Arc;

use redis::Connection;
use windlass_conformance::job::world::{Client, LATER_MS, delivery, done, job_id, of, turn};
use windlass_conformance::world::id;
use windlass_core::id::JobId;
use windlass_core::job::rules::JobAsk;
use windlass_core::job::{Job, JobStatus};
use windlass_core::port::Refusal;
use windlass_core::port::job::Turn;
use windlass_core::time::Ms;
use windlass_store_redis::{Options, Redis};

use crate::server::{Space, space};

const DONE: Result<JobStatus, Refusal> = Ok(JobStatus::Completed);

/// Workers, each a process of its own, on one server.
struct Workers {
    space: Space,
    stores: Vec<Redis>,
}

impl Workers {
    fn new() -> Workers {
        Workers { space: space(), stores: Vec::new() }
    }

    async fn open(&mut self, me: &str, ahead_ms: u64) -> Client {
        let options = Options { prefix: self.space.prefix.clone(), ahead_ms, ..Options::default() };
        let store = Redis::open(&self.space.url, &options).await.unwrap();
        self.stores.push(store.clone());
        Client { jobs: Arc::new(store), me: id(me) }
    }

    fn redis(&self) -> Connection {
        redis::Client::open(self.space.url.as_str()).unwrap().get_connection().unwrap()
    }

    fn key(&self, name: &str) -> String {
        format!("{}{name}", self.space.prefix)
    }

    /// What runs in the queue, as the list has it.
    fn running(&self) -> Vec<String> {
        redis::cmd("ZRANGE").arg(self.key("queue:running:q")).arg(0).arg(-1).query(&mut self.redis()).unwrap()
    }

    /// How many of a tenant's run.
    fn counted(&self, tenant: &str) -> Option<i64> {
        let key = self.key(&format!("job:tenant:{tenant}"));
        redis::cmd("HGET").arg(key).arg("running").query(&mut self.redis()).unwrap()
    }

    /// As if the server's clock had been set back since it was submitted.
    fn submitted_at(&self, job: JobId, at: Ms) {
        let (key, server) = (self.key(&format!("task:{job}:meta")), &mut self.redis());
        let meta: String = redis::cmd("GET").arg(&key).query(server).unwrap();
        let mut parts: Vec<&str> = meta.split(',').collect();
        let at = at.get().to_string();
        parts[7] = &at;
        redis::cmd("SET").arg(&key).arg(parts.join(",")).exec(server).unwrap();
    }

    /// As the version before this one left it: without the fence.
    fn forget_fence(&self, job: &Job) {
        let (key, server) = (self.key("queue:running:q"), &mut self.redis());
        let tenant = job.tenant.as_ref().unwrap();
        let (old, new) = (format!("{}{tenant}", job.id), format!("{}{tenant}:{}", job.id, job.fence.0));
        assert_eq!(redis::cmd("ZREM").arg(&key).arg(new).query::<u32>(server).unwrap(), 1);
        redis::cmd("ZADD").arg(&key).arg(job.lease_until.get()).arg(old).exec(server).unwrap();
    }

    async fn close(self) {
        for store in self.stores {
            store.close().await;
        }
    }
}

#[test]
fn what_is_said_twice_at_once_is_done_once() {
    windlass_conformance::harness::block_on(async {
        let mut workers = Workers::new();
        let one = workers.open("one", 0).await;
        one.add(&[of(1, "acme"), of(2, "acme"), of(3, "oak")]).await;
        let jobs = one.claim(3).await;
        let twice = |job: &Job| [(delivery(job), done()), (delivery(job), done())];
        let all = Turn { settle: jobs.iter().flat_map(twice).collect(), ..turn(&one.me) };
        let last = Turn { beat: vec![delivery(&jobs[0])], ..all.clone() };
        let turned = one.jobs.turn(&[all.clone(), last]).await.unwrap();
        assert!(turned.iter().flat_map(|turned| &turned.settled).all(|settled| *settled == DONE), "{turned:?}");
        assert!(matches!(turned[1].beaten[..], [Err(Refusal::State { status: "COMPLETED", .. })]), "{turned:?}");
        assert_eq!(one.turn(all).await.settled, vec![DONE; 6], "and again");
        assert_eq!((workers.running().len(), workers.counted("acme"), workers.counted("oak")), (0, None, None));
        let stored = one.jobs.load(&jobs.iter().map(|job| job.id).collect::<Vec<_>>()).await.unwrap();
        for (job, stored) in jobs.iter().zip(stored) {
            let stored = stored.unwrap();
            assert_eq!((stored.status, stored.version), (JobStatus::Completed, job.version + 1));
        }
        workers.close().await;
    });
}

#[test]
fn who_lost_one_of_many_completes_the_others() {
    windlass_conformance::harness::block_on(async {
        let mut workers = Workers::new();
        let (one, later) = (workers.open("one", 0).await, workers.open("later", LATER_MS).await);
        one.add(&(1..=5).map(|n| of(n, "acme")).collect::<Vec<_>>()).await;
        let jobs = one.claim(4).await;
        // One goes to somebody else, and the end of another is asked for.
        let theirs = later.take().await;
        let asked = jobs.iter().find(|job| job.id != theirs.id).unwrap();
        later.ask(asked.id, JobAsk::Cancel).await.unwrap();
        let settle = jobs.iter().map(|job| (delivery(job), done())).collect();
        let settled = one.turn(Turn { settle, ..turn(&one.me) }).await.settled;
        for (job, settled) in jobs.iter().zip(settled) {
            if job.id == theirs.id {
                assert_eq!(settled, Err(Refusal::Stale { given: job.fence, stored: theirs.fence }));
            } else {
                assert_eq!(settled, DONE);
            }
        }
        let stored = one.jobs.load(&[asked.id]).await.unwrap().remove(0).unwrap();
        assert_eq!((stored.status, stored.cancel), (JobStatus::Completed, None));
        assert_eq!((workers.running().len(), workers.counted("acme")), (1, Some(1)), "theirs");
        assert_eq!(later.settle(&theirs, done()).await, DONE);
        assert_eq!((workers.running().len(), workers.counted("acme")), (0, None));
        workers.close().await;
    });
}

#[test]
fn no_job_ends_before_it_began() {
    windlass_conformance::harness::block_on(async {
        let mut workers = Workers::new();
        let one = workers.open("one", 0).await;
        one.add(&[of(1, "acme"), of(2, "acme")]).await;
        let ahead = Ms::new(4_000_000_000_000);
        workers.submitted_at(job_id(1), ahead);
        let jobs = one.claim(2).await;
        let settle = jobs.iter().map(|job| (delivery(job), done())).collect();
        assert_eq!(one.turn(Turn { settle, ..turn(&one.me) }).await.settled, [DONE, DONE]);
        let [early, now] = [one.load(job_id(1)).await, one.load(job_id(2)).await];
        assert_eq!((early.started_at, early.completed_at), (Some(ahead), Some(ahead)));
        assert!(now.completed_at < Some(ahead) && now.completed_at >= now.started_at);
        workers.close().await;
    });
}

#[test]
fn what_an_older_version_handed_out_is_completed_or_handed_out_again() {
    windlass_conformance::harness::block_on(async {
        let mut workers = Workers::new();
        let (one, later) = (workers.open("one", 0).await, workers.open("later", LATER_MS).await);
        one.add(&[of(1, "acme"), of(2, "acme")]).await;
        let jobs = one.claim(2).await;
        jobs.iter().for_each(|job| workers.forget_fence(job));
        let [ended, lost] = &jobs[..] else { panic!("{jobs:?}") };
        assert_eq!(one.settle(ended, done()).await, DONE);
        assert_eq!(workers.running().len(), 2, "its entry is not known");
        assert!(later.claim(2).await.is_empty(), "the entries are put right");
        let again = later.take().await;
        assert_eq!((again.id, again.deliveries), (lost.id, 2));
        assert_eq!(later.settle(&again, done()).await, DONE);
        assert_eq!((workers.running().len(), workers.counted("acme")), (0, None));
        workers.close().await;
    });
}
