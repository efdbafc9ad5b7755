//! What a stage does.

use std::collections::{BTreeMap, HashMap};

use crate::stage::{Action, Approval, Exec, Expect, Handler, Http, Job, Poll, Sleep, Text};

use super::decode::{
    Fields, Spot, Wanted, duration, each, filled_template, id, json_template, list, template, text, whole, word,
};
use super::limits::{
    BODY_BYTES_MAX, HANDLER_NAME_BYTES_MAX, POLL_ATTEMPTS, POLL_ATTEMPTS_DEFAULT, POLL_EVERY, POLL_EVERY_MS, SLEEP,
    STATUS, URLS_MAX,
};
use super::problem::{Code, Problems, shown};
use super::tree::Value;
use crate::json::Json;

/// The kinds of actions, as keys.
pub(super) const ACTIONS: &[&str] = &["http", "poll", "exec", "sleep", "approval", "job", "handler"];
/// Those that can take a stage back.
pub(super) const UNDO_ACTIONS: &[&str] = &["http", "poll", "exec", "sleep", "job", "handler"];

const HTTP: &[&str] = &["method", "url", "headers", "json", "body", "expect_status"];
const POLL: &[&str] = &["url", "urls", "headers", "expect", "every", "attempts"];
const EXPECT: &[&str] = &["status", "json", "equals"];
const ARGV: Wanted =
    ("a list", "write a list of the program and its arguments, such as [\"/bin/echo\", \"hello\"]; there is no shell");
const METHODS: &[(&str, &str)] =
    &[("GET", "GET"), ("HEAD", "HEAD"), ("POST", "POST"), ("PUT", "PUT"), ("PATCH", "PATCH"), ("DELETE", "DELETE")];

/// The one action of a stage or of an undo.
pub(super) fn action(
    spot: &Spot<'_>,
    fields: &Fields<'_>,
    allowed: &[&str],
    problems: &mut Problems,
) -> Option<Action> {
    let mut given: Vec<(&str, Spot<'_>)> =
        ACTIONS.iter().filter_map(|kind| fields.get(kind).map(|spot| (*kind, spot))).collect();
    given.sort_by_key(|(_, spot)| spot.key_place());
    let read: Vec<Option<Action>> = given.iter().map(|(kind, spot)| read(kind, spot, problems)).collect();
    match given.as_slice() {
        [_] => read.into_iter().next().flatten(),
        [] if ACTIONS.iter().any(|kind| fields.meant(kind)) => None,
        [] => {
            let help = format!("give exactly one of {}", allowed.join(", "));
            spot.refuse(problems, Code::BadAction, "there is no action", help)
        }
        [.., (_, last)] => {
            let kinds: Vec<String> = given.iter().map(|(kind, _)| format!("`{kind}`")).collect();
            let message = format!("there are {} actions: {}", kinds.len(), kinds.join(", "));
            last.refuse_key(problems, Code::BadAction, message, "keep one; another action needs another stage")
        }
    }
}

fn read(kind: &str, spot: &Spot<'_>, problems: &mut Problems) -> Option<Action> {
    match kind {
        "http" => http(spot, problems).map(Action::Http),
        "poll" => poll(spot, problems).map(Action::Poll),
        "exec" => exec(spot, problems).map(Action::Exec),
        "sleep" => sleep(spot, problems).map(Action::Sleep),
        "approval" => approval(spot, problems).map(Action::Approval),
        "job" => job(spot, problems).map(Action::Job),
        _ => handler(spot, problems).map(Action::Handler),
    }
}

fn http(spot: &Spot<'_>, problems: &mut Problems) -> Option<Http> {
    let fields = Fields::of(spot, HTTP, ("a map", "write a map with a `url`"), problems)?;
    let method = fields.or("method", "GET", |spot| word(spot, METHODS, problems));
    let to = fields.required("url", "add `url`: where the request goes", problems);
    let to = to.and_then(|spot| url(&spot, problems));
    let headers = fields.or("headers", BTreeMap::new(), |spot| headers(spot, problems));
    let json = fields.or("json", None, |spot| body(spot, problems).map(Some));
    let text = fields.or("body", None, |spot| template(spot, problems).map(Some));
    let expect_status = fields.or("expect_status", Vec::new(), |spot| statuses(spot, problems));
    if let (Some(_), Some(spot)) = (fields.get("json"), fields.get("body")) {
        let help = "keep `json` for JSON, or `body` for any other text";
        return spot.refuse_key(problems, Code::KeysDisagree, "`json` and `body` exclude each other", help);
    }
    Some(Http {
        method: method?.to_owned(),
        url: to?,
        headers: headers?,
        json: json?,
        body: text?,
        expect_status: expect_status?,
    })
}

/// What a template makes of it is known only later; what is written out must be a web address.
fn url(spot: &Spot<'_>, problems: &mut Problems) -> Option<String> {
    let url = filled_template(spot, problems)?;
    let host = ["http://", "https://"].iter().find_map(|scheme| {
        url.get(..scheme.len()).filter(|start| start.eq_ignore_ascii_case(scheme)).map(|_| &url[scheme.len()..])
    });
    if url.starts_with("{{") || host.is_some_and(|host| !host.is_empty() && !host.starts_with('/')) {
        return Some(url);
    }
    let help = "begin with http:// or https:// and a host, or with a template `{{ … }}`";
    spot.refuse(problems, Code::BadUrl, format!("{} is not a URL that can be called", shown(&url)), help)
}

fn body(spot: &Spot<'_>, problems: &mut Problems) -> Option<Json> {
    json_template(spot, BODY_BYTES_MAX, problems)
}

/// One status or several.
fn statuses(spot: &Spot<'_>, problems: &mut Problems) -> Option<Vec<u16>> {
    let Value::List(_) = &spot.node.value else { return whole(spot, STATUS, problems).map(|status| vec![status]) };
    let nodes = list(spot, ("a list of statuses", "list one status or more, such as 200"), 500, problems)?;
    each(spot, nodes, |spot| whole(spot, STATUS, problems))
}

fn poll(spot: &Spot<'_>, problems: &mut Problems) -> Option<Poll> {
    let fields = Fields::of(spot, POLL, ("a map", "write a map with a `url` or `urls`"), problems)?;
    let urls = poll_urls(spot, &fields, problems);
    let headers = fields.or("headers", BTreeMap::new(), |spot| headers(spot, problems));
    let expect = fields.or("expect", Expect::default(), |spot| expect(spot, problems));
    let every_ms = fields.or("every", POLL_EVERY_MS, |spot| duration(spot, POLL_EVERY, problems));
    let attempts = fields.or("attempts", POLL_ATTEMPTS_DEFAULT, |spot| whole(spot, POLL_ATTEMPTS, problems));
    Some(Poll { urls: urls?, headers: headers?, expect: expect?, every_ms: every_ms?, attempts: attempts? })
}

fn poll_urls(spot: &Spot<'_>, fields: &Fields<'_>, problems: &mut Problems) -> Option<Vec<String>> {
    const HELP: &str = "give `url` for one, or `urls` for a list that must agree";
    match (fields.get("url"), fields.get("urls")) {
        (Some(one), None) => url(&one, problems).map(|url| vec![url]),
        (None, Some(many)) => {
            let nodes = list(&many, ("a list of URLs", "list one URL or more"), URLS_MAX, problems)?;
            each(&many, nodes, |spot| url(spot, problems))
        }
        (Some(_), Some(many)) => {
            many.refuse_key(problems, Code::KeysDisagree, "`url` and `urls` exclude each other", HELP)
        }
        (None, None) if fields.meant("url") || fields.meant("urls") => None,
        (None, None) => spot.refuse(problems, Code::MissingKey, "there is no URL to poll", HELP),
    }
}

fn expect(spot: &Spot<'_>, problems: &mut Problems) -> Option<Expect> {
    let fields = Fields::of(
        spot,
        EXPECT,
        ("a map", "write a map such as { json: \"/version\", equals: 42 } or { status: 200 }"),
        problems,
    )?;
    let status = fields.or("status", None, |spot| whole(spot, STATUS, problems).map(Some));
    let json = fields.or("json", None, |spot| pointer(spot, problems).map(Some));
    let equals = fields.or("equals", None, |spot| body(spot, problems).map(Some));
    let alone = match (fields.get("json"), fields.get("equals")) {
        (Some(json), None) if !fields.meant("equals") => Some((json, "`json` says where to look, but not for what")),
        (None, Some(equals)) if !fields.meant("json") => Some((equals, "`equals` says what, but not where to look")),
        _ => None,
    };
    if let Some((spot, message)) = alone {
        let help = "give both: in `json` a JSON pointer such as /version, in `equals` the value to find there";
        return spot.refuse_key(problems, Code::KeysDisagree, message, help);
    }
    Some(Expect { status: status?, json: json?, equals: equals? })
}

/// A JSON pointer: empty, or `/` before each part, with `~` only in `~0` and `~1`.
fn pointer(spot: &Spot<'_>, problems: &mut Problems) -> Option<String> {
    let pointer = template(spot, problems)?;
    let escaped = pointer.split('~').skip(1).all(|part| part.starts_with(['0', '1']));
    if escaped && (pointer.is_empty() || pointer.starts_with('/')) {
        return Some(pointer);
    }
    let help = "write / before each part, as in \"/items/0/version\"; in a part, ~0 is ~ and ~1 is /";
    spot.refuse(problems, Code::BadPointer, format!("{} is not a JSON pointer", shown(&pointer)), help)
}

fn exec(spot: &Spot<'_>, problems: &mut Problems) -> Option<Exec> {
    if let Value::List(_) = &spot.node.value {
        return argv(spot, problems).map(|argv| Exec { argv, env: BTreeMap::new() });
    }
    let fields = Fields::of(spot, &["argv", "env"], ARGV, problems)?;
    let list = fields.required("argv", ARGV.1, problems);
    let argv = list.and_then(|spot| argv(&spot, problems));
    let env = fields.or("env", BTreeMap::new(), |spot| env(spot, problems));
    Some(Exec { argv: argv?, env: env? })
}

fn argv(spot: &Spot<'_>, problems: &mut Problems) -> Option<Vec<String>> {
    let nodes = list(spot, ARGV, usize::MAX, problems)?;
    let argv = each(spot, nodes, |spot| template(spot, problems))?;
    if argv.first().is_some_and(|program| program.is_empty()) {
        return spot.refuse(problems, Code::Empty, "the program has no name", ARGV.1);
    }
    Some(argv)
}

/// Names and their texts; `check` answers what is wrong with a name, and what to do.
fn texts(
    spot: &Spot<'_>,
    wanted: Wanted,
    check: impl Fn(&str) -> Option<(String, &'static str)>,
    problems: &mut Problems,
) -> Option<BTreeMap<String, Text>> {
    let Value::Map(entries) = &spot.node.value else { return spot.wrong_type(problems, wanted) };
    let read = entries.iter().map(|entry| {
        let spot = spot.under(entry);
        let wrong = check(&entry.key);
        let text = maybe_secret(&spot, problems);
        match wrong {
            Some((message, help)) => spot.refuse_key(problems, Code::BadName, message, help),
            None => text.map(|text| (entry.key.clone(), text)),
        }
    });
    let read: Vec<Option<(String, Text)>> = read.collect();
    read.into_iter().collect()
}

const SECRET: Wanted = ("a text or a secret", "write a text, or a map with the key `secret` and a secret's name");

fn maybe_secret(spot: &Spot<'_>, problems: &mut Problems) -> Option<Text> {
    match &spot.node.value {
        Value::Text(_) => template(spot, problems).map(Text::Template),
        Value::Map(_) => {
            let fields = Fields::of(spot, &["secret"], SECRET, problems)?;
            let name = fields.required("secret", SECRET.1, problems)?;
            id(&name, problems).map(Text::Secret)
        }
        _ => spot.wrong_type(problems, SECRET),
    }
}

fn headers(spot: &Spot<'_>, problems: &mut Problems) -> Option<BTreeMap<String, Text>> {
    let headers = texts(spot, ("a map", "write a map of header names and their texts"), bad_header, problems);
    let Value::Map(entries) = &spot.node.value else { return None };
    let mut first = HashMap::new();
    for entry in entries {
        if let Some(before) = first.insert(entry.key.to_ascii_lowercase(), &entry.key) {
            let message = format!("{} and {} are the same header", shown(before), shown(&entry.key));
            let help = "keep one: capitals make no difference in headers";
            return spot.under(entry).refuse_key(problems, Code::RepeatedKey, message, help);
        }
    }
    headers
}

fn bad_header(name: &str) -> Option<(String, &'static str)> {
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty() || !name.bytes().all(token) {
        let help = "use letters, digits and '-', without spaces and colons";
        return Some((format!("{} is not a header's name", shown(name)), help));
    }
    let ours = ["Idempotency-Key", "Windlass-Fence"].iter().any(|ours| ours.eq_ignore_ascii_case(name));
    ours.then(|| (format!("the header {} is set by Windlass", shown(name)), "leave it out: every request has it"))
}

fn env(spot: &Spot<'_>, problems: &mut Problems) -> Option<BTreeMap<String, Text>> {
    texts(spot, ("a map", "write a map of variables and their texts"), bad_variable, problems)
}

fn bad_variable(name: &str) -> Option<(String, &'static str)> {
    let first = |c: char| c.is_ascii_alphabetic() || c == '_';
    if !name.starts_with(first) || !name.chars().all(|c| first(c) || c.is_ascii_digit()) {
        let help = "use letters, digits and '_', and no digit first";
        return Some((format!("{} is not a variable's name", shown(name)), help));
    }
    let ours = name.starts_with("WINDLASS_");
    ours.then(|| (format!("the variable {} is set by Windlass", shown(name)), "choose a name without WINDLASS_"))
}

fn sleep(spot: &Spot<'_>, problems: &mut Problems) -> Option<Sleep> {
    if !matches!(spot.node.value, Value::Map(_)) {
        return duration(spot, SLEEP, problems).map(|for_ms| Sleep { for_ms });
    }
    let fields = Fields::of(spot, &["for"], ("a duration", "write a duration"), problems)?;
    let length = fields.required("for", "add `for`: how long, such as 30s", problems)?;
    duration(&length, SLEEP, problems).map(|for_ms| Sleep { for_ms })
}

fn approval(spot: &Spot<'_>, problems: &mut Problems) -> Option<Approval> {
    if !matches!(spot.node.value, Value::Map(_)) {
        return filled_template(spot, problems).map(|message| Approval { message });
    }
    let fields = Fields::of(spot, &["message"], ("a text", "write a text"), problems)?;
    let message = fields.required("message", "add `message`: what the person is asked", problems)?;
    filled_template(&message, problems).map(|message| Approval { message })
}

fn job(spot: &Spot<'_>, problems: &mut Problems) -> Option<Job> {
    let fields = Fields::of(
        spot,
        &["queue", "payload"],
        ("a map", "write a map with a `queue` and, if need be, a `payload`"),
        problems,
    )?;
    let queue = fields.required("queue", "add `queue`: where the job waits for a worker", problems);
    let queue = queue.and_then(|spot| id(&spot, problems));
    let payload = fields.or("payload", Json::null(), |spot| body(spot, problems));
    Some(Job { queue: queue?, payload: payload? })
}

fn handler(spot: &Spot<'_>, problems: &mut Problems) -> Option<Handler> {
    if !matches!(spot.node.value, Value::Map(_)) {
        return handler_name(spot, problems).map(|name| Handler { name, args: Json::null() });
    }
    let fields = Fields::of(spot, &["name", "args"], ("a name", "write a name"), problems)?;
    let name = fields.required("name", "add `name`: what the handler was registered under", problems);
    let name = name.and_then(|spot| handler_name(&spot, problems));
    let args = fields.or("args", Json::null(), |spot| body(spot, problems));
    Some(Handler { name: name?, args: args? })
}

/// Rust paths are names people will use, so more than an identifier is allowed.
fn handler_name(spot: &Spot<'_>, problems: &mut Problems) -> Option<String> {
    let name = text(spot, problems)?;
    let strange = |c: char| c.is_whitespace() || c.is_control();
    if name.is_empty() || name.len() > HANDLER_NAME_BYTES_MAX || name.contains(strange) {
        let help = format!("use the name it was registered under: up to {HANDLER_NAME_BYTES_MAX} bytes, no spaces");
        return spot.refuse(problems, Code::BadName, format!("{} is not a handler's name", shown(name)), help);
    }
    Some(name.to_owned())
}
