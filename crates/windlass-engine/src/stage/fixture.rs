//! What every test of stages needs.

use std::sync::Arc;

use windlass_core::fence::Fence;
use windlass_core::json::Json;
use windlass_core::task::{Cause, Control, Hold};

use super::{Signal, Signals, Told, Yield};

pub(crate) fn told() -> Told {
    Told {
        plan: "p1".parse().unwrap(),
        task: "t1".parse().unwrap(),
        tenant: "acme".parse().unwrap(),
        stage: "s1".parse().unwrap(),
        attempt: 1,
        pass: 2,
        fence: Fence(7),
        config: Some(Json::parse(r#"{"n":41}"#).unwrap()),
        previous: None,
        context: Json::parse("{}").unwrap(),
    }
}

pub(crate) fn pause() -> Signal {
    let hold = Hold { cause: Cause::Person, by: None, reason: None };
    Signal::from(&Control { pause: Some(hold), ..Control::default() })
}

/// Nobody wants anything yet.
pub(crate) fn quiet() -> (Arc<Signals>, Yield) {
    let signal = Arc::new(Signals::new(Signal::default()));
    (Arc::clone(&signal), Yield::new(signal, false, 0))
}

/// Somebody wants a pause.
pub(crate) fn ask(signal: &Signals) {
    signal.modify(|signal| {
        *signal = pause();
        true
    });
}
