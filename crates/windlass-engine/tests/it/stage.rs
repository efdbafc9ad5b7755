//! Stages against real sockets and real processes.

mod exec;
mod guard;
mod http;
mod redirect;
pub(crate) mod server;

use std::collections::BTreeMap;

use secrecy::SecretString;
use windlass_core::fence::Fence;
use windlass_core::json::Json;
use windlass_core::stage::{Action, Http, Text};
use windlass_engine::stage::actions::{Actions, Setup};
use windlass_engine::stage::guard::Guard;
use windlass_engine::stage::secret::Secrets;
use windlass_engine::stage::{Ended, Signal, Signals, Told, Trouble, Yield};

fn told() -> Told {
    Told {
        plan: "p1".parse().unwrap(),
        task: "t1".parse().unwrap(),
        tenant: "acme".parse().unwrap(),
        stage: "s1".parse().unwrap(),
        attempt: 3,
        pass: 2,
        fence: Fence(77),
        config: Some(Json::parse(r#"{"version":42}"#).unwrap()),
        previous: None,
        context: Json::parse("{}").unwrap(),
    }
}

const SECRET: &str = "Bearer s3cret-t0ken";

/// One secret, and no guard.
fn setup() -> Setup {
    let secrets = Secrets::new([("TOKEN".parse().unwrap(), SecretString::from(SECRET))].into());
    Setup { secrets, guard: Guard::Off, ..Setup::default() }
}

fn secret() -> Text {
    Text::Secret("TOKEN".parse().unwrap())
}

async fn run_with(setup: Setup, action: Action) -> Result<Ended, Trouble> {
    let mut stop = Yield::new(std::sync::Arc::new(Signals::new(Signal::default())), false, 0);
    Actions::new(setup).unwrap().run(&action, told(), &mut stop).await
}

async fn run(action: Action) -> Result<Ended, Trouble> {
    run_with(setup(), action).await
}

fn request(method: &str, url: String) -> Http {
    let headers = BTreeMap::new();
    Http { method: method.to_owned(), url, headers, json: None, body: None, expect_status: Vec::new() }
}

/// What a stage returned, as JSON text.
fn returned(ended: Result<Ended, Trouble>) -> String {
    match ended.unwrap() {
        Ended::Done(Some(json)) => json.as_str().to_owned(),
        other => panic!("{other:?}"),
    }
}
