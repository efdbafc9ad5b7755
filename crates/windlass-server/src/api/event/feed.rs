//! One client's stream.

use std::time::Duration;

use axum::body::Bytes;
use serde::Serialize;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::SendTimeoutError;
use windlass_core::event;
use windlass_core::port::PAGE_MAX;
use windlass_core::port::state::{Filter, Row};
use windlass_core::time::Ms;
use windlass_engine::bus::News;

use super::About;
use super::position::{Missed, Position};
use crate::call::Call;
use crate::metrics::count;
use crate::schema::Time;
use crate::view::event::Event;

/// A comment this often, so that both sides notice when the other is gone.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// How often the store is asked what other instances did.
const ELSEWHERE: Duration = Duration::from_secs(1);

pub(super) struct Feed {
    pub(super) call: Call,
    pub(super) about: About,
    pub(super) position: Position,
    pub(super) to: mpsc::Sender<Bytes>,
}

/// The client is gone, or too slow.
struct Gone;

/// What is live only: it has no number and cannot be taken up.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum Live<'a> {
    TaskProgress { task: &'a str, completed: u32, stages: u32 },
    TaskInterrupted { plan: &'a str, task: &'a str },
    StoreDegraded { since: Time },
    StoreRestored {},
}

impl Feed {
    pub(super) async fn run(mut self, mut news: Receiver<News>, missed: Missed) {
        // Both are ways to end.
        drop(self.follow(&mut news, missed).await);
    }

    async fn follow(&mut self, news: &mut Receiver<News>, missed: Missed) -> Result<(), Gone> {
        self.comment("windlass").await?;
        self.catch_up(missed).await?;
        let mut beat = tokio::time::interval(HEARTBEAT);
        let mut look = tokio::time::interval(ELSEWHERE);
        look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let shared = std::sync::Arc::clone(&self.call.shared);
        let stopped = shared.stopped();
        tokio::pin!(stopped);
        loop {
            tokio::select! { biased;
                () = &mut stopped => return Ok(()),
                () = self.to.closed() => return Err(Gone),
                heard = news.recv() => match heard {
                    Ok(News::Event { event, durable }) => self.happened(&event, durable).await?,
                    Ok(other) => self.live(&other).await?,
                    Err(RecvError::Lagged(_)) => self.fell_behind().await?,
                    Err(RecvError::Closed) => return Ok(()),
                },
                _ = beat.tick() => self.comment("").await?,
                _ = look.tick() => self.look_elsewhere().await?,
            }
        }
    }

    fn is_about(&self, event: &event::Event) -> bool {
        let asked = match &self.about {
            About::Everything => true,
            About::Plan(plan) => event.plan == *plan,
            About::Task(task) => event.task.as_ref() == Some(task),
        };
        asked
            && match &event.tenant {
                Some(tenant) => self.call.who.sees(tenant),
                // A plan's own events: whoever asked for the plan may see it.
                None => self.call.who.tenants.is_none() || matches!(self.about, About::Plan(_)),
            }
    }

    async fn happened(&mut self, event: &event::Event, durable: bool) -> Result<(), Gone> {
        if !self.is_about(event) {
            return Ok(());
        }
        // What is not stored has no lasting number; it is told again when it is.
        let new = !durable || matches!(self.about, About::Everything) || self.position.advance(event);
        if new { self.send(event, durable).await } else { Ok(()) }
    }

    async fn send(&self, event: &event::Event, durable: bool) -> Result<(), Gone> {
        let bare = self.call.who.tenants.is_some() && event.task.is_none();
        let view = Event::from(event);
        let view = if bare { view.bare() } else { view };
        let id = if durable { Some(view.id.as_str()) } else { None };
        self.frame(id, view.kind, &view).await
    }

    async fn live(&self, news: &News) -> Result<(), Gone> {
        if self.call.who.tenants.is_some() {
            return Ok(());
        }
        let mine = |task: &windlass_core::id::TaskId| match &self.about {
            About::Everything => true,
            About::Plan(_) => false,
            About::Task(own) => own == task,
        };
        let (kind, live) = match news {
            News::TaskProgress { task, completed, stages } if mine(task) => {
                ("TaskProgress", Live::TaskProgress { task: task.as_str(), completed: *completed, stages: *stages })
            }
            News::TaskInterrupted { plan, task }
                if mine(task) || matches!(&self.about, About::Plan(own) if own == plan) =>
            {
                ("TaskInterrupted", Live::TaskInterrupted { plan: plan.as_str(), task: task.as_str() })
            }
            News::StoreDegraded { since } => ("StoreDegraded", Live::StoreDegraded { since: Time(*since) }),
            News::StoreRestored => ("StoreRestored", Live::StoreRestored {}),
            _ => return Ok(()),
        };
        self.frame(None, kind, &live).await
    }

    /// This client was slower than events came: what is stored makes up for it, of everything nobody can.
    async fn fell_behind(&mut self) -> Result<(), Gone> {
        match self.about {
            About::Everything => self.reset().await,
            _ => self.look().await,
        }
    }

    async fn look_elsewhere(&mut self) -> Result<(), Gone> {
        match self.about {
            About::Everything => Ok(()),
            _ if self.is_alone().await => Ok(()),
            _ => self.look().await,
        }
    }

    /// Whether no other instance lives. If nobody can say, nobody can say what happened either.
    async fn is_alone(&self) -> bool {
        let Ok(page) = self.call.engine().list(&Filter::Instances, None, PAGE_MAX).await else { return true };
        let now = self.call.shared.clock.now();
        let me = self.call.engine().instance();
        !page.items.iter().any(|row| matches!(row, Row::Instance(row) if row.id != *me && row.until > now))
    }

    async fn look(&mut self) -> Result<(), Gone> {
        match self.position.missed(&self.call, &self.about, Some(Ms::ZERO)).await {
            Ok(missed) => self.catch_up(missed).await,
            // The store is away; the next look finds what there was.
            Err(_) => Ok(()),
        }
    }

    async fn catch_up(&self, missed: Missed) -> Result<(), Gone> {
        match missed {
            Missed::Unknown => self.reset().await,
            Missed::Events(events) => {
                for event in events.iter().filter(|event| self.is_about(event)) {
                    self.send(event, true).await?;
                }
                Ok(())
            }
        }
    }

    /// Something is missing: the client reads again how things stand.
    async fn reset(&self) -> Result<(), Gone> {
        self.frame(None, "reset", &serde_json::json!({})).await
    }

    async fn comment(&self, text: &str) -> Result<(), Gone> {
        self.write(format!(": {text}\n\n")).await
    }

    async fn frame<T: Serialize>(&self, id: Option<&str>, kind: &str, data: &T) -> Result<(), Gone> {
        let data = serde_json::to_string(data).map_err(|_| Gone)?;
        let id = id.map_or_else(String::new, |id| format!("id: {id}\n"));
        self.write(format!("{id}event: {kind}\ndata: {data}\n\n")).await
    }

    async fn write(&self, frame: String) -> Result<(), Gone> {
        match self.to.send_timeout(frame.into(), self.call.shared.limits.write).await {
            Ok(()) => Ok(()),
            Err(SendTimeoutError::Closed(_)) => Err(Gone),
            Err(SendTimeoutError::Timeout(_)) => {
                count(&self.call.shared.metrics.slow_streams, 1);
                Err(Gone)
            }
        }
    }
}
