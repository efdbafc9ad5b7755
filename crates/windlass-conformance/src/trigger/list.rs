//! The one list of scenarios of triggers. From it come [`ALL`] and [`trigger_suite!`](crate::trigger_suite), which makes
//! every scenario a test of a store, in a module `triggers`:
//!
//! ```text
//! async fn make() -> MyTriggerHarness { … }
//! windlass_conformance::trigger_suite!(make);
//! ```

use super::harness::Scenario;

/// `$d` is a dollar sign: what comes out is a macro itself.
macro_rules! scenarios {
    ($d:tt $($theme:ident::{ $($name:ident),* $(,)? })*) => {
        /// Every scenario: its theme, its name, and how to run it.
        pub const ALL: &[(&str, &str, Scenario)] = &[
            $($((stringify!($theme), stringify!($name), |h| Box::pin(crate::trigger::scenario::$theme::$name(h))),)*)*
        ];

        /// One test per scenario, and one for random sequences, each on a new store that the given
        /// `async fn() -> impl TriggerHarness` makes.
        #[macro_export]
        macro_rules! trigger_suite {
            ($d make:ident) => {
                mod triggers {
                    $(
                        mod $theme {
                            $(
                                #[test]
                                fn $name() {
                                    $crate::trigger::harness::run(
                                        super::super::$d make,
                                        |h| Box::pin($crate::trigger::scenario::$theme::$name(h)),
                                    );
                                }
                            )*
                        }
                    )*

                    mod random {
                        #[test]
                        fn sequences_of_calls_agree_with_the_model() {
                            $crate::trigger::random::compare(super::super::$d make);
                        }
                    }
                }
            };
        }
    };
}

scenarios! { $
    save::{
        a_saved_trigger_is_read_back_as_it_was_given,
        a_save_is_judged_by_its_version,
        saves_of_one_call_are_judged_one_by_one,
        nobody_writes_under_an_owner_but_a_pause,
        what_is_taken_from_a_lost_owner_is_not_settled_by_it,
        what_is_beyond_its_bounds_is_refused,
        a_removed_trigger_is_gone_with_its_notes,
    }
    claim::{
        what_is_due_is_claimed_in_order,
        a_claim_returns_what_it_claimed,
        nothing_is_claimed_before_its_time,
        what_is_paused_held_or_ended_is_not_claimed,
        a_lost_owners_occurrence_is_claimed_again,
        a_renewed_claim_lasts,
        a_claim_says_when_the_next_one_is,
        what_would_be_claimed_is_read_without_claiming,
        a_claim_has_bounds,
        a_scheduler_lives_as_long_as_leases_follow_each_other,
        two_schedulers_are_one_life,
    }
    settle::{
        what_fired_goes_on_or_ends,
        what_failed_comes_again_at_its_time,
        a_settle_keeps_what_people_say,
        a_repeated_settle_is_answered_as_before,
        a_repeated_first_write_changes_nothing,
        what_comes_late_is_refused,
        a_child_is_written_with_its_parents_step,
        a_child_that_is_there_stays_as_it_is,
        settles_of_one_call_are_taken_in_order,
    }
    read::{
        triggers_are_listed_by_id,
        every_filter_lets_through_what_it_says,
        what_waits_for_a_person_is_listed,
        bad_limits_cursors_and_batches_are_refused,
        notes_are_the_newest,
    }
    keep::{
        everything_is_there_after_a_restart,
        work_goes_on_after_a_restart,
        a_purge_forgets_what_ended_before,
        many_are_forgotten_in_batches,
    }
    wake::{
        a_scheduler_is_woken_by_a_save,
        everybody_who_waits_is_woken,
        a_call_that_does_not_wait_answers_at_once,
    }
    race::{
        a_thousand_due_triggers_are_each_claimed_once,
        a_fire_and_a_timer_and_a_removal_have_one_winner,
        a_settle_and_the_end_of_a_lease_have_one_winner,
        one_of_sixteen_saves_is_the_trigger,
        a_pause_and_a_settle_are_both_kept,
    }
    odd::{
        a_mebibyte_is_kept_through_its_occurrences,
        names_are_kept_apart,
        the_far_future_does_not_wrap,
        many_at_one_moment_are_claimed_in_pieces,
    }
}
