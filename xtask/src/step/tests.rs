use super::*;

#[test]
fn a_command_is_shown_as_a_line_that_a_shell_can_repeat() {
    let cmd = Cmd::with_env(&[("FLAGS", "-D warnings")], &["cargo", "nextest", "-E", "test(a) | test(b)"]);
    assert_eq!(cmd.line(), "FLAGS='-D warnings' cargo nextest -E 'test(a) | test(b)'");
}

#[test]
fn a_program_that_is_not_there_does_not_succeed() {
    assert!(!Cmd::new(&["windlass-no-such-program"]).succeeds(Path::new(".")));
}

#[test]
fn times_are_short_to_read() {
    assert_eq!(shown(Duration::from_millis(1240)), "1.2s");
    assert_eq!(shown(Duration::from_secs(125)), "2m 05s");
}
