//! `docs/cli.md`: every command and option, from what the parser itself knows.

use clap::{Arg, Command};

use super::exit;

const HEAD: &str = "# Command line

<!-- Made by `cargo test -p windlass --lib cli`; to write it again: WINDLASS_BLESS=1. -->

Every command but `up`, `demo`, `bench`, `doctor`, `migrate`, `schema`, `purge`, `key`, `plan check` and `completion` is a call of a
server's HTTP interface. Data goes to stdout, everything else to stderr. `-o json` prints answers as the server gave them, one
document per line. Colours and bars are for terminals only; `NO_COLOR` turns colours off.

| variable | |
|---|---|
| `WINDLASS_SERVER` | the server, unless `--server` says otherwise; `http://127.0.0.1:7800` |
| `WINDLASS_KEY` | the API key, unless `--key` says otherwise; never printed |
| `USER` | who asks, where the server has no keys to know it from |

A write carries an idempotency key that all its tries share, so that one whose answer was lost is not done twice. A call is tried
four times when nobody answers or the store is away.

## Exit codes

| code | meaning |
|---|---|
";

/// The page.
pub(super) fn page(mut root: Command) -> String {
    root.build();
    let mut text = HEAD.to_owned();
    for (code, meaning) in exit::TABLE {
        text += &format!("| {code} | {meaning} |\n");
    }
    text += "\n## Options of every command\n\n";
    let globals: Vec<&Arg> = root.get_arguments().filter(|arg| arg.is_global_set()).collect();
    globals.iter().for_each(|arg| text += &option(arg));
    for command in root.get_subcommands().filter(|command| !command.is_hide_set() && command.get_name() != "help") {
        section(command, "windlass", &mut text);
    }
    text
}

fn section(command: &Command, before: &str, text: &mut String) {
    let name = format!("{before} {}", command.get_name());
    let children: Vec<_> =
        command.get_subcommands().filter(|child| !child.is_hide_set() && child.get_name() != "help").collect();
    let depth = if before == "windlass" { "##" } else { "###" };
    *text += &format!("\n{depth} `{name}`\n\n{}\n", sentence(command.get_about().map(ToString::to_string)));
    if children.is_empty() {
        let usage = command.clone().render_usage().to_string();
        let usage = usage.trim_start_matches("Usage: ").trim().to_owned();
        *text += &format!("\n    {usage}\n");
        let own: Vec<_> = command.get_arguments().filter(|arg| is_own(arg)).collect();
        if !own.is_empty() {
            text.push('\n');
        }
        own.into_iter().for_each(|arg| *text += &option(arg));
    }
    children.into_iter().for_each(|child| section(child, &name, text));
}

fn is_own(arg: &Arg) -> bool {
    !arg.is_global_set() && !arg.is_hide_set() && !["help", "version"].contains(&arg.get_id().as_str())
}

/// One line of a list.
fn option(arg: &Arg) -> String {
    let values: Vec<_> = arg.get_value_names().unwrap_or_default().iter().map(ToString::to_string).collect();
    let takes = arg.get_action().takes_values();
    let mut name = match (arg.get_short(), arg.get_long()) {
        (Some(short), Some(long)) => format!("-{short}, --{long}"),
        (Some(short), None) => format!("-{short}"),
        (None, Some(long)) => format!("--{long}"),
        (None, None) => format!("<{}>", values.join(" ")),
    };
    if takes && arg.get_long().or(arg.get_short().map(|_| "")).is_some() && !values.is_empty() {
        let joint = if arg.is_require_equals_set() { "=" } else { " " };
        let value = format!("{joint}<{}>", values.join(" "));
        name += &if arg.is_require_equals_set() { format!("[{value}]") } else { value };
    }
    let defaults: Vec<_> = arg.get_default_values().iter().map(|value| value.to_string_lossy().into_owned()).collect();
    let default = match takes && !defaults.is_empty() && !arg.is_hide_default_value_set() {
        true => format!(" Default: `{}`.", defaults.join(",")),
        false => String::new(),
    };
    format!("* `{name}`: {}{default}\n", sentence(arg.get_help().map(ToString::to_string)))
}

fn sentence(text: Option<String>) -> String {
    let text = text.unwrap_or_default();
    if text.ends_with('.') || text.is_empty() { text } else { format!("{text}.") }
}
