//! Plans to try, and how their author could have written them.

use std::collections::BTreeMap;

use proptest::collection::{btree_map, hash_set, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use crate::id::{PlanName, StageName};
use crate::json::Json;
use crate::plan::spec::{OnConflict, OnFailure, PlanFile, PlanSpec, Recovery, TaskFile, TaskSpec};
use crate::retry::Retry;
use crate::stage::{Action, Approval, Exec, Expect, Handler, Http, Job, Poll, Sleep, Stage, Text};

const ID: &str = "[A-Za-z0-9_-]{1,64}";
const TEXT: &str = "[ -~é好😀\n\t]{0,12}";
const URL: &str = "https://[a-z]{1,8}/[ -~]{0,8}";

pub(super) fn plan() -> impl Strategy<Value = PlanFile> {
    let head = (id(), option::of(id()), option::of(0u32..=1_000), 1u32..=10_000);
    let tenants = hash_set(ID, 1..4);
    let tasks = tenants.prop_flat_map(|tenants| tenants.into_iter().map(task).collect::<Vec<_>>());
    (head, policies(), stages(), tasks).prop_map(
        |((name, id, retry_limit, max_concurrency), policies, stages, tasks)| {
            let (on_conflict, on_failure, recovery) = policies;
            let spec = PlanSpec { max_concurrency, on_conflict, on_failure, recovery, retry_limit, stages };
            PlanFile { name: PlanName::clone(&name), id, spec, tasks }
        },
    )
}

fn policies() -> impl Strategy<Value = (OnConflict, OnFailure, Recovery)> {
    (
        select(vec![OnConflict::Skip, OnConflict::Wait, OnConflict::Refuse]),
        select(vec![OnFailure::Continue, OnFailure::Stop, OnFailure::Pause]),
        select(vec![Recovery::Manual, Recovery::Auto]),
    )
}

fn id<T: std::str::FromStr + std::fmt::Debug>() -> impl Strategy<Value = T> {
    ID.prop_filter_map("an identifier", |text| text.parse().ok())
}

fn task(tenant: String) -> impl Strategy<Value = TaskFile> {
    let settings = || option::of(value().prop_filter("null is nothing", |json| json.as_str() != "null"));
    let spec = (settings(), settings(), option::of(0u32..=1_000), option::of(stages()));
    spec.prop_map(move |(config, previous, retry_limit, stages)| TaskFile {
        tenant: tenant.parse().unwrap(),
        spec: TaskSpec { config, previous, retry_limit, stages },
    })
}

fn value() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        // Quarters: the rendering below goes through serde_json, which may miss a last digit.
        any::<i32>().prop_map(|n| Value::from(f64::from(n) / 4.0)),
        TEXT.prop_map(Value::from),
    ];
    let tree = leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            btree_map(TEXT, inner, 0..4).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    });
    tree.prop_map(|value| Json::of(&value).unwrap())
}

fn stages() -> impl Strategy<Value = Vec<Stage>> {
    let names = hash_set(ID, 1..4);
    names.prop_flat_map(|names| names.into_iter().map(stage).collect::<Vec<_>>())
}

fn stage(name: String) -> impl Strategy<Value = Stage> {
    let retry = (0u32..=100, 0u64..=86_400_000, 0u64..=86_400_000).prop_map(|(max, a, b)| Retry {
        max,
        backoff_ms: a.min(b),
        max_backoff_ms: a.max(b),
    });
    let undo = option::of(action().prop_filter("no approval", |action| !matches!(action, Action::Approval(_))));
    (action(), option::of(TEXT), 1u64..=604_800_000, retry, undo).prop_map(
        move |(action, when, timeout_ms, retry, undo)| {
            let name: StageName = name.parse().unwrap();
            Stage { name, action, when, timeout_ms, retry, undo }
        },
    )
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        http().prop_map(Action::Http),
        poll().prop_map(Action::Poll),
        (vec("[a-z/]{1,8}", 1..4), texts("E[A-Z0-9_]{0,8}")).prop_map(|(argv, env)| Action::Exec(Exec { argv, env })),
        (0u64..=2_592_000_000).prop_map(|for_ms| Action::Sleep(Sleep { for_ms })),
        "[a-z?]{1,8}".prop_map(|message| Action::Approval(Approval { message })),
        (id(), value()).prop_map(|(queue, payload)| Action::Job(Job { queue, payload })),
        ("[a-z:]{1,8}", value()).prop_map(|(name, args)| Action::Handler(Handler { name, args })),
    ]
}

fn http() -> impl Strategy<Value = Http> {
    let method = select(vec!["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]);
    let body = prop_oneof![
        Just((None, None)),
        value().prop_map(|json| (Some(json), None)),
        TEXT.prop_map(|body| (None, Some(body))),
    ];
    (method, URL, texts("X-[a-z]{1,8}"), body, vec(100u16..=599, 0..3)).prop_map(
        |(method, url, headers, (json, body), expect_status)| Http {
            method: method.to_owned(),
            url,
            headers,
            json,
            body,
            expect_status,
        },
    )
}

fn poll() -> impl Strategy<Value = Poll> {
    let pair = option::of(("(/[a-z0-9]{0,3}){0,3}", value()));
    let expect = (option::of(100u16..=599), pair).prop_map(|(status, pair)| {
        let (json, equals) = pair.unzip();
        Expect { status, json, equals }
    });
    (vec(URL, 1..4), texts("X-[a-z]{1,8}"), expect, 10u64..=86_400_000, 1u32..=10_000)
        .prop_map(|(urls, headers, expect, every_ms, attempts)| Poll { urls, headers, expect, every_ms, attempts })
}

fn texts(names: &'static str) -> impl Strategy<Value = BTreeMap<String, Text>> {
    btree_map(names, prop_oneof![TEXT.prop_map(Text::Template), id().prop_map(Text::Secret)], 0..3)
}

/// The plan as its author could have written it.
pub(super) fn written(plan: &PlanFile) -> Value {
    let mut out = json!({
        "plan": plan.name,
        "max_concurrency": plan.spec.max_concurrency,
        "on_conflict": plan.spec.on_conflict,
        "on_failure": plan.spec.on_failure,
        "recovery": plan.spec.recovery,
        "stages": plan.spec.stages.iter().map(written_stage).collect::<Vec<_>>(),
        "tasks": plan.tasks.iter().map(written_task).collect::<Vec<_>>(),
    });
    put(&mut out, "id", plan.id.as_ref().map(|id| json!(id)));
    put(&mut out, "retry_limit", plan.spec.retry_limit.map(|limit| json!(limit)));
    out
}

fn put(map: &mut Value, key: &str, value: Option<Value>) {
    if let Some(value) = value {
        map[key] = value;
    }
}

fn written_task(task: &TaskFile) -> Value {
    let mut out = json!({ "tenant": task.tenant });
    put(&mut out, "config", task.spec.config.as_ref().map(|config| json!(config)));
    put(&mut out, "previous", task.spec.previous.as_ref().map(|previous| json!(previous)));
    put(&mut out, "retry_limit", task.spec.retry_limit.map(|limit| json!(limit)));
    put(&mut out, "stages", task.spec.stages.as_ref().map(|stages| stages.iter().map(written_stage).collect()));
    out
}

fn written_stage(stage: &Stage) -> Value {
    let ms = |ms: u64| format!("{ms}ms");
    let mut out = json!({
        "name": stage.name,
        "timeout": ms(stage.timeout_ms),
        "retry": { "max": stage.retry.max, "backoff": ms(stage.retry.backoff_ms), "max_backoff": ms(stage.retry.max_backoff_ms) },
    });
    put(&mut out, "when", stage.when.as_ref().map(|when| json!(when)));
    put(&mut out, stage.action.kind(), Some(written_action(&stage.action)));
    put(&mut out, "undo", stage.undo.as_ref().map(|undo| json!({ undo.kind(): written_action(undo) })));
    out
}

fn written_action(action: &Action) -> Value {
    match action {
        Action::Http(http) => {
            let mut out = json!({ "method": http.method, "url": http.url, "headers": written_texts(&http.headers) });
            put(&mut out, "json", http.json.as_ref().map(|json| json!(json)));
            put(&mut out, "body", http.body.as_ref().map(|body| json!(body)));
            put(&mut out, "expect_status", (!http.expect_status.is_empty()).then(|| json!(http.expect_status)));
            out
        }
        Action::Poll(poll) => {
            let expect = serde_json::to_value(&poll.expect).unwrap();
            let headers = written_texts(&poll.headers);
            let every = format!("{}ms", poll.every_ms);
            json!({ "urls": poll.urls, "headers": headers, "expect": expect, "every": every, "attempts": poll.attempts })
        }
        Action::Exec(exec) => json!({ "argv": exec.argv, "env": written_texts(&exec.env) }),
        Action::Sleep(sleep) => json!({ "for": format!("{}ms", sleep.for_ms) }),
        Action::Approval(approval) => json!(approval),
        Action::Job(job) => json!(job),
        Action::Handler(handler) => json!(handler),
    }
}

fn written_texts(texts: &BTreeMap<String, Text>) -> Value {
    let one = |text: &Text| match text {
        Text::Template(text) => json!(text),
        Text::Secret(name) => json!({ "secret": name }),
    };
    texts.iter().map(|(name, text)| (name.clone(), one(text))).collect::<serde_json::Map<_, _>>().into()
}
