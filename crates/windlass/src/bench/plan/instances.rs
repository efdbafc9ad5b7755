//! Several instances on one store, each in a process of its own: whether more of them are slower than one.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::Context as _;
use windlass_core::id::PlanId;

use super::{Bench, Gaps, StoreUrl, start_on};
use crate::Windlass;
use crate::bench::instances::{Other, Part, REST, Turns, WORK, at_rest, name};
use crate::bench::{Row, Timer};
use crate::open::{Restless, open};
use crate::settings::Settings;

/// How long the others have for their first stage: a new instance takes nothing of a conductor that it has not heard
/// of, and that is renewed by the beat.
const WARM_UP: Duration = Duration::from_secs(60);

/// The other side: an instance on the store that its first line names, which works on plans between the lines that tell it to and
/// to rest. Every line is answered with the number of stages it has ended, until there are no more.
#[expect(clippy::print_stdout, reason = "how the child answers its parent")]
pub fn instance(settings: &Settings) -> anyhow::Result<()> {
    let mut lines = std::io::stdin().lines();
    let url: StoreUrl = lines.next().context("no store was named")??.parse()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let stores = runtime.block_on(open(&url, settings))?;
    let stages = |windlass: &Windlass| windlass.counts().stages.load(Ordering::Relaxed);
    let (mut works, mut before) = (None, 0);
    loop {
        println!("{}", before + works.as_ref().map_or(0, stages));
        let line = lines.next().transpose()?;
        match line.as_deref() {
            Some(WORK) if works.is_none() => {
                let start = async { start_on(stores.clone(), settings.into(), &Arc::default()).await };
                works = Some(runtime.block_on(start)?);
            }
            None | Some(REST) => {
                if let Some(windlass) = works.take() {
                    runtime.block_on(windlass.stop());
                    before += stages(&windlass);
                }
            }
            Some(_) => {}
        }
        if line.is_none() {
            return Ok(());
        }
    }
}

impl Bench<'_> {
    /// The same plans by one instance and by several in turn; see [`Turns::judge`].
    pub(super) async fn several(&self) -> anyhow::Result<Row> {
        let gaps = Arc::new(Gaps::default());
        let windlass = self.start("several", self.options(), &gaps).await?;
        let server = Restless::of(self.url, self.settings).await?;
        let mut others = Other::start_rest(Part::Plan, self.url, self.config, self.instances).await?;
        let (mut turns, mut timer) = (Turns::default(), Timer::new()?);
        let mut shares = vec![0; self.instances as usize];
        turns.one.push(self.turn(&windlass, &server, &gaps, "one").await?);
        // What is small may be one's before another has heard of it: then there is nothing to compare yet.
        let is_one_s = |shares: &[u64]| shares.iter().filter(|stages| **stages > 0).count() < 2;
        while turns.several.len() < self.scale.turns || is_one_s(&shares) {
            anyhow::ensure!(turns.took() < WARM_UP || !is_one_s(&shares), "one instance did everything");
            let turn = turns.several.len();
            let before = self.until_all_work(&windlass, &mut others, turn).await?;
            turns.several.push(self.turn(&windlass, &server, &gaps, &format!("several-{turn}")).await?);
            gaps.record(&mut timer);
            let after = done(&windlass, &mut others).await?;
            shares.iter_mut().zip(after).zip(before).for_each(|((sum, after), before)| *sum += after - before);
            for other in &mut others {
                other.ask(REST).await?;
            }
            turns.one.push(self.turn(&windlass, &server, &gaps, &format!("one-{turn}")).await?);
        }
        for other in others {
            other.stop().await?;
        }
        windlass.stop().await;
        let (per_s, bar, pass) = turns.judge(f64::from(self.plans_of_several()) * 100.0, "stages", &shares);
        let row = timer.row(&name(self.instances), self.store(), self.plans_of_several() * 10, "stages", turns.took());
        Ok(Row { bench: "plan", per_s, ..row }.judged(bar, pass))
    }

    /// Three times as many as there is room for at once in one: what is compared is how much is done while there is enough to do, not
    /// how a burst begins and ends, which one instance conducts in any case.
    fn plans_of_several(&self) -> u32 {
        3 * self.scale.plans
    }

    async fn turn(&self, windlass: &Windlass, server: &Restless, gaps: &Gaps, name: &str) -> anyhow::Result<Duration> {
        let created = async || self.created(windlass, name, self.plans_of_several()).await;
        let started = async |plans: Vec<PlanId>| {
            gaps.forget();
            Ok(self.started(windlass, &plans).await?.took)
        };
        at_rest(server, created, started).await
    }

    /// It is the others' turn: work, until every one has had some; answers how much each has done so far, this one first.
    async fn until_all_work(&self, windlass: &Windlass, others: &mut [Other], turn: usize) -> anyhow::Result<Vec<u64>> {
        let before = done(windlass, others).await?;
        for other in others.iter_mut() {
            other.ask(WORK).await?;
        }
        let warm_up = async {
            for round in 0.. {
                self.round(windlass, &format!("warm-up-{turn}-{round}"), self.scale.plans).await?;
                let done = done(windlass, others).await?;
                if done.iter().zip(&before).skip(1).all(|(done, before)| done > before) {
                    return Ok(done);
                }
            }
            anyhow::bail!("an instance was given no work")
        };
        tokio::time::timeout(WARM_UP, warm_up).await.context("an instance was given no work")?
    }
}

/// How many stages each has ended, this one first.
async fn done(windlass: &Windlass, others: &mut [Other]) -> anyhow::Result<Vec<u64>> {
    let mut done = vec![windlass.counts().stages.load(Ordering::Relaxed)];
    for other in others {
        done.push(other.ask("").await?);
    }
    Ok(done)
}
