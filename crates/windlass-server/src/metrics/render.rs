//! The text that Prometheus reads.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

use windlass_core::port::batches::BATCH_BOUNDS;
use windlass_core::port::{Batches, PAGE_MAX};
use windlass_engine::query::pulse::Part;

use super::{BOUNDS_US, Histogram};
use crate::problem::Problem;
use crate::router::routes;
use crate::server::Shared;

/// Everything, as it is now.
pub(crate) async fn render(shared: &Shared) -> Result<String, Problem> {
    let mut text = Text(String::with_capacity(16 << 10));
    requests(&mut text, shared);
    calls(&mut text, shared);
    work(&mut text, shared);
    health(&mut text, shared);
    queues(&mut text, shared).await?;
    Ok(text.0)
}

struct Text(String);

impl Text {
    fn about(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a text cannot fail.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn value(&mut self, name: &str, labels: &str, value: impl std::fmt::Display) {
        let _ = match labels {
            "" => writeln!(self.0, "{name} {value}"),
            _ => writeln!(self.0, "{name}{{{labels}}} {value}"),
        };
    }

    fn one(&mut self, name: &str, kind: &str, help: &str, value: impl std::fmt::Display) {
        self.about(name, kind, help);
        self.value(name, "", value);
    }

    fn histogram(&mut self, name: &str, labels: &str, histogram: &Histogram) {
        let mut sum = 0;
        let comma = if labels.is_empty() { "" } else { "," };
        for (place, count) in histogram.counts.iter().enumerate() {
            sum += count.load(Ordering::Relaxed);
            let bound = BOUNDS_US.get(place).map_or("+Inf".to_owned(), |us| seconds(*us));
            self.value(&format!("{name}_bucket"), &format!("{labels}{comma}le=\"{bound}\""), sum);
        }
        self.value(&format!("{name}_sum"), labels, seconds(histogram.sum_us.load(Ordering::Relaxed)));
        self.value(&format!("{name}_count"), labels, sum);
    }
}

impl Text {
    fn sizes(&mut self, name: &str, batches: &Batches) {
        let mut sum = 0;
        let bounds = BATCH_BOUNDS.iter().map(ToString::to_string).chain(["+Inf".to_owned()]);
        for (bound, count) in bounds.zip(batches.counts()) {
            sum += count;
            self.value(&format!("{name}_bucket"), &format!("le=\"{bound}\""), sum);
        }
        self.value(&format!("{name}_sum"), "", batches.sum());
        self.value(&format!("{name}_count"), "", sum);
    }
}

fn seconds(us: u64) -> String {
    format!("{}", us as f64 / 1_000_000.0)
}

fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

fn requests(text: &mut Text, shared: &Shared) {
    let used =
        || routes().iter().zip(&shared.metrics.requests).filter(|(_, one)| one.answers.iter().any(|n| read(n) > 0));
    let name = "windlass_http_requests_total";
    text.about(name, "counter", "Requests, by operation and the first digit of their status.");
    for (route, one) in used() {
        for (digit, n) in one.answers.iter().enumerate().filter(|(_, n)| read(n) > 0) {
            text.value(name, &format!("operation=\"{}\",status=\"{digit}xx\"", route.id), read(n));
        }
    }
    let name = "windlass_http_request_seconds";
    text.about(name, "histogram", "How long requests took, waits included.");
    for (route, one) in used() {
        text.histogram(name, &format!("operation=\"{}\"", route.id), &one.took);
    }
    let limits = &shared.limits;
    let open = |places: &tokio::sync::Semaphore, all: usize| all.saturating_sub(places.available_permits());
    text.one(
        "windlass_http_streams",
        "gauge",
        "Streams of events that are open.",
        open(&shared.streams, limits.streams),
    );
    text.one("windlass_http_waits", "gauge", "Requests that wait.", open(&shared.waits, limits.waits));
    let connections = open(&shared.connections, limits.connections);
    text.one("windlass_http_connections", "gauge", "Connections that are open.", connections);
    let help = "Connections that were cut off because their client did not read.";
    text.one("windlass_http_slow_clients_total", "counter", help, read(&shared.metrics.slow_clients));
    let help = "Streams of events that were ended because their client fell too far behind.";
    text.one("windlass_http_slow_streams_total", "counter", help, read(&shared.metrics.slow_streams));
}

fn calls(text: &mut Text, shared: &Shared) {
    let calls = &shared.metrics.calls;
    let name = "windlass_store_call_seconds";
    text.about(name, "histogram", "How long calls of the store took, by port and call.");
    for (call, one) in calls.used() {
        text.histogram(name, &format!("call=\"{call}\""), &one.took);
    }
    let name = "windlass_store_failures_total";
    text.about(name, "counter", "Calls of the store without an answer.");
    for (call, one) in calls.used() {
        text.value(name, &format!("call=\"{call}\""), read(&one.failed));
    }
    let metrics = &shared.metrics;
    let help = "Steps handed to the store; with the calls of state_commit, how many each call carried.";
    text.one("windlass_store_steps_total", "counter", help, read(&metrics.steps));
    if let Some(batches) = &shared.batches {
        let name = "windlass_store_batch_size";
        text.about(name, "histogram", "How many callers' work the store made durable at once.");
        text.sizes(name, batches);
    }
    let help = "Writes that the store refused because somebody else owned the tenant or the job.";
    text.one("windlass_stale_writes_total", "counter", help, read(&metrics.stale));
}

fn work(text: &mut Text, shared: &Shared) {
    let (metrics, counts) = (&shared.metrics, shared.engine.counts());
    text.about("windlass_stage_seconds", "histogram", "How long stages took that ended well.");
    text.histogram("windlass_stage_seconds", "", &metrics.stage);
    let help = "How long attempts of tasks took, without what they waited for people.";
    text.about("windlass_task_machine_seconds", "histogram", help);
    text.histogram("windlass_task_machine_seconds", "", &metrics.task);
    let help = "How long tasks waited for a person: an approval, or a resume.";
    text.about("windlass_task_human_seconds", "histogram", help);
    text.histogram("windlass_task_human_seconds", "", &metrics.human);
    text.about("windlass_trigger_delay_seconds", "histogram", "How late occurrences of triggers were claimed.");
    text.histogram("windlass_trigger_delay_seconds", "", &metrics.trigger_delay);
    text.one("windlass_stages_completed_total", "counter", "Stages that ended well.", read(&counts.stages));
    text.one("windlass_stages_failed_total", "counter", "Stages that failed.", read(&metrics.stages_failed));
    text.one("windlass_tasks_running", "gauge", "Attempts that run here.", shared.engine.running());
    let help = "Attempts that stopped because somebody else owned their task.";
    text.one("windlass_lease_losses_total", "counter", help, read(&counts.lost));
    let help = "States kept in memory that the store refused afterwards.";
    text.one("windlass_states_dropped_total", "counter", help, read(&counts.dropped));
    let help = "Events that these figures missed because they came too fast.";
    text.one("windlass_events_missed_total", "counter", help, read(&metrics.events_missed));
}

fn health(text: &mut Text, shared: &Shared) {
    let pulse = shared.engine.pulse();
    text.one("windlass_ready", "gauge", "Whether /readyz says yes.", u8::from(pulse.is_well()));
    let help = "Whether state is kept in memory because the store does not answer.";
    text.one("windlass_degraded", "gauge", help, u8::from(pulse.down_since.is_some()));
    let name = "windlass_loop_stalled";
    text.about(name, "gauge", "Whether a loop has not come round for much too long.");
    for part in Part::ALL {
        let stalled = pulse.stalled.iter().any(|(one, _)| *one == part);
        text.value(name, &format!("loop=\"{}\"", part.name()), u8::from(stalled));
    }
}

async fn queues(text: &mut Text, shared: &Shared) -> Result<(), Problem> {
    let page = shared.queues.queues(None, PAGE_MAX).await?;
    let now = shared.clock.now();
    let name = "windlass_queue_jobs";
    text.about(name, "gauge", "Jobs of a queue that wait and that run.");
    for view in &page.items {
        let queue = &view.queue;
        text.value(name, &format!("queue=\"{queue}\",state=\"waiting\""), view.waiting);
        text.value(name, &format!("queue=\"{queue}\",state=\"running\""), view.running);
    }
    let name = "windlass_queue_oldest_seconds";
    text.about(name, "gauge", "How long the job that could have begun first waits for a worker.");
    for view in &page.items {
        let age_ms = view.oldest.map_or(0, |oldest| now.since(oldest));
        text.value(name, &format!("queue=\"{}\"", view.queue), seconds(age_ms * 1_000));
    }
    Ok(())
}
