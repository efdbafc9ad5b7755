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
fn each_row_of_bench_plan_is_one_object_with_the_promised_fields() {
    let output = windlass(&["bench", "plan", "--quick", "-o", "json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let out = text(&output.stdout);
    let rows: Vec<serde_json::Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let workloads: Vec<_> = rows.iter().map(|row| row["workload"].as_str().unwrap()).collect();
    assert_eq!(
        workloads,
        [
            "limit: raw batch of 1",
            "one task alone",
            "plans of 10 x 10",
            "one large plan",
            "tasks that wait",
            "pause of 1,000 tasks"
        ]
    );
    for row in &rows {
        assert_eq!(row["bench"], "plan", "{row}");
        for field in ["store", "unit"] {
            assert!(row[field].is_string(), "{field} in {row}");
        }
        for field in ["concurrency", "per_s", "p50_us", "p99_us"] {
            assert!(row[field].is_number(), "{field} in {row}");
        }
        let measured = row["workload"] != "tasks that wait";
        assert_eq!(row["per_s"].as_f64().is_some_and(|n| n > 0.0), measured, "{row}");
        // Everything but the machine's own limit is judged.
        let limit = row["workload"].as_str().unwrap().starts_with("limit");
        assert_eq!((row["bar"].is_string(), row["pass"].is_boolean()), (!limit, !limit), "{row}");
    }
    assert!(rows[4]["resident_bytes"].as_u64().unwrap() > 0, "{}", rows[4]);
    assert!(text(&output.stderr).contains(" of 5 bars passed"), "{}", text(&output.stderr));
}

#[test]
fn bench_plan_measures_only_what_it_is_asked_for_on_the_store_it_is_given() {
    let output = windlass(&["bench", "plan", "--quick", "--store", "memory:", "--only", "alone", "-o", "json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let out = text(&output.stdout);
    assert_eq!(out.lines().count(), 2, "the machine's limit and one workload: {out}");
    assert!(out.contains(r#""workload":"one task alone","store":"memory""#), "{out}");
    let unknown = windlass(&["bench", "plan", "--quick", "--store", "mongodb://h"]);
    assert_eq!(unknown.status.code(), Some(1));
    assert!(text(&unknown.stderr).contains("--store: WL-4010"), "{}", text(&unknown.stderr));
}

/// One or all of several instances, each with its part.
fn instances_on(store: &str, environment: &[(&str, &str)]) {
    let run = |args: &[&str], more: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_windlass"));
        command.args(args).args(more).envs(environment.iter().copied()).output().unwrap()
    };
    for bench in ["plan", "jobs", "triggers"] {
        let args = ["bench", bench, "--quick", "--store", store, "--only", "instances", "-o", "json"];
        let bench = |more: &[&str]| run(&args, more);
        for (asked, n) in [(vec![], 2), (vec!["--instances", "4"], 4)] {
            let output = bench(&asked);
            assert!(output.status.success(), "{}", text(&output.stderr));
            let out = text(&output.stdout);
            let row: serde_json::Value = serde_json::from_str(out.lines().nth(1).unwrap()).unwrap();
            assert_eq!(row["workload"], format!("{n} instances"), "{row}");
            assert!(row["pass"].is_boolean() && row["per_s"].as_f64().unwrap() > 0.0, "{row}");
            let bar = row["bar"].as_str().unwrap();
            let (_, shares) = bar.split_once("done by each: ").unwrap();
            assert_eq!(shares.split(", ").count(), n, "{bar}");
            assert!(shares.split(", ").filter(|share| *share != "0 %").count() > 1, "one did everything: {bar}");
        }
        let alone = bench(&["--instances", "1"]);
        assert_eq!(text(&alone.stdout).lines().count(), 1, "the machine's limit only: {}", text(&alone.stdout));
    }
    // Those that share what callers and clients do, and are not compared.
    for (bench, only, rows) in [("store", "o", 12), ("http", "jobs", 2)] {
        let args = ["bench", bench, "--quick", "--store", store, "--only", only, "-o", "json"];
        let output = run(&args, &["--instances", "4"]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let out = text(&output.stdout);
        let all: Vec<serde_json::Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let shared = |row: &&serde_json::Value| row["workload"].as_str().unwrap().ends_with(", 4 instances");
        assert_eq!(all.iter().filter(shared).count(), rows, "{out}");
        for row in all.iter().filter(shared) {
            assert!(row["per_s"].as_f64() > Some(0.0) && row["store"] != "embedded" && row["bar"].is_null(), "{row}");
        }
    }
}

#[test]
fn instances_beside_each_other_on_postgres_are_compared_with_one_and_each_has_its_part_of_the_work() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    instances_on(&runtime.block_on(crate::server::schema()).url, &[]);
}

#[test]
fn instances_beside_each_other_on_mysql_are_compared_with_one_and_each_has_its_part_of_the_work() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let database = runtime.block_on(crate::mysql_server::database());
    instances_on(&database.url, &[]);
}

#[test]
fn instances_beside_each_other_on_redis_are_compared_with_one_and_each_has_its_part_of_the_work() {
    let space = crate::redis_server::space();
    instances_on(&space.url, &[("WINDLASS_REDIS_PREFIX", &space.prefix)]);
}

#[test]
fn a_store_of_one_process_refuses_several_instances() {
    let stores = [&["--store", "memory:"][..], &[]];
    let benches = ["store", "plan", "jobs", "triggers", "http"];
    for (bench, store) in benches.into_iter().flat_map(|bench| stores.map(|store| (bench, store))) {
        let output = windlass(&[&["bench", bench, "--quick", "--instances", "2"], store].concat());
        assert_eq!(output.status.code(), Some(1));
        let said = text(&output.stderr);
        assert!(said.contains("--instances 2") && said.contains("one process's alone"), "{said}");
        assert!(output.stdout.is_empty(), "nothing is measured first");
    }
}

#[test]
fn each_row_of_bench_jobs_is_one_object_with_the_promised_fields() {
    let output = windlass(&["bench", "jobs", "--quick", "--store", "memory:", "-o", "json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let out = text(&output.stdout);
    let rows: Vec<serde_json::Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let workloads: Vec<_> = rows.iter().map(|row| row["workload"].as_str().unwrap()).collect();
    assert_eq!(
        workloads,
        [
            "limit: raw batch of 1",
            "submit single",
            "submit single",
            "submit batched",
            "burn-down",
            "burn-down",
            "burn-down",
            "submit to result",
            "result under load",
            "waiters",
            "ten beside a million",
            "claims unblocked",
            "claims past blocked"
        ]
    );
    for row in &rows {
        assert_eq!(row["bench"], "jobs", "{row}");
        assert!(row["per_s"].as_f64().is_some_and(|n| n > 0.0) && row["p50_us"].is_number(), "{row}");
    }
    assert_eq!(rows[10]["pass"], true, "ten jobs beside very many: {}", rows[10]);
}

#[test]
fn each_row_of_bench_http_is_one_object_with_the_promised_fields() {
    let output = windlass(&["bench", "http", "--quick", "-o", "json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let out = text(&output.stdout);
    let rows: Vec<serde_json::Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let workloads: Vec<_> = rows.iter().map(|row| row["workload"].as_str().unwrap()).collect();
    assert_eq!(
        workloads,
        [
            "limit: raw batch of 1",
            "jobs one by one",
            "jobs by 100",
            "plans of 10 x 3",
            "store 2000 tasks",
            "start, 2000 stored",
            "task by tenant, 2000 stored",
            "event to streams",
            "idle memory",
            "executable"
        ]
    );
    for row in &rows {
        assert_eq!(row["bench"], "http", "{row}");
        let workload = row["workload"].as_str().unwrap();
        let counted = !["idle memory", "executable"].contains(&workload);
        assert_eq!(row["per_s"].as_f64().is_some_and(|n| n > 0.0), counted, "{row}");
        let judged = !["limit: raw batch of 1", "plans of 10 x 3", "store 2000 tasks"].contains(&workload);
        assert_eq!((row["bar"].is_string(), row["pass"].is_boolean()), (judged, judged), "{row}");
    }
    assert!(rows[8]["resident_bytes"].as_u64().unwrap() > 0 && rows[9]["disk_bytes"].as_u64().unwrap() > 0);
    assert!(text(&output.stderr).contains(" of 7 bars passed"), "{}", text(&output.stderr));
}

#[test]
fn bench_http_uses_the_store_it_is_given() {
    let output = windlass(&["bench", "http", "--quick", "--store", "memory:", "--only", "one by one", "-o", "json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let out = text(&output.stdout);
    assert_eq!(out.lines().count(), 2, "the machine's limit and one workload: {out}");
    assert!(out.contains(r#""workload":"jobs one by one","store":"memory""#) && !out.contains("bar"), "{out}");
    let unknown = windlass(&["bench", "http", "--quick", "--store", "nowhere"]);
    assert_eq!(unknown.status.code(), Some(1));
    assert!(text(&unknown.stderr).contains("--store: WL-4012"), "{}", text(&unknown.stderr));
}

#[test]
fn the_help_of_a_bench_names_every_option() {
    for (bench, options) in [
        (
            "store",
            vec![
                "--folder",
                "--store",
                "--instances",
                "--quick",
                "--tasks",
                "--only",
                "--strict",
                "--output",
                "--config",
            ],
        ),
        ("plan", vec!["--store", "--quick", "--only", "--instances", "--strict", "--output", "--config"]),
        ("jobs", vec!["--store", "--quick", "--only", "--instances", "--strict", "--output", "--config"]),
        ("triggers", vec!["--store", "--quick", "--only", "--instances", "--strict", "--output", "--config"]),
        ("http", vec!["--store", "--quick", "--only", "--instances", "--strict", "--output", "--config"]),
    ] {
        let output = windlass(&["bench", bench, "-h"]);
        let help = text(&output.stdout);
        assert!(output.status.success() && help.lines().count() <= 24, "{help}");
        for option in options {
            assert!(help.contains(option), "{option} in {help}");
        }
    }
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
