use super::*;

const SOURCE: &str = r#"
//! Settings.

/// All of them.
#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Where everything is kept.
    pub store: String,
    /// Overrides.
    #[serde(default)]
    pub stores: Stores,
    #[serde(rename = "log-level")]
    pub log_level: String,
    #[serde(skip)]
    pub source: PathBuf,
    cached: u8,
}

pub struct Stores {
    pub state: Option<String>,
    pub limits: Option<Limits>,
}

#[serde(rename_all = "kebab-case")]
pub(crate) struct Limits {
    pub open_max: BTreeMap<String, u32>, pub wait_ms: u64,
}

struct Wrapper(u8);
"#;

const FILE: &str = r#"
# Windlass settings.

# Where everything is kept.
store = "embedded:windlass-data"
# How much is said = how much is read.
log-level = "info"

[stores]
# A store for state alone.
# state = "redis://127.0.0.1"

[stores.limits]
# How many at once, by name.
open-max = { a = 1 }
# How long to wait.
wait-ms = 100
"#;

fn with(source: &str, file: &str) -> Vec<Problem> {
    check(&Tree::of(&[(CODE, source), (EXAMPLE, file)]))
}

#[track_caller]
fn refused(problems: &[Problem], at: &str, what: &str) {
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert_eq!(problems[0].at, at);
    assert_eq!(problems[0].what, what);
}

#[test]
fn a_file_with_every_setting_explained_passes() {
    assert_eq!(with(SOURCE, FILE), []);
}

#[test]
fn a_setting_that_the_file_does_not_show_is_refused_where_it_is_declared() {
    let file = FILE.replace("# How much is said = how much is read.\nlog-level = \"info\"\n", "");
    let at = format!("{CODE}:14");
    refused(&with(SOURCE, &file), &at, "the setting `log-level` is not in windlass.example.toml");
    let file = FILE.replace("wait-ms", "wait_ms");
    assert_eq!(with(SOURCE, &file).len(), 2);
}

#[test]
fn a_setting_without_a_comment_above_it_is_refused() {
    for gone in ["# Where everything is kept.\n", "# A store for state alone.\n", "# How long to wait.\n"] {
        let problems = with(SOURCE, &FILE.replacen(gone, "", 1));
        assert_eq!(problems.len(), 1, "{gone}: {problems:?}");
        assert!(problems[0].what.ends_with("is not explained"), "{problems:?}");
    }
    let file = FILE.replace("# Where everything is kept.\nstore", "# Where everything is kept.\n\nstore");
    refused(&with(SOURCE, &file), "windlass.example.toml:6", "the setting `store` is not explained");
}

#[test]
fn a_key_that_is_no_setting_is_refused_commented_out_or_not() {
    for line in ["colour = \"red\"", "# colour = \"red\"", "#colour = \"red\""] {
        let file = format!("{FILE}# Never was.\n{line}\n");
        refused(&with(SOURCE, &file), "windlass.example.toml:19", "there is no setting `stores.limits.colour`");
    }
}

#[test]
fn a_setting_in_the_wrong_table_is_refused_in_both_places() {
    let file = FILE.replace("[stores]\n", "").replace("[stores.limits]", "[stores]\n[stores.limits]");
    let whats: Vec<_> = with(SOURCE, &file).into_iter().map(|problem| problem.what).collect();
    assert_eq!(whats, ["there is no setting `state`", "the setting `stores.state` is not in windlass.example.toml"]);
}

#[test]
fn a_setting_twice_is_refused() {
    let file = format!("# Again.\nstore = \"memory:\"\n{FILE}");
    refused(&with(SOURCE, &file), "windlass.example.toml:7", "the setting `store` is already on line 2");
}

#[test]
fn a_value_over_several_lines_is_no_key() {
    let source = SOURCE.replace("pub store: String,", "pub store: Vec<String>,");
    let file = FILE.replace("store = \"embedded:windlass-data\"", "store = [\n  \"a = 1\", # b = 2\n]");
    assert_eq!(with(&source, &file), []);
}

#[test]
fn missing_files_and_settings_that_lead_nowhere_are_refused() {
    let missing: Vec<_> = check(&Tree::of(&[])).into_iter().map(|problem| problem.at).collect();
    assert_eq!(missing, [CODE, EXAMPLE]);
    refused(&with("struct Other { pub a: u8 }", FILE), CODE, "there is no `struct Settings`");
    let lost = format!("{SOURCE}\npub struct Lost {{ pub a: u8 }}\n");
    refused(&with(&lost, FILE), CODE, "no field of `Settings` leads to `Lost`");
    refused(&with("pub struct Settings { pub a: Settings }", FILE), CODE, "`Settings` holds itself");
}
