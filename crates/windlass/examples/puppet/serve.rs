//! One of two instances on one store. It reads commands from its standard input, one a line, and answers each with a line that
//! begins with `=`; when an attempt stops because somebody else owns its task, it says so. Its stages work on a target that
//! decides when they begin and end.

use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::sync::{broadcast, mpsc};
use windlass::Windlass;
use windlass::core::id::{PlanId, TaskId};
use windlass::core::json::Json;
use windlass::core::task::command::{Command, Retry, RetryFrom};
use windlass::engine::bus::News;
use windlass::engine::command::task::{Order, Which};
use windlass::engine::stage::{Told, Trouble};
use windlass::engine::{OnOutage, Options};

use crate::script::ann;

pub(crate) async fn run(store: &str, name: &str, target: &str) {
    let (name, target) = (name.to_owned(), target.to_owned());
    // Whoever slept in the middle of a call may find its connection gone: then it asks again, and does not go on without an answer.
    let (lease_ms, outage) = (crate::LEASE_MS, OnOutage::Hold);
    let options = Options { lease_ms, beat_ms: 50, scan_ms: 50, retry_limit: 0, outage, ..Options::default() };
    let windlass = Windlass::builder()
        .store(store)
        .options(options)
        .handler("effect", move |told, _| effect(name.clone(), target.clone(), told))
        .start()
        .await
        .unwrap();
    tokio::spawn(report(windlass.subscribe()));
    let mut commands = commands();
    println!("= up");
    while let Some(line) = commands.recv().await {
        let words: Vec<&str> = line.split(' ').collect();
        println!("= {}", obey(&windlass, &words).await);
    }
}

/// The lines of the standard input. When they end the test has gone, and so do we.
fn commands() -> mpsc::UnboundedReceiver<String> {
    let (send, receive) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            drop(send.send(line));
        }
        std::process::exit(0);
    });
    receive
}

async fn report(mut news: broadcast::Receiver<News>) {
    loop {
        match news.recv().await {
            Ok(News::TaskLost { task, why }) => println!("lost {task} {why}"),
            Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => {}
            Err(broadcast::error::RecvError::Closed) => return,
        }
    }
}

/// A stage: it asks the target whether it may begin, does what it does under its fence, and asks whether it may end. It
/// takes no refusal for an answer, so that whatever stops it is not the stage itself.
async fn effect(name: String, target: String, told: Told) -> Result<Option<Json>, Trouble> {
    let Told { tenant, stage, pass, fence, .. } = &told;
    let run = format!("{name} {tenant} {stage} {pass} {fence} {}", told.idempotency_key());
    let asked = async {
        let mut stream = BufReader::new(TcpStream::connect(&target).await?);
        let mut answer = String::new();
        for word in ["begin", "effect", "end"] {
            stream.write_all(format!("{word} {run}\n").as_bytes()).await?;
            stream.read_line(&mut answer).await?;
        }
        std::io::Result::Ok(())
    };
    asked.await.map_err(|error| Trouble::stage(error.to_string()))?;
    Ok(None)
}

async fn obey(windlass: &Windlass, words: &[&str]) -> String {
    let task = |plan: &str| Which::Task(TaskId::of(&plan.parse::<PlanId>().unwrap(), 0));
    match *words {
        ["create", plan, tenant] => match windlass.submit(&yaml(plan, tenant), &ann()).await {
            Ok(created) => format!("created {}", created.plan),
            Err(error) => error.to_string(),
        },
        ["interrupted", plan] => {
            until(async || windlass.view_task(&task(plan)).await.unwrap().interrupted).await;
            "interrupted".to_owned()
        }
        ["locked", plan] => {
            until(async || windlass.why_task(&task(plan)).await.unwrap().cause == "locked").await;
            "locked".to_owned()
        }
        ["retry", plan] => {
            let command =
                Command::Retry(Retry { from: RetryFrom::Checkpoint, restart_if_invalid: false, force: false });
            let order = Order { which: task(plan), command, config: None };
            match windlass.task(&order, &ann()).await {
                Ok(_) => "asked".to_owned(),
                Err(error) => error.to_string(),
            }
        }
        ["holder", plan] => {
            let lock = windlass.view_task(&task(plan)).await.unwrap().lock;
            lock.map_or_else(|| "nobody".to_owned(), |holder| holder.fence.to_string())
        }
        ["ended", plan] => {
            let id: PlanId = plan.parse().unwrap();
            until(async || windlass.view_plan(&id).await.unwrap().plan.status.is_final()).await;
            windlass.view_plan(&id).await.unwrap().plan.status.to_string()
        }
        ["lost"] => windlass.counts().lost.load(std::sync::atomic::Ordering::Relaxed).to_string(),
        _ => panic!("{words:?} is no command"),
    }
}

fn yaml(plan: &str, tenant: &str) -> String {
    format!(
        "plan: stopped\nid: {plan}\non_conflict: wait\nstages:\n  - {{ name: a, handler: {{ name: effect }} }}\n  \
         - {{ name: b, handler: {{ name: effect }} }}\ntasks:\n  - tenant: {tenant}\n"
    )
}

/// Looks until it is so; the test has the patience.
async fn until(mut is_so: impl AsyncFnMut() -> bool) {
    while !is_so().await {
        // sleep: leases end, and other instances act, without a word to this one.
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
