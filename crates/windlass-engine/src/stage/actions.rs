//! Every kind of action behind one call.

use windlass_core::failure::FailureKind;
use windlass_core::stage::Action;

use super::handler::Handlers;
use super::secret::Secrets;
use super::template::Templates;
use super::{Ended, Told, Trouble, Yield, approval, handler, sleep};

/// What the program that embeds the engine allows stages, and gives them.
#[derive(Default)]
pub struct Setup {
    /// Rust functions by name.
    pub handlers: Handlers,
    /// Secrets by name.
    pub secrets: Secrets,
}

/// Why actions cannot be set up as asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadSetup {}

/// Renders and runs actions. One for a whole instance.
pub struct Actions {
    setup: Setup,
    templates: Templates,
}

impl Actions {
    /// Checks what it is given.
    pub fn new(setup: Setup) -> Result<Actions, BadSetup> {
        Ok(Actions { setup, templates: Templates::new() })
    }

    /// Runs one action once. Dropping the future ends what it began.
    pub async fn run(&self, action: &Action, told: &Told, stop: &mut Yield) -> Result<Ended, Trouble> {
        match action {
            Action::Handler(it) => handler::run(&self.setup.handlers, it, told, self.templates.over(told)).await,
            Action::Sleep(it) => Ok(sleep::run(it, stop).await),
            Action::Approval(it) => approval::run(it, &self.templates.over(told)),
            Action::Http(_) | Action::Poll(_) | Action::Exec(_) | Action::Job(_) => {
                let message = format!("{} stages come later", action.kind());
                Err(Trouble::hopeless(FailureKind::Stage, message))
            }
        }
    }

    /// Whether this instance could ever run the action: a plan is refused at once rather than late.
    pub fn check(&self, action: &Action) -> Result<(), String> {
        match action {
            Action::Handler(it) => {
                handler::find(&self.setup.handlers, &it.name).map(drop).map_err(|trouble| trouble.message)
            }
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
