use proptest::prelude::*;
use windlass_core::fence::Fence;

use super::*;

fn told() -> Told {
    let config = r#"{"endpoint":"http://a.example","version":18446744073709551615,"ratio":0.5,"on":true,"nothing":null,
        "tags":["a","b"],"z":1,"a":{"z":-9223372036854775808,"b":"ü\"\n"}}"#;
    Told {
        plan: "p1".parse().unwrap(),
        task: "t1".parse().unwrap(),
        tenant: "acme".parse().unwrap(),
        stage: "write".parse().unwrap(),
        attempt: 3,
        pass: 1,
        fence: Fence(1_763_000_000_000_001),
        config: Some(Json::parse(config).unwrap()),
        previous: None,
        context: Json::parse(r#"{"first-one":{"status":200}}"#).unwrap(),
    }
}

fn text(template: &str) -> Result<String, Trouble> {
    Templates::new().over(&told()).text("url", template).map(Cow::into_owned)
}

fn json(template: &str) -> Result<String, Trouble> {
    let template = Json::parse(template).unwrap();
    Templates::new().over(&told()).json("json", &template).map(|json| json.as_str().to_owned())
}

fn truth(template: &str) -> Result<bool, Trouble> {
    Templates::new().over(&told()).truth("when", template)
}

fn refused(result: Result<String, Trouble>) -> String {
    let trouble = result.unwrap_err();
    assert_eq!((trouble.kind, trouble.again), (FailureKind::Template, false), "{}", trouble.message);
    trouble.message
}

#[test]
fn a_text_names_everything_that_the_stage_is_told() {
    let template = "{{ config.endpoint }}/{{ tenant }}/{{ plan }}/{{ task }}/{{ stage }}/{{ attempt }}/{{ fence }}/\
                    {{ context['first-one'].status }}";
    assert_eq!(text(template).unwrap(), "http://a.example/acme/p1/t1/write/3/1763000000000001/200");
}

#[test]
fn a_value_in_a_text_is_written_as_json_and_a_string_as_it_is() {
    let template =
        "{{ config.version }} {{ config.ratio }} {{ config.on }} {{ config.nothing }} {{ config.tags }} {{ config.a }}";
    let wanted = r#"18446744073709551615 0.5 true null ["a","b"] {"z":-9223372036854775808,"b":"ü\"\n"}"#;
    assert_eq!(text(template).unwrap(), wanted);
    assert_eq!(text("<{{ config.a.b }}>").unwrap(), "<ü\"\n>", "nothing is escaped");
}

#[test]
fn a_single_expression_in_json_keeps_its_type() {
    let template = r#"{"v":"{{ config.version }}","t":"v{{ config.version }}","l":["{{config.tags}}","{{ config.nothing }}"],
        "s":"{{ config.endpoint }}","two":"{{ tenant }}{{ task }}","b":"{{- config.on -}}","n":7.50,"m":"{{ {'a': {'b': 1}} }}"}"#;
    let wanted = concat!(
        r#"{"v":18446744073709551615,"t":"v18446744073709551615","l":[["a","b"],null],"#,
        r#""s":"http://a.example","two":"acmet1","b":true,"n":7.50,"m":{"a":{"b":1}}}"#
    );
    assert_eq!(json(template).unwrap(), wanted);
}

#[test]
fn the_sign_at_the_braces_is_about_white_space() {
    assert_eq!(json(r#""{{- config.z }}""#).unwrap(), "1");
    assert_eq!(json(r#""{{ -config.z }}""#).unwrap(), "-1");
}

#[test]
fn quotes_and_line_breaks_of_a_value_do_not_break_the_json_around_it() {
    assert_eq!(json(r#"{"x":"<{{ config.a.b }}>"}"#).unwrap(), r#"{"x":"<ü\"\n>"}"#);
    assert_eq!(json(r#"{"x":"{{ \"a\\\"b\" }}"}"#).unwrap(), r#"{"x":"a\"b"}"#);
}

#[test]
fn keys_are_no_templates() {
    assert_eq!(json(r#"{"{{ tenant }}":"{{ tenant }}"}"#).unwrap(), r#"{"{{ tenant }}":"acme"}"#);
}

#[test]
fn what_has_no_marks_comes_back_untouched() {
    let plain = Json::parse(r#"{"a":{"b":{}},"n":1.10,"s":"}} %} { {"}"#).unwrap();
    let rendered = Templates::new().over(&told()).json("args", &plain).unwrap();
    assert!(std::ptr::eq(rendered.as_str(), plain.as_str()), "it is the same text, not a copy");
    let (templates, told) = (Templates::new(), told());
    assert!(matches!(templates.over(&told).text("url", "http://x/{id}").unwrap(), Cow::Borrowed(_)));
}

#[test]
fn undefined_names_are_errors_that_say_where() {
    let message = refused(text("{{ config.endpoint }}/{{ config.verson }}"));
    assert!(message.contains("`config.verson`, line 1, column 26"), "{message}");
    assert!(message.starts_with("url cannot be rendered: it is undefined"), "{message}");
    for template in ["{{ nobody }}", "{{ previous.version }}", "{{ config.a.b.c }}", "{% if nobody %}x{% endif %}"] {
        refused(text(template));
        refused(json(&serde_json::to_string(template).unwrap()));
    }
    refused(json(r#""{{ config.verson }}""#));
    refused(json(r#""{{ [config.verson] }}""#));
    assert_eq!(text("{{ previous.version if previous is defined else 'none' }}").unwrap(), "none");
    assert_eq!(text("{{ config.verson | default('old') }}").unwrap(), "old");
}

#[test]
fn a_template_that_does_not_parse_is_an_error() {
    let message = refused(text("a\nb {{ config. }}"));
    assert!(message.contains("line 2"), "{message}");
    refused(text("{% for x in config.tags %}"));
    refused(json(r#""{{ config. }}""#));
}

#[test]
fn steps_are_bounded() {
    let endless = "{% for a in range(1000) %}{% for b in range(1000) %}{% endfor %}{% endfor %}";
    assert!(refused(text(endless)).contains("steps"));
}

#[test]
fn what_is_written_is_bounded() {
    let big = "{% for a in range(2000) %}{{ 'x' * 1000 }}{% endfor %}";
    assert!(refused(text(big)).contains("1 MiB"));
    assert!(refused(json(&serde_json::to_string(big).unwrap())).contains("1 MiB"));
    assert!(refused(json(r#""{{ ['x' * 1000] * 2000 }}""#)).contains("1 MiB"));
    let parts = vec!["{{ 'x' * 100000 }}"; 11];
    assert!(refused(json(&serde_json::to_string(&parts).unwrap())).contains("1 MiB"));
    assert_eq!(text("{{ 'x' * 1048576 }}").unwrap().len(), RENDERED_BYTES_MAX);
}

#[test]
fn nothing_outside_can_be_read() {
    for template in ["{% include '/etc/passwd' %}", "{{ env('HOME') }}", "{{ debug() }}", "{% import 'x' as y %}"] {
        refused(text(template));
    }
}

#[test]
fn when_is_false_for_nothing_blank_and_false() {
    for template in [
        "",
        "  ",
        "false",
        " False ",
        "{{ config.nothing }}",
        "{{ not config.on }}",
        "{% if not config.on %}x{% endif %}",
    ] {
        assert_eq!(truth(template), Ok(false), "{template}");
    }
    for template in ["true", "0", "{{ config.on }}", "{{ config.z > 0 }}", "{{ config.tags }}", "no"] {
        assert_eq!(truth(template), Ok(true), "{template}");
    }
    assert!(truth("{{ config.of }}").is_err());
}

fn any_json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<u64>().prop_map(Into::into),
        (-1e300_f64..1e300).prop_map(Into::into),
        "\\PC*".prop_map(Into::into),
    ];
    leaf.prop_recursive(3, 20, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Into::into),
            prop::collection::btree_map("[a-z\"\\\\é]{0,5}", inner, 0..4)
                .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn a_value_goes_through_a_template_unchanged(value in any_json()) {
        let told = Told { config: Some(Json::of(&serde_json::json!({ "it": value })).unwrap()), ..told() };
        let template = Json::parse(r#"{"got":"{{ config.it }}"}"#).unwrap();
        let rendered = Templates::new().over(&told).json("json", &template).unwrap();
        prop_assert_eq!(rendered.to::<serde_json::Value>().unwrap(), serde_json::json!({ "got": value }));
    }
}
