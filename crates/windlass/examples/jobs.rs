//! Jobs: submitted, worked on, one that fails until somebody mends what was wrong and puts it back to work.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use windlass::Windlass;
use windlass::core::json::Json;
use windlass::engine::command::Caller;
use windlass::engine::job::Waited;
use windlass::engine::job::worker::{Failed, Told};

/// Whether there is paper.
static PAPER: AtomicBool = AtomicBool::new(false);

#[derive(Debug, thiserror::Error)]
#[error("out of paper")]
struct NoPaper;

/// May run again after a crash: `told.job` is the same then.
async fn print(told: Told) -> Result<Json, Failed> {
    let page = told.payload.unwrap_or_else(Json::null);
    if page.as_str().contains("letter") && !PAPER.load(Ordering::Relaxed) {
        return Err(NoPaper.into());
    }
    println!("printed {page}");
    Ok(Json::parse("{\"pages\":1}")?)
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    // In memory; `.store("embedded:some-folder")` keeps everything.
    let windlass = Windlass::builder().worker("printer".parse()?, 2, print).start().await?;
    let jobs = windlass.jobs();
    let job = |page: &str| anyhow::Ok(jobs.job("printer".parse()?, Some(Json::parse(page)?)));

    let receipt = jobs.submit(job("\"a receipt\"")?).await?;
    println!("the receipt: {}", receipt.await?);

    let letter = jobs.submit(job("\"a letter\"")?).await?;
    if let Waited::Ended(job) = letter.wait(Some(Duration::from_secs(30))).await? {
        println!("the letter is {}: {}", job.status, job.error.as_deref().map(ToString::to_string).unwrap_or_default());
    }
    for item in windlass.inbox().await?.0 {
        println!("inbox: {:?}: {}", item.kind, item.text);
    }

    PAPER.store(true, Ordering::Relaxed);
    jobs.requeue(letter.id(), &Caller::new("zoe".parse()?)).await?;
    println!("the letter: {}", letter.await?);
    windlass.stop().await;
    Ok(())
}
