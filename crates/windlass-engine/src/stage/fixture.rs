//! What every test of stages needs.

use tokio::sync::watch;
use windlass_core::fence::Fence;
use windlass_core::json::Json;
use windlass_core::task::{Cause, Control, Hold};

use super::{Signal, Told, Yield};

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
    Signal { control: Control { pause: Some(hold), ..Control::default() }, ..Signal::default() }
}

/// Nobody wants anything yet.
pub(crate) fn quiet() -> (watch::Sender<Signal>, Yield) {
    let (signal, heard) = watch::channel(Signal::default());
    (signal, Yield::new(heard, false, 0))
}
