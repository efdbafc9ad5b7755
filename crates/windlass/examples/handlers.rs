//! Stages that are Rust functions: what one returns the next one can use, one tenant's fails, and a person retries it.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use windlass::Windlass;
use windlass::core::json::Json;
use windlass::core::task::command::{Command, Retry, RetryFrom};
use windlass::engine::command::Caller;
use windlass::engine::command::task::{Order, Which};
use windlass::engine::stage::{Told, Trouble};

const PLAN: &str = r#"
plan: move-in
max_concurrency: 1 # one tenant after the other, so that this prints the same every time
stages:
  - name: database
    handler: { name: create-database, args: { size: "{{ config.size }}" } }
  - name: welcome
    handler: { name: send-mail, args: "Your database is {{ context.database.url }}" }
tasks:
  - { tenant: acme, config: { size: small } }
  - { tenant: blue, config: { size: large } }
"#;

/// Whether mail to blue arrives.
static MAIL_WORKS: AtomicBool = AtomicBool::new(false);

/// What it returns is `context.database` for the stages after it.
async fn create_database(told: Told, args: Json) -> Result<Option<Json>, Trouble> {
    println!("{}: a database with {args}", told.tenant);
    let url = format!(r#"{{ "url": "db://{}" }}"#, told.tenant);
    Json::parse(&url).map(Some).map_err(|error| Trouble::stage(error.to_string()))
}

/// May run again after a crash or a failure: `told.idempotency_key()` is the same then.
async fn send_mail(told: Told, args: Json) -> Result<Option<Json>, Trouble> {
    if told.tenant.as_str() == "blue" && !MAIL_WORKS.load(Ordering::Relaxed) {
        return Err(Trouble::stage("the mailbox is full"));
    }
    println!("{}: mail {args}", told.tenant);
    Ok(None)
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    // In memory; `.store("embedded:some-folder")` keeps everything.
    let windlass =
        Windlass::builder().handler("create-database", create_database).handler("send-mail", send_mail).start().await?;
    let zoe = Caller::new("zoe".parse()?);
    let plan = windlass.submit(PLAN, &zoe).await?.plan;
    let ended = windlass.wait(&plan, Duration::from_secs(30)).await?;
    println!("the plan is {}", ended.map_or("not done yet", |view| view.plan.status.name()));

    // What waits for a person, and why.
    for item in windlass.inbox().await?.0 {
        println!("inbox: {:?}: {}", item.kind, item.text);
    }
    let blue = Which::Tenant("blue".parse()?);
    println!("possible now: {}", windlass.why_task(&blue).await?.possible.join(", "));

    // The database was made and is not made again: only the mail is sent.
    MAIL_WORKS.store(true, Ordering::Relaxed);
    let retry = Command::Retry(Retry { from: RetryFrom::Checkpoint, restart_if_invalid: false, force: false });
    let order = Order { which: blue, command: retry, config: None };
    windlass.task(&order, &zoe.because("the mailbox was emptied".parse()?)).await?;
    let ended = windlass.wait(&plan, Duration::from_secs(30)).await?;
    println!("the plan is {}", ended.map_or("not done yet", |view| view.plan.status.name()));
    windlass.stop().await;
    Ok(())
}
