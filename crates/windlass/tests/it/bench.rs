//! `windlass bench`: the shape of what it prints. Figures are not judged here.

use super::{text, windlass};

#[test]
fn each_row_of_bench_store_is_one_object_with_the_promised_fields() {
    let output = windlass(&["bench", "store", "--quick", "--tasks", "1000", "-o", "json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let out = text(&output.stdout);
    let rows: Vec<serde_json::Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for row in &rows {
        for field in ["bench", "workload", "store", "unit"] {
            assert!(row[field].is_string(), "{field} in {row}");
        }
        for field in ["concurrency", "per_s", "p50_us", "p99_us"] {
            assert!(row[field].as_f64().is_some_and(|n| n > 0.0), "{field} in {row}");
        }
        assert_eq!(row["bar"].is_string(), row["pass"].is_boolean(), "{row}");
        assert!(row.get("limit_per_s").is_some_and(|limit| limit.is_null() || limit.is_f64()), "{row}");
    }
    let measured: Vec<(String, u64)> = rows
        .iter()
        .map(|row| (row["workload"].as_str().unwrap().to_owned(), row["concurrency"].as_u64().unwrap()))
        .collect();
    for workload in ["boundary commit", "lock acquire+release", "load task+checkpoint", "list page of 100"] {
        for callers in [1, 16, 256] {
            assert!(measured.contains(&(workload.to_owned(), callers)), "{workload} x{callers} in {measured:?}");
        }
    }
    for limit in ["limit: fdatasync", "limit: raw batch of 1", "limit: raw batch of 100"] {
        assert!(measured.iter().any(|(workload, _)| workload == limit), "{limit}");
    }
    let judged = rows.iter().filter(|row| row["pass"].is_boolean()).count();
    assert_eq!(judged, 4, "a bar for commits, latency, memory and reopening");
    let reopened = rows.iter().find(|row| row["workload"] == "reopen, 1000 tasks").unwrap();
    assert!(reopened["resident_bytes"].as_u64().unwrap() > 0 && reopened["disk_bytes"].as_u64().unwrap() > 0);
}

#[test]
fn a_bench_refuses_a_folder_that_holds_something() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("precious"), "x").unwrap();
    let output = windlass(&["bench", "store", "--quick", "--folder", folder.path().to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("is not empty"), "{}", text(&output.stderr));
    assert_eq!(std::fs::read_to_string(folder.path().join("precious")).unwrap(), "x");
}
