//! Rust functions by name.

use std::collections::BTreeMap;
use std::future::ready;
use std::sync::Arc;

use windlass_core::failure::FailureKind;
use windlass_core::stage;

use super::actions::Running;
use super::template::Templates;
use super::{Ended, Handler, Told, Trouble};

/// Handlers by the name that plans call them by.
pub type Handlers = BTreeMap<String, Arc<dyn Handler>>;

pub(super) fn run<'a>(
    handlers: &'a Handlers,
    handler: &stage::Handler,
    told: Told,
    templates: &Templates,
) -> Running<'a> {
    let args = templates.over(&told).json("args", &handler.args);
    match find(handlers, &handler.name).and_then(|function| Ok((function, args?))) {
        Ok((function, args)) => {
            let running = function.run(told, args);
            Box::pin(async { running.await.map(Ended::Done) })
        }
        Err(trouble) => Box::pin(ready(Err(trouble))),
    }
}

pub(super) fn find<'a>(handlers: &'a Handlers, name: &str) -> Result<&'a Arc<dyn Handler>, Trouble> {
    handlers.get(name).ok_or_else(|| unknown(handlers, name))
}

fn unknown(handlers: &Handlers, name: &str) -> Trouble {
    let known: Vec<&str> = handlers.keys().map(String::as_str).collect();
    let known = if known.is_empty() { "none is".to_owned() } else { format!("registered are {}", known.join(", ")) };
    Trouble::hopeless(FailureKind::Stage, format!("no handler is registered as {name:?}; {known} (WL-5004)"))
}
