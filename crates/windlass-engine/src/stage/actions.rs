//! Every kind of action behind one call.

use std::collections::BTreeMap;
use std::future::ready;
use std::pin::Pin;
use std::sync::Arc;

use windlass_core::failure::FailureKind;
use windlass_core::stage::Action;

use super::exec::{Allowed, Programs};
use super::guard::{Guard, Lookup, System};
use super::handler::Handlers;
use super::secret::Secrets;
use super::template::Templates;
use super::web::Web;
use super::{Ended, Told, Trouble, Yield, approval, exec, handler, http, poll, sleep};

/// What the program that embeds the engine allows stages, and gives them. By default: no handlers, no secrets, no
/// programs, and only the public internet.
pub struct Setup {
    /// Rust functions by name.
    pub handlers: Handlers,
    /// Secrets by name.
    pub secrets: Secrets,
    /// The programs that `exec` stages may run.
    pub exec: Allowed,
    /// The instance's own environment; programs get `PATH`, `HOME`, `LANG` and `TZ` of it.
    pub environment: BTreeMap<String, String>,
    /// The addresses that `http` and `poll` stages may call.
    pub guard: Guard,
    /// How hosts are looked up.
    pub lookup: Arc<dyn Lookup>,
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
}

impl Actions {
    /// Checks what it is given.
    pub fn new(setup: Setup) -> Result<Actions, BadSetup> {
        let Setup { handlers, secrets, exec, environment, guard, lookup } = setup;
        if let Some(bad) = exec.bad() {
            return Err(BadSetup::Program(bad.to_owned()));
        }
        let programs = Programs { allowed: exec, environment };
        Ok(Actions { handlers, secrets, programs, web: Web::new(guard, lookup), templates: Templates::new() })
    }

    /// Runs one action once. Dropping the future ends what it began: a request's connection is closed, a program
    /// is killed with everything in its process group.
    pub fn run<'a>(&'a self, action: &'a Action, told: Told, stop: &'a mut Yield) -> Running<'a> {
        let Actions { handlers, secrets, programs, web, templates } = self;
        match action {
            Action::Handler(it) => handler::run(handlers, it, told, templates),
            Action::Sleep(it) => Box::pin(sleep::run(it.for_ms, stop)),
            Action::Approval(it) => Box::pin(ready(approval::run(it, &templates.over(&told)))),
            Action::Job(_) => Box::pin(ready(Err(Trouble::hopeless(FailureKind::Stage, "job stages come with jobs")))),
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

    /// Whether this instance could ever run the action: a plan is refused at once rather than late.
    pub fn check(&self, action: &Action) -> Result<(), String> {
        match action {
            Action::Handler(it) => handler::find(&self.handlers, &it.name).map(drop).map_err(|trouble| trouble.message),
            Action::Job(_) => Err("job stages are not supported yet".to_owned()),
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
