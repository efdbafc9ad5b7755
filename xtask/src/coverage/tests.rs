use super::*;

fn lines(covered: u64, all: u64) -> Lines {
    Lines { covered, all }
}

#[test]
fn both_tools_say_the_same() {
    let llvm_cov = serde_json::json!({ "data": [{ "files": [
        { "filename": "/r/crates/a/src/lib.rs", "summary": { "lines": { "count": 10, "covered": 9 } } },
    ] }] });
    let tarpaulin = serde_json::json!({ "files": [
        { "path": ["/", "r", "crates", "a", "src", "lib.rs"], "covered": 9, "coverable": 10 },
    ] });
    let expected = vec![(PathBuf::from("/r/crates/a/src/lib.rs"), lines(9, 10))];
    assert_eq!(from_llvm_cov(&llvm_cov).unwrap(), expected);
    assert_eq!(from_tarpaulin(&tarpaulin).unwrap(), expected);
}

#[test]
fn a_report_of_another_form_is_an_error_and_not_full_coverage() {
    let odd = serde_json::json!({ "files": [{}], "data": [{ "files": [{}] }] });
    assert!(from_llvm_cov(&odd).is_err() && from_tarpaulin(&odd).is_err());
    assert!(from_llvm_cov(&Value::Null).is_err() && from_tarpaulin(&Value::Null).is_err());
}

#[test]
fn test_code_and_the_contract_are_not_counted() {
    let files: Vec<_> = [
        ("/r/crates/a/src/lib.rs", lines(1, 2)),
        ("/r/crates/a/src/lock/tests.rs", lines(100, 100)),
        ("/r/crates/a/tests/it/main.rs", lines(100, 100)),
        ("/r/crates/windlass-conformance/src/lib.rs", lines(50, 50)),
        ("/r/xtask/src/main.rs", lines(0, 100)),
        ("/r/crates/empty/src/lib.rs", lines(0, 0)),
        ("/elsewhere/crates/a/src/lib.rs", lines(0, 100)),
    ]
    .into_iter()
    .map(|(path, lines)| (PathBuf::from(path), lines))
    .collect();
    let crates = by_crate(Path::new("/r"), &files);
    assert_eq!(crates["a"], lines(1, 2));
    assert_eq!(total(&crates), lines(1, 2));
    let table = table(&crates);
    assert!(table.contains("not counted") && table.contains("50.0 %"), "{table}");
    assert!(!table.contains("empty"), "{table}");
}
