//! Whatever the text is, the answer is a plan or a problem that stands in the text.

use proptest::prelude::*;

use super::super::place::Lines;
use super::generate::{plan, written};
use super::{Format, JSON, Problems, TOML, YAML, good, parse};

const FORMATS: [Format; 3] = [Format::Yaml, Format::Toml, Format::Json];

/// Every problem has words, a code and a place: a character of the text, or the one after its last.
fn check_places(text: &str, problems: &Problems) {
    let lines: Vec<&str> = text.split('\n').collect();
    assert!(problems.iter().count() > 0);
    for problem in problems {
        assert!(!problem.message.is_empty() && !problem.help.is_empty(), "{problem}");
        assert!((1..=lines.len()).contains(&(problem.line as usize)), "{problem} in {text:?}");
        let chars = lines[problem.line as usize - 1].chars().count();
        assert!((1..=chars + 1).contains(&(problem.column as usize)), "{problem} in {text:?}");
        assert!(problem.pointer.is_empty() || problem.pointer.starts_with('/'));
    }
}

fn check(text: &str) {
    for format in FORMATS {
        if let Err(problems) = parse(text, format) {
            check_places(text, &problems);
        }
    }
}

proptest! {
    #[test]
    fn any_text_is_answered(text in any::<String>()) {
        check(&text);
    }

    #[test]
    fn any_text_in_the_formats_own_alphabet_is_answered(text in "[a-c0-9 \n\t:,{}\\[\\]\"'#&*!|>?%@`=.~<\\\\/é好-]{0,80}") {
        check(&text);
    }

    #[test]
    fn a_plan_with_a_piece_cut_out_and_another_put_in_is_answered(
        from in 0usize..2_000,
        length in 0usize..40,
        piece in "[a-z0-9 \n\t:,{}\\[\\]\"'#&*!=-]{0,8}",
    ) {
        for (text, format) in [(YAML, Format::Yaml), (TOML, Format::Toml), (JSON, Format::Json)] {
            let chars: Vec<char> = text.chars().collect();
            let from = from.min(chars.len());
            let to = (from + length).min(chars.len());
            let text: String = chars[..from].iter().copied().chain(piece.chars()).chain(chars[to..].iter().copied()).collect();
            if let Err(problems) = parse(&text, format) {
                check_places(&text, &problems);
            }
        }
    }

    #[test]
    fn places_are_those_that_counting_from_the_start_gives(text in "[a\né好😀]{0,300}") {
        let lines = Lines::new(&text);
        for (index, (at, _)) in text.char_indices().enumerate() {
            let line = text[..at].matches('\n').count() + 1;
            let column = text[..at].chars().rev().take_while(|c| *c != '\n').count() + 1;
            let place = lines.place(at);
            prop_assert_eq!((place.line as usize, place.column as usize), (line, column));
            prop_assert_eq!(lines.place_of_char(index), place);
        }
    }

    #[test]
    fn a_plan_written_as_json_reads_back_in_json_and_in_yaml(plan in plan()) {
        let text = serde_json::to_string_pretty(&written(&plan)).unwrap();
        prop_assert_eq!(&good(&text, Format::Json), &plan);
        prop_assert_eq!(&good(&text, Format::Yaml), &plan);
    }
}
