//! Rust functions by name.

use std::collections::BTreeMap;
use std::sync::Arc;

use windlass_core::failure::FailureKind;
use windlass_core::stage;

use super::template::Rendering;
use super::{Ended, Handler, Told, Trouble};

/// Handlers by the name that plans call them by.
pub type Handlers = BTreeMap<String, Arc<dyn Handler>>;

pub(super) async fn run(
    handlers: &Handlers,
    handler: &stage::Handler,
    told: &Told,
    rendering: Rendering<'_>,
) -> Result<Ended, Trouble> {
    let function = find(handlers, &handler.name)?;
    let args = rendering.json("args", &handler.args)?;
    drop(rendering);
    function.run(told.clone(), args).await.map(Ended::Done)
}

pub(super) fn find<'a>(handlers: &'a Handlers, name: &str) -> Result<&'a Arc<dyn Handler>, Trouble> {
    handlers.get(name).ok_or_else(|| unknown(handlers, name))
}

fn unknown(handlers: &Handlers, name: &str) -> Trouble {
    let known: Vec<&str> = handlers.keys().map(String::as_str).collect();
    let known = if known.is_empty() { "none is".to_owned() } else { format!("registered are {}", known.join(", ")) };
    Trouble::hopeless(FailureKind::Stage, format!("no handler is registered as {name:?}; {known} (WL-5004)"))
}
