//! Every kind of action behind one call.

use std::collections::BTreeMap;
use std::future::ready;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use windlass_core::fence::Fence;
use windlass_core::id::JobId;
use windlass_core::json::Json;
use windlass_core::stage::Action;
use windlass_core::trigger::target::Call;

use super::exec::{Allowed, Programs};
use super::guard::{Guard, Lookup, System};
use super::handler::Handlers;
use super::secret::Secrets;
use super::template::Templates;
use super::web::Web;
use super::{Ended, Told, Trouble, Yield, approval, exec, handler, http, job, poll, sleep};
use crate::job::Queues;

/// What the program that embeds the engine allows stages, and gives them. By default: no handlers, no secrets, no
/// programs, and only the public internet.
pub struct Setup {
    /// Rust functions by name.
    pub handlers: Handlers,
    /// Secrets by name.
    pub secrets: Secrets,
    /// The programs that `exec` stages may run.
    pub exec: Allowed,
    /// The instance's own environment; programs get `PATH`, `HOME`, `LANG` and `TZ` of it, and its variables
    /// `WINDLASS_SECRET_…` are secrets.
    pub environment: BTreeMap<String, String>,
    /// The addresses that `http` and `poll` stages may call.
    pub guard: Guard,
    /// How hosts are looked up.
    pub lookup: Arc<dyn Lookup>,
    /// Where `job` stages submit their jobs; without, there are none.
    pub queues: Option<Queues>,
}

impl Default for Setup {
    fn default() -> Setup {
        Setup {
            handlers: Handlers::new(),
            secrets: Secrets::default(),
            exec: Allowed::default(),
            environment: BTreeMap::new(),
            guard: Guard::default(),
            lookup: Arc::new(System),
            queues: None,
        }
    }
}

impl Setup {
    /// Whether actions can be set up as asked.
    pub fn check(&self) -> Result<(), BadSetup> {
        match self.exec.bad() {
            Some(bad) => Err(BadSetup::Program(bad.to_owned())),
            None => Ok(()),
        }
    }
}

/// Why actions cannot be set up as asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadSetup {
    /// A relative path would mean another program in another folder.
    #[error("the program {0:?} cannot be allowed: write an absolute path, or a bare name to look for in PATH")]
    Program(String),
}

/// An action that runs. On the heap, where each kind takes the room that it needs: many stages wait at once, and one
/// that only waits needs little.
pub type Running<'a> = Pin<Box<dyn Future<Output = Result<Ended, Trouble>> + Send + 'a>>;

/// Renders and runs actions. One for a whole instance.
pub struct Actions {
    handlers: Handlers,
    secrets: Secrets,
    programs: Programs,
    web: Web,
    templates: Templates,
    queues: Option<Queues>,
}

impl Actions {
    /// Checks what it is given.
    pub fn new(setup: Setup) -> Result<Actions, BadSetup> {
        setup.check()?;
        let Setup { handlers, mut secrets, exec, mut environment, guard, lookup, queues } = setup;
        secrets.take_from(&mut environment);
        let programs = Programs { allowed: exec, environment };
        Ok(Actions { handlers, secrets, programs, web: Web::new(guard, lookup), templates: Templates::new(), queues })
    }

    /// Runs one action once. Dropping the future ends what it began: a request's connection is closed, a program
    /// is killed with everything in its process group.
    pub fn run<'a>(&'a self, action: &'a Action, told: Told, stop: &'a mut Yield) -> Running<'a> {
        let Actions { handlers, secrets, programs, web, templates, queues } = self;
        match action {
            Action::Handler(it) => handler::run(handlers, it, told, templates),
            Action::Sleep(it) => Box::pin(sleep::run(it.for_ms, stop)),
            Action::Approval(it) => Box::pin(ready(approval::run(it, &templates.over(&told)))),
            Action::Job(it) => {
                Box::pin(async move { job::run(queues.as_ref(), it, &told, templates.over(&told), stop).await })
            }
            Action::Http(it) => {
                Box::pin(async move { http::run(web, secrets, it, &told, templates.over(&told)).await })
            }
            Action::Poll(it) => {
                Box::pin(async move { poll::run(web, secrets, it, &told, templates.over(&told), stop).await })
            }
            Action::Exec(it) => {
                Box::pin(async move { exec::run(programs, secrets, it, &told, templates.over(&told)).await })
            }
        }
    }

    /// The time of a stage that waits for this job is over.
    pub(crate) async fn abandon(&self, job: JobId) {
        if let Some(queues) = &self.queues {
            job::abandon(queues, job).await;
        }
    }

    /// Calls a URL for a trigger; answers its status, which is a success.
    pub(crate) async fn call(
        &self,
        call: &Call,
        payload: Option<&Json>,
        key: &str,
        fence: Fence,
    ) -> Result<u16, Trouble> {
        let work = http::call(&self.web, &self.secrets, call, payload, key, fence);
        match tokio::time::timeout(Duration::from_millis(call.timeout_ms), work).await {
            Ok(answer) => answer,
            Err(_) => Err(Trouble::stage(format!("no answer within {} ms", call.timeout_ms))),
        }
    }

    /// Whether this instance could ever run the action: a plan is refused at once rather than late.
    pub fn check(&self, action: &Action) -> Result<(), String> {
        match action {
            Action::Handler(it) => handler::find(&self.handlers, &it.name).map(drop).map_err(|trouble| trouble.message),
            Action::Job(_) if self.queues.is_none() => Err(job::NO_STORE.to_owned()),
            _ => Ok(()),
        }
    }

    /// Whether a stage with this `when` runs: not if it renders to nothing, to white space or to `false`.
    pub fn when(&self, template: &str, told: &Told) -> Result<bool, Trouble> {
        self.templates.over(told).truth("when", template)
    }
}

#[cfg(test)]
mod tests;
