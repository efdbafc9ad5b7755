use super::*;

fn picked(only: &str) -> Vec<&'static str> {
    chosen(Some(only)).unwrap().iter().map(|step| step.name).collect()
}

#[test]
fn without_a_filter_every_step_runs_and_quick_ones_come_first() {
    let all: Vec<_> = chosen(None).unwrap().iter().map(|step| step.name).collect();
    assert_eq!(all, names());
    assert_eq!(all[..2], ["fmt", "tidy"]);
}

#[test]
fn a_filter_keeps_the_order_of_the_steps() {
    assert_eq!(picked("clippy, fmt"), ["fmt", "clippy"]);
}

#[test]
fn an_unknown_step_is_refused_with_the_known_ones() {
    let error = chosen(Some("fmt,lint")).err().unwrap().to_string();
    assert!(error.contains("`lint`") && error.contains("fmt, tidy, clippy"), "{error}");
    assert!(chosen(Some(",")).is_err());
}

#[test]
fn the_report_names_the_budget_and_says_when_it_is_spent() {
    let within = report(&[("fmt", Duration::from_secs(1))], Duration::from_secs(540));
    assert!(within.contains("9m 00s, 20 % of the budget of 45m 00s"), "{within}");
    assert!(!within.contains("warning"));
    let over = report(&[], BUDGET + Duration::from_secs(1));
    assert!(over.contains("over budget"), "{over}");
}
