//! `windlass plan watch`: a live view for people, events for programs.

use std::collections::HashMap;
use std::process::ExitCode;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;
use windlass_core::id::{PlanId, TaskId};
use windlass_core::task::status::TaskStatus;

use super::live::{Live, bar};
use super::plan::{about, remark, verdict};
use super::progress::{left, line};
use super::remote::Remote;
use super::say;
use super::show::{Output, at, short};
use crate::client::{Heard, Tasks, view};

/// News that comes together is drawn together.
const TOGETHER: Duration = Duration::from_millis(150);
/// A look without news: what other instances do is heard of late, or not at all.
const LOOK: Duration = Duration::from_secs(1);
/// Tasks that are looked at; the bar counts all of them.
const TASKS_MAX: u32 = 1_000;

pub(super) async fn run(remote: &Remote, plan: &PlanId) -> anyhow::Result<ExitCode> {
    let (tell, mut news) = mpsc::channel(1_024);
    let mut events = remote.client.events(Some(plan), None);
    let listener = tokio::spawn(async move {
        loop {
            match events.next().await {
                Ok(heard) => {
                    if tell.send(heard).await.is_err() {
                        return;
                    }
                }
                Err(_) => tokio::time::sleep(LOOK).await,
            }
        }
    });
    let mut view = View { live: Live::new(), names: HashMap::new(), began: None };
    let ended = loop {
        let seen = remote.client.plan(plan).await?;
        if view.live.is_seen() && remote.screen.output == Output::Table {
            view.draw(remote, &seen).await?;
        }
        if let Some(ended) = rests(remote, plan, seen.view).await? {
            break ended;
        }
        let heard = tokio::time::timeout(LOOK, news.recv()).await;
        if let Ok(Some(heard)) = heard {
            view.hear(remote, &heard);
            tokio::time::sleep(TOGETHER).await;
            while let Ok(heard) = news.try_recv() {
                view.hear(remote, &heard);
            }
        }
    };
    // What happened last may still be on its way.
    while let Ok(Some(heard)) = tokio::time::timeout(TOGETHER, news.recv()).await {
        view.hear(remote, &heard);
    }
    listener.abort();
    if remote.screen.output == Output::Table {
        say(&line(&ended, None));
    }
    Ok(verdict(&ended))
}

/// The plan, once nothing of it moves any more.
async fn rests(remote: &Remote, plan: &PlanId, seen: view::Plan) -> anyhow::Result<Option<view::Plan>> {
    match seen.status.is_final() {
        true => Ok(Some(seen)),
        // Only asked when it may be so: a retry that was asked for moves without showing it.
        false if seen.may_rest() => Ok(remote.client.wait_for_plan(plan, Some(LOOK)).await?.map(|answer| answer.view)),
        false => Ok(None),
    }
}

struct View {
    live: Live,
    /// The stage each task is in.
    names: HashMap<TaskId, (u32, String)>,
    /// When this began, and how many stages were done then.
    began: Option<(Instant, u64)>,
}

impl View {
    /// Remembers stages' names; for whoever has no terminal, prints what happens.
    fn hear(&mut self, remote: &Remote, heard: &Heard) {
        let Ok(event) = heard.data.to::<view::Event>() else { return };
        if let Some(task) = &event.task
            && event.kind == "StageStarted"
            && let Ok(stage) = event.data.to::<Stage>()
        {
            self.names.insert(task.clone(), (stage.index, stage.stage));
        }
        match remote.screen.output {
            Output::Json => say(heard.data.as_str()),
            Output::Table if !self.live.is_seen() => {
                let which = event.tenant.as_ref().map_or_else(String::new, |tenant| format!(" {tenant}"));
                let about = about(&event);
                let about = if about.is_empty() { about } else { format!(": {about}") };
                say(&format!("{}{which} {}{about}", at(event.at), event.kind));
            }
            Output::Table => {}
        }
    }

    async fn draw(&mut self, remote: &Remote, plan: &view::Plan) -> anyhow::Result<()> {
        let which = Tasks { limit: Some(TASKS_MAX), ..Tasks::default() };
        let mut tasks: Vec<_> = remote.client.tasks_of(&plan.id, &which).await?.items;
        let done: u64 = tasks.iter().map(|task| u64::from(task.completed)).sum();
        // What has ended needs no more stages, and how long a person takes nobody knows.
        let waits = |task: &view::Task| task.status == TaskStatus::Paused || !task.status.is_active();
        let needed = |task: &view::Task| if waits(task) { 0 } else { task.stages - task.completed };
        let ahead: u64 = tasks.iter().map(|task| u64::from(needed(task))).sum();
        let (since, before) = *self.began.get_or_insert((Instant::now(), done));
        let left = left(since.elapsed(), done - before.min(done), ahead);
        let mut lines = vec![format!("plan {} is {}", plan.id, plan.status), line(plan, left)];
        let (rows, _) = self.live.size();
        tasks.sort_by_key(|task| (rank(task), task.position));
        let room = rows.saturating_sub(5).max(3);
        for task in tasks.iter().take(room) {
            lines.push(self.row(task));
        }
        if tasks.len() > room {
            lines.push(format!("… and {} more", tasks.len() - room));
        }
        self.live.draw(&lines);
        Ok(())
    }

    fn row(&self, task: &view::Task) -> String {
        let stage = task.stage.map(|index| match self.names.get(&task.id) {
            Some((known, name)) if *known == index => name.clone(),
            _ => format!("stage {}", index + 1),
        });
        let note = remark(task);
        let note = if note.is_empty() { stage.unwrap_or_default() } else { note };
        let bar = bar(u64::from(task.completed), u64::from(task.stages), task.stages.clamp(1, 12) as usize);
        format!("  {:<20} {:<15} {bar} {}", short(task.tenant.as_str(), 19), task.status.name(), short(&note, 60))
    }
}

/// What a person wants to see first.
fn rank(task: &view::Task) -> u8 {
    match task.status {
        TaskStatus::Failed | TaskStatus::RollbackFailed => 0,
        TaskStatus::Paused => 1,
        TaskStatus::Running | TaskStatus::RollingBack => 2,
        TaskStatus::Pending => 3,
        TaskStatus::Completed | TaskStatus::Cancelled | TaskStatus::RolledBack => 4,
    }
}

#[derive(serde::Deserialize)]
struct Stage {
    index: u32,
    stage: String,
}
