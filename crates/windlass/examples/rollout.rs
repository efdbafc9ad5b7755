//! A rollout over HTTP: each tenant's service gets a new version, is asked until it has it, and a person looks before it
//! counts. Here acme is approved; blue is rejected and taken back to `previous`. The services are a few lines below.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use windlass::Windlass;
use windlass::core::id::PlanId;
use windlass::core::task::command::Command;
use windlass::engine::command::Caller;
use windlass::engine::command::task::{Order, Which};
use windlass::engine::stage::guard::Guard;

const PLAN: &str = r#"
plan: new-version
max_concurrency: 1
stages:
  - name: write-config
    http: { method: PUT, url: "{{ config.url }}", json: { version: "{{ config.version }}" } }
    timeout: 5s
    retry: { max: 3, backoff: 100ms }
  - name: healthy
    poll: { url: "{{ config.url }}", expect: { json: /version, equals: "{{ config.version }}" }, every: 50ms, attempts: 20 }
  - name: sign-off
    approval: "Does {{ tenant }} look right with version {{ config.version }}?"
tasks:
  - tenant: acme
    config: { url: "http://ADDRESS/acme", version: 42 }
    previous: { url: "http://ADDRESS/acme", version: 41 }
  - tenant: blue
    config: { url: "http://ADDRESS/blue", version: 42 }
    previous: { url: "http://ADDRESS/blue", version: 41 }
"#;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?.to_string();
    std::thread::spawn(move || serve(&listener));

    // Stages may call public addresses only, unless somebody says otherwise: here, this machine.
    let guard = Guard::On { allow: vec!["127.0.0.1".parse()?] };
    let windlass = Windlass::builder().guard(guard).start().await?;
    let zoe = Caller::new("zoe".parse()?);
    let plan = windlass.submit(&PLAN.replace("ADDRESS", &address), &zoe).await?.plan;

    // Nothing moves any more without a person: both have come to their approval.
    windlass.wait(&plan, Duration::from_secs(30)).await?;
    for item in windlass.inbox().await?.0 {
        println!("inbox: {:?} of {}", item.kind, item.tenant.map_or_else(String::new, |tenant| tenant.to_string()));
    }
    order(&windlass, &plan, "acme", Command::Approve, &zoe).await?;
    let slow = zoe.because("blue has become slow".parse()?);
    order(&windlass, &plan, "blue", Command::Reject, &slow).await?;
    order(&windlass, &plan, "blue", Command::Rollback { force: false }, &slow).await?;

    let blue = windlass.task_history(&Which::Tenant("blue".parse()?)).await?;
    let names: Vec<_> = blue.iter().map(|event| event.fact.name()).collect();
    println!("blue: {}", names.join(" "));
    windlass.stop().await;
    Ok(())
}

/// Does it, waits until nothing moves any more, and shows where that led.
async fn order(windlass: &Windlass, plan: &PlanId, tenant: &str, what: Command, by: &Caller) -> anyhow::Result<()> {
    println!("{} {tenant}", what.name());
    let which = Which::Tenant(tenant.parse()?);
    windlass.task(&Order { which: which.clone(), command: what, config: None }, by).await?;
    windlass.wait(plan, Duration::from_secs(30)).await?;
    println!("{tenant} is {}", windlass.view_task(&which).await?.task.status);
    Ok(())
}

/// The services of all tenants: PUT sets a version, GET tells it, the first time after a PUT still the old one.
fn serve(listener: &TcpListener) {
    let mut versions: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for stream in listener.incoming().flatten() {
        // A caller that has gone away is no reason to stop.
        drop(answer(stream, &mut versions));
    }
}

fn answer(mut stream: TcpStream, versions: &mut BTreeMap<String, Vec<String>>) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut request = String::new();
    reader.read_line(&mut request)?;
    let (mut length, mut line) = (0, String::new());
    while reader.read_line(&mut line)? > 2 {
        let (name, value) = line.split_once(':').unwrap_or_default();
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().unwrap_or(0);
        }
        line.clear();
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;

    let mut words = request.split(' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let known = versions.entry(path.to_owned()).or_insert_with(|| vec![r#"{"version":41}"#.to_owned()]);
    if method == "PUT" {
        known.push(String::from_utf8_lossy(&body).into_owned());
    }
    let told = known.first().cloned().unwrap_or_default();
    if method == "GET" && known.len() > 1 {
        known.remove(0);
    }
    println!("    {method} {path} {}", if method == "PUT" { String::from_utf8_lossy(&body) } else { (&told).into() });
    let length = told.len();
    write!(stream, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n")?;
    write!(stream, "Connection: close\r\n\r\n{told}")
}
