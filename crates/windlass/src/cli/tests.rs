use std::path::Path;

use clap::{CommandFactory as _, ValueEnum as _};

use super::completion::{self, Completion};
use super::{Cli, reference};

#[test]
fn the_command_line_is_well_formed() {
    Cli::command().debug_assert();
}

#[test]
fn the_help_fits_a_screen() {
    let help = Cli::command().render_help().to_string();
    let lines = help.lines().count();
    assert!(lines <= 40, "{lines} lines:\n{help}");
    let wide = help.lines().map(|line| line.chars().count()).max().unwrap();
    assert!(wide <= 110, "{wide} columns:\n{help}");
    assert!(help.contains("docs/cli.md"), "{help}");
}

#[test]
#[expect(clippy::disallowed_methods, reason = "how somebody asks for the page to be written again")]
fn the_reference_is_what_the_parser_knows() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cli.md");
    let page = reference();
    if std::env::var("WINDLASS_BLESS").is_ok() {
        std::fs::write(&path, &page).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == page, "docs/cli.md is not what the parser knows; write it again with WINDLASS_BLESS=1");
}

#[test]
fn every_shell_gets_a_script_that_knows_the_commands() {
    for shell in clap_complete::Shell::value_variants() {
        let mut script = Vec::new();
        completion::run(&Completion { shell: *shell }, Cli::command(), &mut script);
        let script = String::from_utf8(script).unwrap();
        assert!(script.contains("windlass") && script.contains("skip-stage"), "{shell}");
    }
}

#[test]
fn a_key_is_worth_a_warning_only_where_others_can_read_it() {
    use super::remote::is_overheard;
    assert!(is_overheard("http://windlass.example:7800"));
    for url in ["https://windlass.example", "http://127.0.0.1:7800", "http://localhost:7800", "http://[::1]:7800"] {
        assert!(!is_overheard(url), "{url}");
    }
}
