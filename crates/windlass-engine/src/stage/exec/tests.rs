use secrecy::SecretString;
use windlass_core::stage::Text;

use super::*;
use crate::stage::fixture::told;
use crate::stage::template::Templates;

fn secrets() -> Secrets {
    Secrets::new([("S".parse().unwrap(), SecretString::from("hushhush"))].into())
}

fn used(secrets: &Secrets) -> Used<'_> {
    let (told, templates) = (told(), Templates::new());
    let mut used = Used::none(secrets);
    let text = Text::Secret("S".parse().unwrap());
    let (seen, secret) = used.text(&templates.over(&told), "it", &text).unwrap();
    assert_eq!((&*seen, secret), ("hushhush", true));
    used
}

fn said(used: &Used<'_>, text: &str) -> Said {
    let mut said = Said::nothing(used);
    text.as_bytes().chunks(1000).for_each(|chunk| said.add(chunk));
    said
}

#[test]
fn what_is_too_long_is_cut_and_says_so() {
    let secrets = secrets();
    let used = used(&secrets);
    let exactly = "x".repeat(OUTPUT_KEPT_BYTES);
    assert_eq!(said(&used, &exactly).kept(&used), (exactly.clone(), false));
    assert_eq!(said(&used, &format!("{exactly}y")).kept(&used), (exactly.clone(), true));
    assert_eq!(said(&used, &format!("{exactly}{exactly}")).kept(&used), (exactly, true));
}

#[test]
fn a_secret_across_a_cut_is_hidden_whole() {
    let secrets = secrets();
    let used = used(&secrets);
    for shift in 0..=8 {
        let filler = "x".repeat(OUTPUT_KEPT_BYTES - shift);
        let (kept, _) = said(&used, &format!("{filler}hushhush{}", "y".repeat(100))).kept(&used);
        assert!(!kept.contains('h'), "{shift}: {}", &kept[kept.len() - 20..]);
        let filler = "y".repeat(TAIL_BYTES + shift);
        let words = said(&used, &format!("{}hushhush{filler}", "x".repeat(100))).last_words(&used);
        assert!(!words.contains('h'), "{shift}: {}", &words[..20]);
    }
}

#[test]
fn the_last_words_are_the_end_of_what_was_said() {
    let secrets = Secrets::default();
    let used = Used::none(&secrets);
    let long = format!("begin{}the end\n", "x".repeat(TAIL_BYTES));
    let words = said(&used, &long).last_words(&used);
    assert!(words.ends_with("xthe end") && !words.contains("begin"), "{words}");
    assert_eq!(said(&used, " \n").last_words(&used), "");
}

#[test]
fn json_is_offered_only_if_the_whole_output_is_one_document() {
    let secrets = secrets();
    let used = used(&secrets);
    let json = |text: &str| said(&used, text).json(&used).map(|json| json.as_str().to_owned());
    assert_eq!(json("{\"a\": 1,\n \"b\":\"\\u0068ushhush\"}\n").unwrap(), r#"{"a":1,"b":"***"}"#);
    assert_eq!(json("1 2"), None);
    assert_eq!(json(""), None);
    assert_eq!(json(&format!("[{}1]", "1,".repeat(OUTPUT_KEPT_BYTES))), None);
    assert_eq!(json(&format!("{}{}", "[".repeat(1000), "]".repeat(1000))), None, "too deep to be read again");
}

#[test]
fn relative_paths_cannot_be_allowed() {
    let programs = |names: &[&str]| Allowed::Programs(names.iter().map(|name| (*name).to_owned()).collect());
    assert_eq!(programs(&["/bin/sh", "kubectl"]).bad(), None);
    for bad in ["", "bin/sh", "./sh", "../sh"] {
        assert_eq!(programs(&["kubectl", bad]).bad(), Some(bad));
    }
}

#[test]
fn a_bare_name_is_looked_for_in_absolute_folders_only() {
    let allowed = Allowed::Programs(vec!["sh".to_owned()]);
    let file = allowed.file("sh", ".:relative::/nowhere:/bin").unwrap();
    assert_eq!(file, Path::new("/bin/sh"));
    assert!(allowed.file("sh", "/nowhere:").unwrap_err().again, "it may be installed later");
}
