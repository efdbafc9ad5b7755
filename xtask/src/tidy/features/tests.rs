use super::*;

const GUARDED: (&str, &str) = (CODE, "#[cfg(not(debug_assertions))]\ncompile_error!(\"no\");\n");

fn problems(manifest: &str) -> Vec<String> {
    let tree = Tree::of(&[GUARDED, ("crates/windlass/Cargo.toml", manifest)]);
    check(&tree).into_iter().map(|problem| problem.what).collect()
}

#[test]
fn a_feature_that_is_only_asked_for_by_name_is_fine() {
    assert_eq!(problems("[features]\nfault = []\ndefault = [\"other\"]\n[dependencies]\na = \"1\"\n"), [""; 0]);
}

#[test]
fn a_default_a_dependency_and_a_profile_that_could_bring_it_are_refused() {
    assert_eq!(problems("[features]\ndefault = [\"fault\"]\n"), ["`fault` is a default feature"]);
    assert_eq!(problems("[features]\ndefault = [\"windlass/fault\"]\n"), ["`fault` is a default feature"]);
    for sort in ["dependencies", "dev-dependencies", "workspace.dependencies"] {
        let manifest = format!("[{sort}]\nwindlass = {{ path = \"x\", features = [\"fault\"] }}\n");
        assert_eq!(problems(&manifest), ["the dependency windlass is taken with `fault`"], "{sort}");
    }
    let profile = "the profile release has debug assertions, so `fault` could be in it";
    assert_eq!(problems("[profile.release]\ndebug-assertions = true\n"), [profile]);
    assert_eq!(problems("[profile.dev]\ndebug-assertions = true\n"), [""; 0]);
}

#[test]
fn code_without_its_guard_is_refused() {
    let what = |tree: &Tree| check(tree).into_iter().map(|problem| problem.what).collect::<Vec<_>>();
    assert_eq!(what(&Tree::of(&[(CODE, "fn die() {}")])), ["nothing keeps it out of a release build"]);
    assert_eq!(what(&Tree::of(&[])), ["nothing keeps it out of a release build"]);
}
