use super::*;

#[test]
fn sixty_four_characters_of_the_alphabet_are_an_id_and_one_more_is_not() {
    let longest = "aZ09_-".repeat(11)[..64].to_owned();
    assert_eq!(longest.parse::<TaskId>().unwrap().as_str(), longest);
    assert_eq!(format!("{longest}x").parse::<TaskId>(), Err(BadId::TooLong(65)));
}

#[test]
fn what_is_outside_the_alphabet_is_named_with_its_place() {
    for (text, found, at) in [("a b", ' ', 2), ("ä", 'ä', 1), ("a/b", '/', 2), ("x:", ':', 2), ("n\0", '\0', 2)] {
        assert_eq!(text.parse::<TenantId>(), Err(BadId::BadChar { found, at }), "{text:?}");
    }
    assert_eq!("".parse::<PlanId>(), Err(BadId::Empty));
}

#[test]
fn ids_that_differ_in_case_only_are_two_ids() {
    assert_ne!("Acme".parse::<TenantId>().unwrap(), "acme".parse::<TenantId>().unwrap());
}

#[test]
fn decoding_checks_too() {
    let error = serde_json::from_str::<PlanId>("\"no spaces\"").unwrap_err().to_string();
    assert!(error.contains("position 3"), "{error}");
    assert!(serde_json::from_str::<PlanId>("7").is_err());
}

#[test]
fn made_identifiers_are_identifiers_and_stay_apart() {
    let long = "p".repeat(64);
    let plan = |text: &str| text.parse::<PlanId>().unwrap();
    let made = [
        OpId::of(&long.parse().unwrap(), u64::MAX).as_str().to_owned(),
        PlanId::of(&long.parse().unwrap(), u32::MAX).as_str().to_owned(),
        TaskId::of(&plan(&long), u32::MAX).as_str().to_owned(),
        TaskId::of(&plan("blue"), 7).as_str().to_owned(),
    ];
    for id in &made {
        assert!(id.parse::<TaskId>().is_ok(), "{id}");
    }
    assert_eq!(made[3], "blue-7");
    let other = format!("{}q", "p".repeat(63));
    assert_ne!(TaskId::of(&plan(&long), 1), TaskId::of(&plan(&other), 1));
}
