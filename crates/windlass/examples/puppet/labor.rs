//! An instance that submits jobs, works on them and fires triggers, until it is killed. What the store has acknowledged is said.

use windlass::core::json::Json;
use windlass::engine::Options;
use windlass::engine::command::Caller;
use windlass::engine::job::Waited;
use windlass::engine::job::worker::{Failed, Told};
use windlass::settings::Settings;
use windlass::{Builder, Windlass};

/// Triggers that fire again and again.
const TRIGGERS: u32 = 3;
const QUEUE: &str = "labor";

/// An instance whose leases end soon after it.
pub(crate) fn builder(store: &str) -> Builder {
    let mut settings = Settings::default();
    (settings.jobs.lease_ms, settings.jobs.scan_ms) = (400, 100);
    let options = Options { lease_ms: 400, beat_ms: 100, scan_ms: 100, ..Options::default() };
    Windlass::builder().store(store).settings(settings).options(options).worker(QUEUE.parse().unwrap(), 4, done)
}

async fn done(told: Told) -> Result<Json, Failed> {
    Ok(Json::parse(&format!("\"{}\"", told.job)).unwrap())
}

pub(crate) async fn run(store: &str) {
    let windlass = builder(store).start().await.unwrap();
    let by = Caller::new("ann".parse().unwrap());
    for n in 0..TRIGGERS {
        let id = format!("labor-{n}").parse().unwrap();
        let triggers = windlass.triggers().unwrap();
        if triggers.get(&id).await.is_err() {
            let spec = r#"{"schedule": {"every": "200ms"}, "target": {"job": {"queue": "labor"}},
                "misfire": {"catch_up": {"max": 1000}}, "maxRetries": 1000}"#;
            // Another instance may be faster.
            drop(triggers.save(Some(id), serde_json::from_str(spec).unwrap(), &by).await);
        }
    }
    println!("up");
    loop {
        let new = (0..5).map(|_| windlass.jobs().job(QUEUE.parse().unwrap(), None)).collect();
        let handles = windlass.jobs().submit_all(new).await.unwrap();
        for handle in &handles {
            println!("submitted {}", handle.id());
        }
        for handle in handles {
            if let Waited::Ended(job) = handle.wait(None).await.unwrap() {
                println!("ended {} {}", job.id, job.status);
            }
        }
    }
}
