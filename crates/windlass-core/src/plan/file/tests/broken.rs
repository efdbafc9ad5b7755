//! Golden files: every broken plan in `tests/broken-plans` with what a person is told about it.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::{Code, Format, bad};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/broken-plans")
}

/// The plans and, beside each, the file with its message.
fn plans() -> Vec<(PathBuf, PathBuf)> {
    let mut plans: Vec<PathBuf> = fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path()).collect();
    plans.retain(|path| Format::from_path(path).is_some());
    plans.sort();
    plans.into_iter().map(|plan| (plan.clone(), PathBuf::from(format!("{}.expected", plan.display())))).collect()
}

#[expect(clippy::disallowed_methods, reason = "a switch for the person who changes a message, read by this test only")]
fn blessed() -> bool {
    std::env::var("WINDLASS_BLESS").is_ok_and(|value| value == "1")
}

#[test]
fn every_broken_plan_is_refused_with_the_expected_words() {
    let mut wrong = Vec::new();
    for (plan, expected) in plans() {
        let text = fs::read_to_string(&plan).unwrap();
        let message = format!("{}\n", bad(&text, Format::from_path(&plan).unwrap()));
        if blessed() {
            fs::write(&expected, message).unwrap();
            continue;
        }
        match fs::read_to_string(&expected) {
            Ok(wanted) if wanted == message => {}
            Ok(wanted) => wrong.push(format!("{}:\n--- expected\n{wanted}--- found\n{message}", plan.display())),
            Err(_) => wrong.push(format!("{} is missing; found\n{message}", expected.display())),
        }
    }
    let help = "if the new words are right, run the test again with WINDLASS_BLESS=1";
    assert!(wrong.is_empty(), "{}\n{help}", wrong.join("\n"));
}

#[test]
fn there_are_broken_plans_of_every_kind() {
    let plans = plans();
    assert!(plans.len() >= 36, "{}", plans.len());
    let of = |format| plans.iter().filter(|(plan, _)| Format::from_path(plan) == Some(format)).count();
    assert!(of(Format::Yaml) >= 10 && of(Format::Toml) >= 10 && of(Format::Json) >= 10);
    let mut seen = HashSet::new();
    for (plan, _) in &plans {
        let text = fs::read_to_string(plan).unwrap();
        seen.extend(bad(&text, Format::from_path(plan).unwrap()).iter().map(|problem| problem.code));
    }
    let unseen: Vec<&Code> = Code::ALL.iter().filter(|code| !seen.contains(code)).collect();
    assert!(unseen.is_empty(), "no broken plan shows {unseen:?}");
}

#[test]
fn no_expected_message_is_left_without_its_plan() {
    let known: HashSet<PathBuf> = plans().into_iter().flat_map(|(plan, expected)| [plan, expected]).collect();
    for entry in fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        assert!(known.contains(&path), "{} belongs to no plan", path.display());
    }
}
