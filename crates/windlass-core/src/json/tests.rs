use super::*;

#[test]
fn white_space_goes_and_everything_else_stays() {
    let json = Json::parse(" { \"b\" : [ 18446744073709551615 , 1.10 ],\n\"a\": \"x \\\" y\\u0041 ü\" } ").unwrap();
    assert_eq!(json.as_str(), "{\"b\":[18446744073709551615,1.10],\"a\":\"x \\\" y\\u0041 ü\"}");
    assert_eq!(Json::of(&json).unwrap(), json);
}

#[test]
fn what_is_not_json_is_refused() {
    for text in ["", "{", "{\"a\":}", "1 2", "nul"] {
        assert!(Json::parse(text).is_err(), "{text:?}");
    }
}

#[test]
fn a_null_that_was_given_is_a_value() {
    let spec: crate::plan::spec::TaskSpec = serde_json::from_str(r#"{"config":null}"#).unwrap();
    assert_eq!((spec.config, spec.previous), (Some(Json::null()), None));
}
