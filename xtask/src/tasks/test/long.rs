//! Tests that take long and whose subject others look at too: `cargo xtask test --whole` has them,
//! and so has a run that is given a name to look for.

use std::ffi::OsString;

/// Their names, without modules, as each is alone of its name.
pub const TESTS: [&str; 84] = [
    "a_budget_that_is_used_up_is_named",
    "a_budget_that_is_used_up_is_told_as_long_as_the_program_had_no_cpu",
    "a_command_that_takes_long_is_named",
    "a_connection_that_is_not_accepted_is_named_with_its_address",
    "a_disk_behind_io_uring_is_named",
    "a_hostile_name_changes_nothing_but_a_string",
    "a_killed_tracer_leaves_nothing_in_the_kernel_and_the_target_can_be_traced_again",
    "a_log_that_changes_while_it_is_read_gives_its_own_events_or_none",
    "a_loop_that_does_not_wait_is_named",
    "a_name_server_is_named_with_the_name_that_is_asked_for",
    "a_process_that_its_user_holds_holds_no_tracer_up",
    "a_process_that_keeps_the_kernel_from_answering_holds_no_tracer_up",
    "a_process_that_runs_programs_for_ever_holds_no_tracer_up",
    "a_process_that_waits_for_work_does_not_hang",
    "a_signal_is_answered_whatever_a_target_writes_into_its_area",
    "a_slow_span_is_explained_in_the_words_of_why",
    "a_stop_is_named",
    "a_stopped_reader_counts_the_switches_that_the_kernel_could_not_record",
    "a_stripped_program_has_the_names_that_a_server_has",
    "a_switch_that_the_kernel_does_not_report_takes_no_context_away",
    "a_thousand_answers_are_the_same_twice_within_their_budgets_and_as_their_schemas_say",
    "a_user_gets_a_share_of_the_subscriptions_and_of_their_memory",
    "a_user_with_all_names_of_events_takes_no_name_of_others",
    "a_user_with_more_areas_than_are_read_takes_no_events_of_others",
    "an_inverted_priority_is_named_with_all_three_threads",
    "areas_of_programs_that_a_process_ran_before_are_given_up",
    "chains_of_many_areas_take_no_memory_of_others",
    "chunks_that_are_said_to_be_there_are_not_made",
    "code_that_comes_and_goes_has_its_names_without_root",
    "cpus_idle_as_long_as_the_kernel_says",
    "each_request_of_a_web_server_under_ddtrace_has_the_ids_that_it_exports",
    "each_view_shows_in_which_call_a_program_hangs",
    "every_interval_of_many_threads_has_its_cpu_and_the_thread_it_names",
    "files_whose_closing_waits_hold_no_other_client_up",
    "functions_of_a_stripped_program_are_those_of_its_twin",
    "functions_of_c_and_of_python_are_among_each_other_as_py_spy_shows_them",
    "functions_of_java_have_the_names_that_perf_gives_them",
    "functions_of_java_that_ends_first_have_the_names_of_its_list",
    "functions_of_node_have_the_names_that_perf_gives_them",
    "functions_of_python_have_the_names_that_it_writes_down_with_times",
    "functions_of_ruby_and_php_are_those_that_their_static_probes_name",
    "functions_that_node_writes_down_call_each_other_as_perf_says",
    "in_pid_namespaces_stacks_are_those_of_their_threads",
    "lines_of_a_stripped_program_are_those_that_go_says",
    "lua_has_the_functions_that_it_exports_and_others_have_no_name",
    "many_short_processes_are_named_with_their_names",
    "many_small_files_are_named_with_their_size",
    "no_answer_is_longer_than_its_budget_and_each_is_the_same_twice",
    "no_call_needs_an_allocator",
    "no_call_needs_any_one_allocation",
    "no_control_call_waits_for_who_runs_in_between",
    "of_a_longer_log_the_python_package_has_no_more_in_memory",
    "of_a_pipeline_the_command_is_named_that_the_others_wait_for",
    "of_a_thousand_requests_through_a_proxy_each_path_is_that_which_its_senders_tell",
    "of_more_threads_than_there_are_sums_the_rest_is_counted_and_said",
    "of_too_many_locks_the_rest_is_added_up",
    "of_twenty_real_programs_the_cause_that_was_put_in_is_first_and_none_alarms_without",
    "of_twenty_thousand_short_lived_processes_each_is_there_and_none_is_left",
    "page_faults_of_a_snapshot_are_named_as_copies",
    "page_faults_that_wait_for_a_disk_are_named",
    "rows_of_the_python_package_are_those_of_json_and_of_parquet",
    "sleeps_are_named_with_how_long_each_takes",
    "the_engine_finds_no_fault_in_traces_of_real_programs",
    "the_group_is_named_that_has_the_quota_and_not_one_within_it",
    "the_kernel_takes_every_program_that_copies_stacks",
    "the_kernel_takes_every_program_that_does_less",
    "the_kernel_takes_every_program_that_records_calls_as_they_end",
    "the_kernel_takes_every_program_with_rings_of_single_cpus",
    "the_python_package_needs_no_other_one_and_no_network",
    "the_recorder_answers_with_the_priority_of_the_thread_that_waits",
    "the_slack_of_timers_is_seen_in_how_long_a_sleep_takes",
    "threads_that_are_too_many_for_a_screen_share_rows_by_name",
    "threads_that_want_all_processors_keep_no_program_from_its_events",
    "threads_whose_handlers_jump_out_have_each_its_own_stacks",
    "two_hundred_thousand_events_a_second_beside_a_switching_neighbour_all_arrive_once",
    "valgrind_finds_no_race_but_what_the_library_s_file_names",
    "what_looks_alike_is_not_taken_for_it",
    "where_memory_is_refused_events_are_lost_and_no_process_is_ended",
    "where_no_cpu_is_idle_the_reader_has_its_share",
    "who_has_the_lock_of_an_areas_file_holds_no_tracer_up",
    "why_names_the_cause_of_each_late_callback_and_none_where_there_is_none",
    "windows_in_which_calls_are_recorded_without_root_have_all_of_them",
    "windows_of_one_user_take_no_mappings_and_memory_of_others",
    "windows_that_are_written_to_hold_no_tracer_up",
];

/// Returns the arguments that make libtest leave them out.
pub fn left_out() -> impl Iterator<Item = OsString> {
    TESTS
        .iter()
        .flat_map(|name| ["--skip", name].map(OsString::from))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::workspace;

    /// Returns the text of all sources of tests below a folder.
    fn sources(folder: &Path) -> String {
        let entries = fs::read_dir(folder).unwrap();
        let texts = entries.map(|entry| {
            let path = entry.unwrap().path();
            match path.extension() {
                _ if path.is_dir() => sources(&path),
                Some(extension) if extension == "rs" => fs::read_to_string(&path).unwrap(),
                _ => String::new(),
            }
        });
        texts.collect()
    }

    #[test]
    fn each_is_the_name_of_one_test_and_in_the_list_for_readers() {
        let folders = ["tests/tests", "tracer-user"];
        let tests = folders.map(|folder| sources(&workspace::root().join(folder)));
        let tests = tests.concat();
        // A case in C has its name alone on a line of a table.
        let names: Vec<&str> = tests
            .lines()
            .map(|line| line.trim().trim_end_matches(','))
            .map(|line| line.strip_prefix("fn ").unwrap_or(line))
            .map(|line| line.strip_suffix("() {").unwrap_or(line))
            .collect();
        let list = fs::read_to_string(workspace::root().join("tests/README.md")).unwrap();
        for name in TESTS {
            let count = names.iter().filter(|there| **there == name).count();
            assert_eq!(count, 1, "{name}");
            assert!(list.contains(&format!("`{name}`")), "{name}");
        }
    }
}
