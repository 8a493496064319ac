//! Clauses of the standard, case by case: C programs that know nothing of how the library is made.
//! `docs/conformance.md` lists the clauses that each case shows.

use std::path::Path;
use std::sync::{PoisonError, RwLock};

use tests::standard;

/// One test for each case of each program, and one that no case is forgotten here.
macro_rules! cases {
    ($($program:ident { $($(#[$attribute:meta])* $case:ident)* })*) => {$(
        mod $program {
            $(
                #[test]
                $(#[$attribute])*
                fn $case() {
                    super::check(stringify!($program), stringify!($case));
                }
            )*

            #[test]
            fn every_case_of_the_program_is_run() {
                super::lists(stringify!($program), &[$(stringify!($case)),*]);
            }
        }
    )*};
}

/// Returns the folder in which the programs are made.
fn folder() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
}

/// Cases that make as many streams as the whole system may have: meanwhile no other case can have
/// one.
const EXCLUSIVE: [&str; 11] = [
    "controllers_that_are_killed_at_any_moment_take_no_streams_with_them",
    "logs_that_are_read_do_not_count",
    "no_more_streams_than_the_limit_can_be_made",
    "streams_of_other_processes_count",
    "the_streams_of_a_controller_that_execs_end",
    "the_streams_of_a_controller_that_exits_end",
    "the_streams_of_a_controller_that_exits_without_cleaning_up_end",
    "the_streams_of_a_controller_that_is_killed_end",
    "the_streams_of_a_controller_that_runs_another_program_end",
    "the_streams_of_a_controller_whose_end_its_parent_has_not_asked_for_end",
    "the_streams_of_a_process_that_was_killed_do_not_count",
];

/// Locked for writing by exclusive cases, for reading by the others.
static STREAMS: RwLock<()> = RwLock::new(());

fn check(program: &str, case: &str) {
    let is_exclusive = EXCLUSIVE.contains(&case);
    // Another case's failure is no failure of this one.
    let _exclusive = is_exclusive.then(|| STREAMS.write().unwrap_or_else(PoisonError::into_inner));
    let _shared = (!is_exclusive).then(|| STREAMS.read().unwrap_or_else(PoisonError::into_inner));
    if let Err(error) = standard::check(folder(), program, case) {
        panic!("{error:#}");
    }
}

fn lists(program: &str, expected: &[&str]) {
    match standard::cases(folder(), program) {
        Ok(cases) => assert_eq!(cases, expected),
        Err(error) => panic!("{error:#}"),
    }
}

cases! {
    attributes {
        a_new_object_has_the_defaults
        the_version_fits_its_array
        the_clock_resolution_is_that_of_the_realtime_clock
        a_name_comes_back
        a_name_that_is_too_long_is_truncated
        inheritance_takes_its_two_values_and_no_other
        the_stream_policy_takes_its_three_values_and_no_other
        the_log_policy_takes_its_three_values_and_no_other
        a_size_that_was_set_is_the_size_that_is_got
        what_is_accepted_as_the_most_data_a_stream_can_be_made_with
        the_size_of_a_user_event_grows_with_its_data_up_to_what_is_recorded
        the_size_of_a_system_event_includes_the_filter_event
        the_size_of_a_system_event_includes_those_of_the_kernel_where_they_are_asked_for
        a_destroyed_object_is_refused_until_it_is_initialised_again
        null_pointers_are_refused
        a_stream_has_a_copy_of_its_attributes
        an_object_that_was_never_initialised_takes_the_attributes_of_a_stream
        no_attributes_are_the_defaults
        a_tiny_stream_is_made_large_enough_and_says_so
        a_looping_stream_holds_every_set_of_events_that_fits
        a_stream_until_full_holds_every_set_of_events_that_fits
        attributes_of_no_stream_are_refused
    }
    states {
        a_new_stream_is_suspended_and_empty
        the_log_members_of_a_stream_without_log_say_that_nothing_is_the_matter
        start_records_a_start_event_with_the_filter_in_force
        starting_a_running_stream_records_nothing
        stop_records_a_stop_event_and_nothing_is_recorded_after_it
        stopping_a_suspended_stream_records_nothing
        a_stream_starts_again_after_it_was_stopped
        starting_a_full_stream_until_full_changes_nothing
        stopping_a_stream_that_stopped_itself_cancels_its_restart
        a_stream_that_stopped_itself_and_has_space_again_can_be_started
        a_full_looping_stream_is_stopped_and_started_without_events
        clear_drops_the_events_and_keeps_a_running_stream_running
        clear_keeps_a_suspended_stream_suspended
        clear_empties_the_filter_and_keeps_names_and_creation_time
        clear_of_a_full_looping_stream_resets_full_and_overrun
        clear_of_a_stream_that_stopped_itself_leaves_it_suspended
        a_stream_that_was_shut_down_is_no_more
        a_stale_identifier_is_recognised
        what_is_no_active_stream_is_refused
        control_events_show_who_called
        control_events_show_the_address_of_the_call
        what_a_stream_does_by_itself_is_the_doing_of_no_process
        several_streams_of_one_process_are_independent
        an_event_that_is_not_traced_has_no_effect
    }
    confined {
        a_program_that_may_not_make_a_call_is_traced_or_told_that_it_is_not
        a_program_that_may_not_advise_the_kernel_of_its_memory_is_traced
    }
    contiguity {
        whatever_its_size_a_stream_until_full_keeps_a_prefix_and_stops
        whatever_its_size_a_full_stream_says_so
        a_thread_that_waits_for_an_event_gets_the_stop_of_a_full_stream
        a_stream_that_is_full_for_one_is_full_for_all
        a_looping_stream_keeps_a_suffix_of_what_all_emit
    }
    policies {
        a_looping_stream_keeps_the_newest_events
        a_full_looping_stream_is_not_full_once_an_event_was_read
        what_was_overwritten_is_marked_in_the_sequence
        without_a_loss_nothing_is_marked
        overrun_is_reported_once_and_the_other_members_stay
        attributes_and_names_survive_an_overrun
        a_stream_until_full_keeps_the_oldest_events_and_stops
        an_event_that_comes_while_the_stream_is_full_sets_overrun
        a_stream_until_full_restarts_once_it_was_read_empty
        a_stream_that_was_stopped_by_a_call_does_not_restart_when_it_is_read_empty
        a_stream_until_full_marks_losses_by_stop_and_start_alone
        a_stream_without_log_cannot_have_the_flush_policy
        overflow_and_resume_obey_the_filter
        start_and_stop_obey_the_filter_and_work_all_the_same
        a_stream_until_full_with_stop_filtered_restarts_when_empty
    }
    reading {
        events_come_oldest_first_and_once
        an_event_shows_process_thread_and_time
        an_event_shows_the_address_of_its_trace_point
        data_that_fits_is_reported_whole
        data_that_does_not_fit_is_truncated_and_says_so
        no_buffer_is_good_for_events_of_whatever_length
        data_beyond_the_most_is_truncated_when_it_is_recorded
        data_of_whatever_length_is_truncated_and_no_more_of_it_is_read
        the_most_data_of_user_events_does_not_truncate_system_events
        no_data_with_a_length_records_no_data
        the_largest_data_that_an_attribute_can_promise_comes_back
        trying_never_waits_whatever_the_state
        getnext_reports_what_is_there_without_waiting
        getnext_waits_for_an_event
        getnext_waits_on_a_suspended_stream_until_it_is_started
        a_time_that_is_past_ends_the_waiting_at_once
        waiting_ends_at_its_time_and_not_before
        an_event_that_is_there_is_reported_whatever_the_time
        a_time_that_is_none_is_refused_when_there_is_no_event
        timedgetnext_waits_for_an_event
        a_signal_ends_the_waiting_of_getnext
        a_signal_ends_the_waiting_of_timedgetnext
        each_signal_ends_the_waiting_whenever_it_comes
        a_handler_ends_the_waiting_also_where_calls_are_to_be_begun_again
        trying_is_not_interrupted_whatever_a_handler_asks_for
        shutdown_ends_the_waiting_of_getnext
        shutdown_ends_the_waiting_of_timedgetnext
        a_waiting_reader_goes_on_waiting_when_the_stream_is_cleared
        reading_from_no_stream_is_refused
        unavailable_is_set_exactly_when_there_is_no_event
    }
    types {
        equal_names_have_equal_types_and_others_have_others
        a_name_that_was_opened_before_any_stream_is_known_to_later_ones
        a_name_may_be_as_long_as_the_limit_and_no_longer
        the_empty_name_is_a_name
        names_are_bytes
        a_predefined_name_yields_the_predefined_type
        when_all_types_are_used_up_new_names_are_the_unnamed_one
        a_name_that_the_controller_defines_is_the_targets_too
        types_of_no_stream_are_refused
        null_pointers_to_names_and_types_are_refused
        predefined_types_have_the_names_of_the_standard
        the_systems_own_types_have_names_of_their_own
        identifiers_are_compared
        the_list_has_the_predefined_types_and_then_the_users_in_order
        a_type_that_is_defined_meanwhile_comes_at_the_lists_end
        each_stream_has_its_position_in_the_list_and_goes_back_by_itself
        a_program_does_not_forge_system_events
        the_unnamed_type_is_recorded_like_any_other
    }
    sets {
        an_empty_set_has_no_types
        what_is_no_type_is_refused_and_every_type_is_not
        types_are_put_in_and_taken_out_as_often_as_one_likes
        a_set_is_assigned_by_value
        types_without_a_process_are_those_that_the_system_reports_by_itself
        system_types_are_all_but_the_users
        all_types_are_also_those_that_are_defined_later
        filling_drops_what_was_there
        wrong_arguments_of_sets_are_refused
        a_filter_is_set_added_to_and_taken_from
        a_type_in_the_filter_is_not_recorded_and_no_loss
        a_change_of_the_filter_takes_effect_at_once
        the_filters_of_two_streams_are_independent
        a_change_while_the_stream_runs_is_recorded_with_both_filters
        a_change_while_the_stream_is_suspended_is_not_recorded
        a_change_is_recorded_unless_the_old_filter_holds_the_filter_event
        wrong_arguments_of_filters_are_refused_and_change_nothing
    }
    threads {
        the_events_of_threads_that_have_ended_are_all_there
        many_threads_that_begin_at_once_lose_nothing
        many_short_threads_one_after_the_other_lose_nothing
        the_events_of_a_thread_that_was_cancelled_are_all_there
        a_reader_that_was_cancelled_leaves_the_stream_to_others
        the_clean_up_handlers_of_a_reader_run_with_its_own_signal_mask
        a_thread_is_not_cancelled_where_the_standard_forbids_it
        many_threads_read_one_stream_and_each_event_comes_once
        streams_are_made_used_and_ended_by_many_threads_at_once
        a_handler_that_interrupts_an_event_emits_its_own
        a_handler_emits_whatever_trace_function_it_interrupts
        a_handler_may_interrupt_a_threads_first_event
        a_thread_that_prepares_itself_again_and_again_loses_nothing
    }
    children {
        an_inherited_stream_traces_a_forked_child_at_once
        an_inherited_stream_traces_grandchildren
        a_stream_closed_for_children_traces_the_parent_alone
        a_child_has_its_parents_names
        a_child_that_is_not_traced_keeps_its_parents_identifiers
        a_child_has_no_part_in_its_parents_streams
        a_child_waits_at_no_pipe_of_its_parent
        a_child_that_has_a_stream_of_its_own_has_no_part_in_its_parents_either
        a_child_that_ends_leaves_its_parents_streams_alone
        a_child_made_while_other_threads_use_streams_can_make_its_own
        an_inherited_stream_traces_a_child_over_exec
        a_stream_closed_for_children_does_not_trace_them_over_exec
        an_inherited_stream_traces_a_vforked_child_over_exec
        an_inherited_stream_traces_a_spawned_child
        an_inherited_stream_with_a_log_traces_a_spawned_child_of_a_silent_process
        an_inherited_stream_traces_a_spawned_child_of_another_silent_process
        a_stream_closed_for_children_does_not_trace_those_of_another_silent_process
        a_stream_closed_for_children_does_not_trace_spawned_ones
        a_traced_process_stays_traced_over_its_own_exec
    }
    processes {
        another_process_is_traced
        what_a_process_recorded_can_be_read_after_its_end
        a_process_without_the_library_is_traced_without_events_of_its_own
        a_program_that_was_started_just_now_is_traced_from_its_first_event_on
        a_process_that_is_not_there_cannot_be_traced
        a_zombie_is_a_process
        zero_and_ones_own_pid_are_the_same_process
        no_more_streams_than_the_limit_can_be_made
        streams_of_other_processes_count
        the_streams_of_a_process_that_was_killed_do_not_count
        the_streams_of_a_controller_that_exits_end
        the_streams_of_a_controller_that_exits_without_cleaning_up_end
        the_streams_of_a_controller_that_is_killed_end
        controllers_that_are_killed_at_any_moment_take_no_streams_with_them
        the_streams_of_a_controller_that_execs_end
        the_streams_of_a_controller_that_runs_another_program_end
        the_streams_of_a_controller_whose_end_its_parent_has_not_asked_for_end
        a_stream_that_is_too_large_for_memory_cannot_be_made
        #[ignore = "needs root"]
        another_users_process_cannot_be_traced
        #[ignore = "needs root"]
        a_process_that_gave_up_its_rights_traces_itself
    }
    gaps {
        three_threads_leave_no_gap_without_a_mark_in_a_looping_stream
        sixteen_threads_leave_no_gap_without_a_mark_in_a_looping_stream
        three_threads_leave_no_gap_but_between_stop_and_start
        sixteen_threads_leave_no_gap_but_between_stop_and_start
        three_threads_leave_no_gap_without_a_mark_in_a_log
        sixteen_threads_leave_no_gap_without_a_mark_in_a_log
    }
    handlers {
        a_thread_that_ends_in_a_handler_amid_an_emission_ends_and_tracing_goes_on
        a_thread_that_jumps_out_of_emissions_goes_on_recording
        a_thread_that_jumps_out_of_emissions_leaves_the_stream_as_it_was
        a_child_that_a_handler_makes_amid_an_emission_leaves_that_of_its_parent_alone
        a_child_that_a_handler_makes_amid_an_emission_emits_its_own
    }
    load {
        a_program_that_closes_all_descriptors_traces_itself
        a_file_limit_below_the_area_s_size_is_no_signal
        a_program_that_may_have_five_descriptors_traces_itself
        ten_thousand_short_threads_lose_nothing_in_a_stream_that_holds_all
        threads_that_emit_to_their_very_end_leave_nothing_behind
        a_thousand_streams_of_all_sizes_in_turn_the_last_records_as_the_first
        streams_each_larger_than_the_one_before_leave_memory_for_others
        what_was_emitted_before_a_stop_is_recorded_with_sixteen_busy_threads
        children_that_are_killed_amid_emissions_cost_no_other_an_event
    }
    families {
        processes_that_end_anyhow_leave_no_memory_behind
        processes_that_end_in_order_leave_no_memory_behind_unread
        programs_that_follow_each_other_in_a_process_leave_no_memory_behind
        processes_that_are_killed_while_they_emit_leave_the_stream_as_it_was
        processes_that_live_keep_their_chunks_when_others_end_beside_them
        processes_of_another_pid_namespace_keep_their_chunks_when_others_end_beside_them
    }
    memory {
        one_thread_fills_a_stream_of_64_mib
        thirty_two_threads_fill_a_stream_of_64_mib
        a_thousand_threads_fill_a_stream_of_64_mib
    }
    limits {
        siblings_that_make_and_end_streams_at_once_lose_nothing
        a_stream_goes_on_though_others_have_no_descriptors_to_look_at_its_controller
        #[ignore = "needs root"]
        a_stream_goes_on_though_its_controller_is_hidden_from_others
        a_thread_is_no_process
        a_program_that_closes_whatever_is_open_keeps_what_it_opens_then
        a_child_forked_while_other_threads_make_streams_can_make_its_own
        a_process_that_may_only_read_and_write_is_not_disturbed
        a_looping_stream_can_be_read_while_other_processes_emit_without_a_pause
    }
    names {
        every_process_may_have_as_many_types_whatever_its_family_has
        a_program_that_is_run_begins_without_the_types_of_the_one_before
        names_that_all_children_open_take_no_more_memory_than_those_of_one
        each_event_of_a_thousand_children_has_its_own_name
        each_event_of_a_thousand_children_has_its_own_name_in_a_log
        types_that_no_set_has_space_for_are_filtered_with_the_unnamed_one
        the_types_of_a_child_that_is_traced_have_its_identifiers
        types_are_one_to_one_in_all_processes_that_a_stream_traces
        streams_of_one_process_know_its_types_by_the_same_identifiers
        names_that_threads_and_processes_open_at_once_are_one_type
        a_handler_opens_the_name_that_it_interrupts_the_opening_of
    }
    allocations {
        no_call_needs_any_one_allocation
        no_call_needs_an_allocator
        no_call_but_those_that_make_a_stream_needs_more_memory
    }
    stack {
        no_call_takes_more_than_eight_kilobytes_of_stack
        each_call_works_in_a_thread_of_the_least_stack
    }
    silence {
        no_call_prints_why_it_fails
        the_reason_is_printed_to_who_asks_for_it
    }
    no_memory {
        without_memory_a_call_says_so
        without_memory_nothing_that_was_recorded_is_lost
        without_memory_all_that_a_full_stream_holds_is_read
        without_memory_for_the_threads_that_came_later_a_stream_is_stopped
    }
    logs {
        a_stream_with_a_log_is_flushed_where_nothing_else_is_said
        a_new_stream_with_a_log_is_suspended_and_nothing_is_the_matter
        a_descriptor_that_is_not_open_for_writing_is_refused
        a_descriptor_that_was_closed_is_refused_whatever_reuses_it
        a_descriptor_that_takes_whole_blocks_only_is_refused
        a_log_is_a_regular_file
        a_log_that_holds_no_event_is_refused
        an_invalid_target_or_attributes_are_refused_as_without_a_log
        a_completed_log_has_everything_in_order
        a_log_knows_the_attributes_of_its_stream
        a_log_knows_its_types_and_their_names
        the_status_of_a_log_is_that_of_the_end_and_stays
        reading_takes_nothing_out_of_a_log
        a_small_buffer_does_not_change_what_was_recorded
        a_log_takes_the_file_from_its_beginning_and_leaves_the_descriptor_alone
        a_descriptor_that_appends_is_refused
        what_is_for_logs_is_refused_for_active_streams
        what_is_for_active_streams_is_refused_for_logs
        a_stream_with_a_log_is_read_without_taking_anything_away
        any_process_may_open_a_log
        logs_that_are_read_do_not_count
        a_process_has_so_many_logs_as_it_has_descriptors_for
        what_is_no_log_is_not_opened
        a_closed_log_is_no_more
    }
    log_policies {
        a_looping_log_keeps_the_newest_events
        a_log_until_full_keeps_the_oldest_and_ends_with_a_stop
        what_is_emitted_once_the_log_is_full_is_no_overrun_of_the_stream
        an_appending_log_has_no_limit
        clearing_a_stream_begins_its_log_anew
        a_log_that_was_truncated_gives_what_is_whole
    }
    flushes {
        a_flushed_stream_records_more_than_it_holds
        a_flush_is_done_when_it_returns
        a_flush_of_a_running_stream_is_recorded
        a_flush_of_a_suspended_stream_is_not_recorded
        a_flush_that_is_filtered_out_is_not_recorded
        a_flush_frees_the_space_of_a_full_stream
        flushes_at_the_same_time_wait_for_each_other
        a_status_during_a_flush_says_so_at_once
        a_log_beyond_the_largest_file_is_an_error_and_no_signal
        #[ignore = "needs root"]
        a_device_without_space_for_the_log_is_reported_at_once
        #[ignore = "needs root"]
        a_full_device_is_an_error_of_the_flush
    }
    log_writers {
        a_log_has_one_writer_and_one_that_was_killed_keeps_no_other_out
        a_controller_that_exits_leaves_a_complete_log
        a_controller_that_is_killed_leaves_a_complete_log
        a_controller_that_execs_leaves_a_complete_log
        the_program_does_not_notice_who_records_for_it
    }
    recorder {
        a_log_costs_a_large_program_neither_a_copy_nor_its_fork_handlers
        a_recorder_has_nothing_of_its_controller_but_the_log
        where_no_program_may_be_started_a_fork_records
        a_program_with_closed_standard_descriptors_has_a_log
        a_program_with_few_descriptors_has_a_log_or_an_error
        #[ignore = "needs root"]
        a_program_in_another_root_has_a_log
        a_log_needs_no_fork_and_no_file
        a_recorder_without_memory_completes_its_log
    }
    recorder_rights {
        #[ignore = "needs root"]
        a_recorder_has_the_rights_of_its_controller_and_no_others
        a_recorder_has_the_rights_that_its_program_was_started_with
    }
    recorder_stopped {
        a_recorder_that_is_stopped_holds_no_caller_up_and_nothing_is_lost
        a_thread_that_waits_for_the_recorder_holds_no_other_up
        what_is_lost_while_the_recorder_does_not_answer_is_reported_once
        a_recorder_that_is_killed_lets_those_go_that_wait_for_it
    }
}
