use super::{Code, Format, Problems, SETTINGS_BYTES_MAX, TEMPLATE_BYTES_MAX, TEXT_BYTES_MAX, parse};
use crate::plan::spec::{CONCURRENCY, OnConflict, PlanFile, TASKS_MAX};
use crate::retry::Retry;
use crate::stage::{Action, Expect, TIMEOUT_MS};
use std::path::Path;

mod broken;
mod generate;
mod property;

const YAML: &str = include_str!("../../../tests/data/every-key.yaml");
const TOML: &str = include_str!("../../../tests/data/every-key.toml");
const JSON: &str = include_str!("../../../tests/data/every-key.json");

fn good(text: &str, format: Format) -> PlanFile {
    parse(text, format).unwrap_or_else(|problems| panic!("{problems}"))
}

fn bad(text: &str, format: Format) -> Problems {
    match parse(text, format) {
        Ok(plan) => panic!("accepted: {plan:?}"),
        Err(problems) => problems,
    }
}

fn codes(problems: &Problems) -> Vec<Code> {
    problems.iter().map(|problem| problem.code).collect()
}

/// A good plan whose one task has this `config`, in YAML.
fn with_config(config: &str) -> String {
    format!("{{ plan: p, stages: [{{ name: a, sleep: 1s }}], tasks: [{{ tenant: acme, config: {config} }}] }}")
}

#[test]
fn the_example_reads_the_same_in_every_format() {
    let yaml = good(include_str!("../../../../../examples/switch-blue-green.yaml"), Format::Yaml);
    let toml = good(include_str!("../../../tests/data/switch-blue-green.toml"), Format::Toml);
    let json = good(include_str!("../../../tests/data/switch-blue-green.json"), Format::Json);
    assert_eq!(yaml, toml);
    assert_eq!(yaml, json);
    assert_eq!(yaml.spec.max_concurrency, 5);
    let config = yaml.tasks[0].spec.config.as_ref().unwrap();
    assert_eq!(config.as_str(), r#"{"endpoint":"http://127.0.0.1:9001","version":42}"#);
}

#[test]
fn every_key_reads_the_same_in_every_format() {
    assert_eq!(good(YAML, Format::Yaml), good(JSON, Format::Json));
    // TOML has no null, so the others are compared without theirs.
    let without = YAML.replace(", \"n\": null", "").replace("~, null, ", "");
    assert_eq!(good(&without, Format::Yaml), good(TOML, Format::Toml));
}

#[test]
fn users_values_keep_their_order_and_their_64_bits() {
    for (text, format) in [(YAML, Format::Yaml), (TOML, Format::Toml), (JSON, Format::Json)] {
        let plan = good(text, format);
        let config = plan.tasks[0].spec.config.as_ref().unwrap();
        let wanted = "{\"zeta\":1,\"alpha\":{\"y\":\"éé\\t\",\"x\":\"yes\",\"off\":\"off\"},\
                      \"big\":9007199254740993,\"least\":-9223372036854775808}";
        assert_eq!(config.as_str(), wanted, "{format:?}");
    }
}

#[test]
fn what_is_left_out_has_its_default() {
    let text = "plan: p\nstages:\n  - { name: a, poll: { url: 'http://h/' } }\n  - { name: b, http: { url: 'http://h/' } }\n\
                tasks: [{ tenant: acme }]";
    let plan = good(text, Format::Yaml);
    assert_eq!((plan.spec.max_concurrency, plan.spec.on_conflict), (CONCURRENCY, OnConflict::Skip));
    assert_eq!((&plan.id, plan.spec.retry_limit), (&None, None));
    let stage = &plan.spec.stages[0];
    assert_eq!((stage.timeout_ms, stage.retry, &stage.undo), (TIMEOUT_MS, Retry::NONE, &None));
    let Action::Poll(poll) = &stage.action else { panic!("{stage:?}") };
    assert_eq!((poll.every_ms, poll.attempts, &poll.expect), (3_000, 10, &Expect::default()));
    let Action::Http(http) = &plan.spec.stages[1].action else { panic!("{plan:?}") };
    assert_eq!(http.method, "GET");
}

#[test]
fn a_backoff_longer_than_the_default_maximum_is_not_cut_short() {
    let text =
        "plan: p\nstages:\n  - { name: a, sleep: 1s, retry: { max: 2, backoff: 1m } }\ntasks: [{ tenant: acme }]";
    let retry = good(text, Format::Yaml).spec.stages[0].retry;
    assert_eq!(retry, Retry { max: 2, backoff_ms: 60_000, max_backoff_ms: 60_000 });
}

#[test]
fn yaml_scalars_follow_the_core_schema() {
    let text = with_config(
        "[~, Null, True, FALSE, yes, 010, +1, 1., .5, 1e3, -0x1, 0b1, 1_000, 12:30, '1', 2024-01-01, -a, .]",
    );
    let plan = good(&text, Format::Yaml);
    let wanted =
        r#"[null,null,true,false,"yes",10,1,1.0,0.5,1000.0,"-0x1","0b1","1_000","12:30","1","2024-01-01","-a","."]"#;
    assert_eq!(plan.tasks[0].spec.config.as_ref().unwrap().as_str(), wanted);
}

#[test]
fn toml_times_become_texts() {
    let text = "plan = 'p'\nstages = [{ name = 'a', sleep = '1s' }]\n[[tasks]]\ntenant = 'acme'\n\
                config = [1979-05-27 07:32:00.5-07:00, 1979-05-27T07:32:00, 1979-05-27, 07:32:00]";
    let config = good(text, Format::Toml).tasks.remove(0).spec.config.unwrap();
    let wanted = r#"["1979-05-27T07:32:00.5-07:00","1979-05-27T07:32:00","1979-05-27","07:32:00"]"#;
    assert_eq!(config.as_str(), wanted);
}

#[test]
fn json_texts_are_unescaped_and_a_byte_order_mark_is_passed_over() {
    let text = r#"{"plan":"p","stages":[{"name":"a","sleep":"1s"}],"tasks":[{"tenant":"acme","config":"\ud83d\ude00 \b\f\n\r\t\/\\\" 😀"}]}"#;
    let plan = good(&format!("\u{feff}{text}"), Format::Json);
    let value: String = plan.tasks[0].spec.config.as_ref().unwrap().to().unwrap();
    assert_eq!(value, "😀 \u{8}\u{c}\n\r\t/\\\" 😀");
}

#[test]
fn formats_are_told_by_their_extension() {
    let of = |name: &str| Format::from_path(Path::new(name));
    assert_eq!(of("plans/a.yaml"), Some(Format::Yaml));
    assert_eq!(of("a.YML"), Some(Format::Yaml));
    assert_eq!(of("a.b.toml"), Some(Format::Toml));
    assert_eq!(of("a.json"), Some(Format::Json));
    assert_eq!(of("a.txt"), None);
    assert_eq!(of("yaml"), None);
}

#[test]
fn settings_may_have_256_kib_and_not_a_byte_more() {
    let text = |bytes: usize| with_config(&format!("\"{}\"", "x".repeat(bytes - 2)));
    good(&text(SETTINGS_BYTES_MAX), Format::Yaml);
    let problems = bad(&text(SETTINGS_BYTES_MAX + 1), Format::Yaml);
    assert_eq!(codes(&problems), [Code::TooBig]);
    assert_eq!(problems.iter().next().unwrap().pointer, "/tasks/0/config");
}

#[test]
fn a_template_may_have_64_kib_and_not_a_byte_more_wherever_it_stands() {
    let long = |bytes: usize| "x".repeat(bytes);
    for place in [
        "approval: \"X\"",
        "sleep: 1s, when: \"X\"",
        "exec: [a, \"X\"]",
        "job: { queue: q, payload: { a: [\"X\"] } }",
        "handler: { name: h, args: \"X\" }",
        "http: { url: 'http://h/', body: \"X\" }",
        "http: { url: 'http://h/', headers: { A: \"X\" } }",
    ] {
        let text = |bytes| {
            let stage = place.replace('X', &long(bytes));
            format!("{{ plan: p, stages: [{{ name: a, {stage} }}], tasks: [{{ tenant: acme }}] }}")
        };
        good(&text(TEMPLATE_BYTES_MAX), Format::Yaml);
        assert_eq!(codes(&bad(&text(TEMPLATE_BYTES_MAX + 1), Format::Yaml)), [Code::TooBig], "{place}");
    }
}

#[test]
fn a_plan_may_have_10_000_tasks_and_not_one_more() {
    let text = |tasks: usize| {
        let tasks: Vec<String> = (0..tasks).map(|i| format!(r#"{{"tenant":"t{i}"}}"#)).collect();
        format!(r#"{{"plan":"p","stages":[{{"name":"a","sleep":"1s"}}],"tasks":[{}]}}"#, tasks.join(","))
    };
    assert_eq!(good(&text(TASKS_MAX), Format::Json).tasks.len(), TASKS_MAX);
    assert_eq!(codes(&bad(&text(TASKS_MAX + 1), Format::Json)), [Code::TooBig]);
}

#[test]
fn a_text_over_16_mib_is_not_read() {
    let text = " ".repeat(TEXT_BYTES_MAX + 1);
    for format in [Format::Yaml, Format::Toml, Format::Json] {
        assert_eq!(codes(&bad(&text, format)), [Code::TooBig]);
    }
}

/// Dotted keys inside inline tables multiply the depth that the parser itself allows.
#[test]
fn nesting_that_only_the_tree_could_bound_does_not_exhaust_the_stack() {
    let dotted = vec!["a"; 79].join(".");
    let text = format!("{dotted} = {}1{}", format!("{{ {dotted} = ").repeat(75), "}".repeat(75));
    assert_eq!(codes(&bad(&text, Format::Toml)), [Code::TooDeep]);
    let flow = "[".repeat(100_000);
    let block = (0..200).map(|i| format!("{}- \n", " ".repeat(i))).collect::<String>();
    let keys = "? ".repeat(1_000);
    for text in [&flow, &block, &keys] {
        assert!(!codes(&bad(text, Format::Yaml)).is_empty());
    }
    assert_eq!(codes(&bad(&flow, Format::Json)), [Code::TooDeep]);
    assert_eq!(codes(&bad(&format!("a = {flow}"), Format::Toml)), [Code::TooDeep]);
}

#[test]
fn the_problems_beyond_the_twentieth_are_counted() {
    let key = "k".repeat(100_000);
    let text = format!(r#"{{"plan":"p","tasks":[{{"tenant":"a","{key}":{{}}}}{}]}}"#, ",{}".repeat(9_000));
    let problems = bad(&text, Format::Json);
    assert_eq!(problems.iter().count(), 20);
    assert_eq!(problems.more(), 2 * 9_000 + 2 - 20);
    assert!(problems.to_string().ends_with("and 17982 more"));
}

#[test]
fn every_code_is_its_own() {
    let mut all: Vec<&str> = Code::ALL.iter().map(|code| code.as_str()).collect();
    assert!(all.is_sorted());
    all.dedup();
    assert_eq!(all.len(), Code::ALL.len());
}
