//! The one list of scenarios of jobs. From it come [`ALL`] and [`job_suite!`](crate::job_suite), which makes every
//! scenario a test of a store, in a module `jobs`:
//!
//! ```text
//! async fn make() -> MyJobHarness { … }
//! windlass_conformance::job_suite!(make);
//! ```

use super::harness::Scenario;

/// `$d` is a dollar sign: what comes out is a macro itself.
macro_rules! scenarios {
    ($d:tt $($theme:ident::{ $($name:ident),* $(,)? })*) => {
        /// Every scenario: its theme, its name, and how to run it.
        pub const ALL: &[(&str, &str, Scenario)] = &[
            $($((stringify!($theme), stringify!($name), |h| Box::pin(crate::job::scenario::$theme::$name(h))),)*)*
        ];

        /// One test per scenario, and one for random sequences, each on a new store that the given `async fn() -> impl JobHarness` makes.
        #[macro_export]
        macro_rules! job_suite {
            ($d make:ident) => {
                mod jobs {
                    $(
                        mod $theme {
                            $(
                                #[test]
                                fn $name() {
                                    $crate::job::harness::run(
                                        super::super::$d make,
                                        |h| Box::pin($crate::job::scenario::$theme::$name(h)),
                                    );
                                }
                            )*
                        }
                    )*

                    mod random {
                        #[test]
                        fn sequences_of_calls_agree_with_the_model() {
                            $crate::job::random::compare(super::super::$d make);
                        }
                    }
                }
            };
        }
    };
}

scenarios! { $
    submit::{
        a_submitted_job_is_read_back_as_it_was_given,
        a_job_may_begin_at_its_time,
        a_group_is_whole_or_not_at_all,
        a_repeated_submission_is_the_same_job,
        a_key_is_one_job_as_long_as_it_is_stored,
        jobs_have_an_order_of_submission,
    }
    claim::{
        a_claim_returns_what_it_claimed,
        a_tenants_jobs_go_by_priority_time_and_submission,
        a_turn_says_everything_at_once,
        what_a_turn_settles_comes_before_what_it_claims,
        many_turns_are_answered_one_by_one,
        a_turn_says_when_something_comes,
        a_turn_has_bounds,
    }
    end::{
        a_completed_job_has_its_result,
        a_failed_job_has_its_error,
        a_failed_attempt_is_followed_by_the_next_after_its_pause,
        a_released_job_waits_again_at_once,
        a_repeated_settle_answers_where_it_stands,
        a_job_completed_after_all_has_no_error,
        what_comes_late_is_refused,
        what_was_never_delivered_is_not_settled,
        an_answer_beyond_its_bounds_is_refused,
        a_job_that_is_to_end_has_no_further_attempt,
    }
    lease::{
        a_job_whose_worker_is_gone_is_delivered_again,
        a_job_delivered_three_times_without_an_answer_is_lost,
        an_answer_after_the_lease_is_taken_until_somebody_has_the_job,
        a_heartbeat_keeps_the_job,
        an_attempt_that_takes_too_long_is_over,
        an_answer_after_the_timeout_is_taken_until_it_was_judged,
        what_is_delivered_again_comes_first,
        a_sweep_judges_what_will_not_be_delivered_again,
        a_requeued_job_has_all_its_attempts_and_deliveries,
    }
    person::{
        a_waiting_job_is_cancelled,
        a_running_job_is_asked_to_end,
        a_failed_job_is_requeued,
        many_are_asked_in_one_call,
        times_are_in_order_on_clocks_that_are_not,
    }
    fair::{
        many_jobs_of_one_tenant_do_not_starve_the_few_of_another,
        within_a_claim_everybody_has_one_before_anybody_has_two,
        over_claims_nobody_is_given_two_while_another_waits,
        a_tenant_that_comes_late_waits_for_one_round_at_most,
        a_tenant_at_its_limit_is_passed_over,
        queues_do_not_share_their_turns,
        what_is_delivered_again_takes_nobodys_turn,
    }
    limit::{
        rules_are_read_back_as_they_were_set,
        a_queue_runs_as_many_as_it_may,
        a_tenant_runs_as_many_as_it_may,
        a_tenant_that_its_limit_stopped_goes_on_when_one_ends,
        a_slot_is_kept_until_its_job_is_delivered_again_or_lost,
        a_full_queue_refuses,
        a_full_tenant_is_refused,
        nothing_held_is_delivered,
    }
    read::{
        lists_have_an_order_that_pages_do_not_change,
        every_filter_lets_through_what_it_says,
        a_job_that_stays_is_listed_once,
        bad_limits_cursors_and_batches_are_refused,
        a_queue_is_seen_as_it_is,
        queues_are_listed_by_name,
    }
    feed::{
        a_worker_is_woken_by_new_jobs,
        a_worker_is_woken_by_what_is_free_again,
        everybody_who_waits_is_woken,
        every_end_is_told,
        every_waiter_is_told_of_every_end,
        a_feed_says_what_it_has_forgotten,
        a_feed_begins_with_a_gap_or_with_everything,
        an_unknown_mark_is_answered_at_once,
        a_call_that_does_not_wait_answers_at_once,
    }
    keep::{
        everything_is_there_after_a_restart,
        work_goes_on_after_a_restart,
        a_purge_forgets_what_ended_before,
        a_requeued_job_is_not_purged,
        many_are_forgotten_in_batches,
    }
    race::{
        a_thousand_jobs_are_each_claimed_once,
        a_cancel_and_a_claim_have_one_winner,
        a_completion_and_the_end_of_a_lease_have_one_winner,
        a_lost_workers_jobs_are_delivered_again_once,
        one_of_sixteen_submissions_is_the_job,
        limits_on_what_runs_hold_against_sixteen_rivals,
        limits_on_what_waits_hold_against_sixteen_rivals,
    }
    odd::{
        a_mebibyte_is_kept_whole,
        a_job_beyond_its_bounds_is_refused,
        names_are_kept_apart,
        a_payload_comes_back_as_it_was_given,
        the_far_future_does_not_wrap,
    }
}
