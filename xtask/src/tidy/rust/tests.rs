use super::*;

#[test]
fn comments_go_and_lines_stay() {
    let bare = without_comments("a // b\n/* c\n /* d */ */ e");
    assert_eq!(bare.split_whitespace().collect::<Vec<_>>(), ["a", "e"]);
    assert_eq!(bare.lines().count(), 3);
}

#[test]
fn what_looks_like_a_comment_inside_a_literal_stays() {
    for kept in [
        r#"let a = "https://example.org";"#,
        r##"let a = r#"say "// hi" "#;"##,
        r#"let a = "\"//";"#,
        r"let a = ('/', '\'', '/'); let b: &'static str;",
        r#"let a = br"//\";"#,
    ] {
        assert_eq!(without_comments(kept), kept);
    }
}

#[test]
fn text_that_ends_too_soon_is_no_reason_to_stop() {
    for odd in ["\"open", "r#\"open", "'", "'\\", "/* open", "//"] {
        without_comments(odd);
    }
}

#[test]
fn a_bracket_ends_where_its_own_closes() {
    assert_eq!(bracketed("(a(b)c)d"), Some("a(b)c"));
    assert_eq!(bracketed("(a"), None);
    assert_eq!(bracketed("a"), None);
}
