//! The one list of scenarios. From it come [`ALL`] and [`suite!`](crate::suite), which makes every
//! scenario a test of a store:
//!
//! ```text
//! async fn make() -> MyHarness { … }
//! windlass_conformance::suite!(make);
//! ```

use crate::harness::Scenario;

/// `$d` is a dollar sign: what comes out is a macro itself.
macro_rules! scenarios {
    ($d:tt $($theme:ident::{ $($name:ident),* $(,)? })*) => {
        /// Every scenario: its theme, its name, and how to run it.
        pub const ALL: &[(&str, &str, Scenario)] = &[
            $($((stringify!($theme), stringify!($name), |h| Box::pin(crate::scenario::$theme::$name(h))),)*)*
        ];

        /// One test per scenario, and one for random sequences, each on a new store that the given
        /// `async fn() -> impl Harness` makes.
        #[macro_export]
        macro_rules! suite {
            ($d make:ident) => {
                $(
                    mod $theme {
                        $(
                            #[test]
                            fn $name() {
                                $crate::harness::run(super::$d make, |h| Box::pin($crate::scenario::$theme::$name(h)));
                            }
                        )*
                    }
                )*

                mod random {
                    #[test]
                    fn sequences_of_calls_agree_with_the_model() {
                        $crate::random::compare(super::$d make);
                    }
                }
            };
        }
    };
}

scenarios! { $
    work::{
        a_created_plan_is_read_back_as_it_was_given,
        an_answer_per_key_in_order,
        a_tally_follows_every_move,
        a_history_keeps_the_newest_events,
        ready_tasks_are_handed_out_in_order,
        nothing_is_ready_without_a_live_conductor,
        an_instance_without_a_lease_takes_nothing,
        a_named_task_is_taken_where_there_is_something_to_run,
        what_is_asked_to_start_is_handed_out_once,
        a_beat_tells_what_is_wanted_of_an_instances_tasks,
        a_tenants_latest_task_is_the_one_started_last,
        a_person_may_replace_a_checkpoint,
    }
    lock::{
        a_held_lock_is_refused_to_another_task,
        an_expired_lock_is_granted_with_a_higher_fence,
        a_renewed_lock_runs_from_now,
        a_batch_of_locks_is_judged_one_by_one,
        a_frozen_tenant_is_locked_to_everybody,
        a_forced_release_ends_a_lock,
        purged_locks_are_the_expired_ones,
    }
    fence::{
        a_boundary_is_one_commit_of_state_checkpoint_and_events,
        a_late_commit_of_this_task_is_refused,
        a_late_commit_of_an_older_task_of_the_tenant_is_refused,
        a_late_begin_under_an_older_fence_is_refused,
        a_late_renew_is_refused,
        a_late_release_is_refused,
        a_higher_fence_raises_the_tenants_and_a_lower_one_never_lowers_it,
        a_writer_that_owns_nothing_is_refused,
        an_owner_whose_lease_ran_out_may_write_until_somebody_takes_the_task,
        what_others_ask_never_refuses_the_owner,
    }
    compare::{
        a_plan_is_written_at_the_version_it_was_read_at,
        a_plan_moves_only_by_its_table,
        a_person_writes_a_task_at_the_version_it_was_read_at,
        a_person_does_not_write_a_task_with_a_live_owner,
        a_task_is_written_only_from_where_it_may_stand,
        a_checkpoint_follows_the_stored_version,
        a_checkpoint_carries_its_writers_fence,
        what_exists_is_not_created_again,
        what_does_not_exist_is_not_changed,
        what_a_task_is_made_of_does_not_change,
        a_step_that_is_wrong_in_itself_is_refused,
        a_step_is_whole_or_not_at_all,
        a_claimer_gives_back_only_what_it_has,
        an_ended_task_is_written_where_it_rests_and_leaves_by_the_table_only,
    }
    race::{
        one_of_sixteen_gets_the_lock,
        one_of_sixteen_takes_the_named_task,
        one_of_sixteen_creates_the_plan,
        sixteen_repeats_of_one_operation_are_done_once,
        one_of_sixteen_writes_the_plan_at_a_version,
        one_of_sixteen_writes_the_next_checkpoint,
        max_concurrency_holds_against_sixteen_rivals,
        fences_are_unique_and_grow,
        requests_and_boundaries_cross_without_a_loss,
        the_highest_of_sixteen_fences_stays,
    }
    repeat::{
        an_owners_write_is_done_once,
        an_owners_repeat_is_answered_before_it_is_judged,
        a_claimers_write_is_done_once,
        a_persons_write_is_done_once,
        a_persons_repeat_long_after_is_answered_as_before,
        a_repeated_take_and_beat_change_nothing,
        repeated_lock_calls_are_safe,
        a_forced_lock_is_done_once_under_its_operation,
    }
    restart::{
        every_kind_of_row_is_there_after_a_restart,
        an_attempt_goes_on_after_a_restart_of_the_store,
        fences_grow_over_restarts,
        fences_and_versions_hold_after_a_restart,
        leases_outlive_a_restart_and_still_end,
        what_was_purged_or_released_stays_away,
    }
    retention::{
        an_ended_plan_goes_with_everything_of_it,
        nothing_live_is_forgotten,
        a_retry_lifts_expiry,
        a_large_plan_goes_in_bounded_calls,
        old_operations_are_forgotten,
        old_instances_are_forgotten,
    }
    odd::{
        unicode_comes_back_as_it_was_given,
        ids_that_differ_in_case_only_are_different,
        ids_of_every_length_are_kept_apart,
        sixty_four_bit_numbers_are_exact,
        a_mebibyte_is_kept_whole,
        the_far_future_does_not_wrap,
        empty_things_are_things,
        a_batch_has_a_bound,
    }
    paging::{
        lists_have_an_order_that_pages_do_not_change,
        every_filter_lets_through_what_it_says,
        interrupted_tasks_are_those_whose_owners_lease_expired,
        a_record_that_is_there_all_along_is_listed_once,
        a_cursor_outlives_what_it_stands_on,
        the_last_page_has_no_next,
        bad_limits_and_cursors_are_refused,
        locked_tenants_are_listed_by_id,
    }
    wake::{
        a_change_before_the_call_is_not_lost,
        a_waiter_is_woken_by_new_work,
        a_waiter_is_woken_by_a_request,
        a_waiter_is_woken_by_a_free_slot,
        a_slot_that_nothing_waits_for_wakes_nobody,
        a_waiter_is_woken_by_a_lock_that_changed,
        every_waiter_is_woken,
        a_call_that_does_not_wait_answers_at_once,
    }
}
