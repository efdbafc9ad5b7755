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

#[test]
fn a_job_id_is_a_uuid_of_version_4_in_its_usual_form() {
    let good = "550e8400-e29b-41d4-a716-446655440000";
    let id: JobId = good.parse().unwrap();
    assert_eq!((id.to_string().as_str(), JobId::of_bytes(*id.bytes())), (good, Some(id)));
    assert_eq!(JobId::random(7).to_string().parse(), Ok(JobId::random(7)));
    let bad = [
        ("version 1", "550e8400-e29b-11d4-a716-446655440000"),
        ("version 7", "01890a5d-ac96-774b-bcce-b302099a8057"),
        ("version 0", "00000000-0000-0000-0000-000000000000"),
        ("another variant", "550e8400-e29b-41d4-c716-446655440000"),
        ("upper case", "550E8400-E29B-41D4-A716-446655440000"),
        ("without hyphens", "550e8400e29b41d4a716446655440000"),
        ("braces", "{550e8400-e29b-41d4-a716-446655440000}"),
        ("a URN", "urn:uuid:550e8400-e29b-41d4-a716-446655440000"),
        ("one too short", "550e8400-e29b-41d4-a716-44665544000"),
        ("nothing", ""),
    ];
    for (what, text) in bad {
        let refused = text.parse::<JobId>().unwrap_err().to_string();
        assert!(refused.contains(text) && refused.contains("version 4"), "{what}: {refused}");
        assert!(serde_json::from_value::<JobId>(text.into()).is_err(), "{what}");
    }
    let bytes = |text: &str| *uuid::Uuid::try_parse(text).unwrap().as_bytes();
    assert!(bad[..4].iter().all(|(_, text)| JobId::of_bytes(bytes(text)).is_none()));
}
