"""Which behaviours of a classic session are tested over Spark Connect too, and which cannot be.

The tests are those below ``tests/spark``, run in a process whose session is a Connect client (see
``session``). The default run takes a few of each file; with the large budgets all of every file run.
"""

from __future__ import annotations

# By file: the tests that the default run takes; none where the file is left to the large budgets.
BEHAVIOURS: dict[str, tuple[str, ...]] = {
    "test_alter.py": ("test_columns_are_renamed_and_dropped_under_column_mapping",),
    "test_alter_scenarios.py": (),
    "test_auto_compaction.py": ("test_enough_small_files_in_a_partition_become_one",),
    "test_bad_input.py": ("test_a_path_that_is_not_a_table", "test_values_of_options_that_make_no_sense"),
    "test_builder.py": ("test_a_table_by_name_is_made_found_and_replaced",),
    "test_catalog_tables.py": (
        "test_a_managed_table_is_seen_everywhere_a_name_can_stand",
        "test_every_query_sees_the_newest_version_and_one_alone",
    ),
    "test_clone.py": ("test_both_tables_go_their_own_ways",),
    "test_column_name_scenarios.py": (),
    "test_column_scenarios.py": (),
    "test_constraint_scenarios.py": (),
    "test_constraints.py": ("test_a_constraint_that_does_not_parse_is_named_before_any_job",),
    "test_convert.py": ("test_files_become_a_table_with_statistics",),
    "test_ddl_scenarios.py": (),
    "test_delete.py": (
        "test_rows_that_match_go_and_the_others_stay",
        "test_nothing_that_matches_is_no_commit",
        "test_a_feed_of_files_that_leave_whole_and_in_part",
    ),
    "test_dml_scenarios.py": ("test_a_command_happens_once_by_the_sessions_confs",),
    "test_error_conditions.py": ("test_a_table_that_is_there_or_missing_is_named",),
    "test_expression_scenarios.py": (),
    "test_failures_at_the_call.py": (
        "test_a_data_file_that_is_missing",
        "test_a_constraint_that_is_violated",
    ),
    "test_feed_schemas.py": (),
    "test_front_door_errors.py": (),
    "test_identity.py": (),
    "test_insert_scenarios.py": (),
    "test_merge.py": (
        "test_matches_are_updated_and_the_rest_inserted",
        "test_new_columns_join_the_table",
    ),
    "test_merge_clauses_scenarios.py": (),
    "test_merge_evolution_scenarios.py": (),
    "test_merge_scenarios.py": (),
    "test_moving_over.py": (
        "test_a_value_that_makes_several_rows_of_one_is_refused_before_anything_is_written",
    ),
    "test_odd_conditions.py": (),
    "test_one_moment.py": ("test_an_update_loses_no_row_and_doubles_none",),
    "test_optimize.py": ("test_deletion_vectors_are_purged",),
    "test_optimize_scenarios.py": (),
    "test_other_writers.py": (),
    "test_partition_values.py": (),
    "test_properties_in_options.py": ("test_a_table_that_is_there_keeps_its_own",),
    "test_read_schemas.py": ("test_a_char_is_compared_as_spark_compares_it",),
    "test_replace_where.py": ("test_rows_that_match_leave_and_the_new_ones_come",),
    "test_restore.py": ("test_rows_schema_and_files_are_what_they_were",),
    "test_service_scenarios.py": ("test_a_clone_of_a_parquet_table_has_the_partitions_of_the_catalog",),
    "test_sql.py": ("test_insert_in_every_form",),
    "test_stream_sink.py": (),
    "test_stream_source.py": (),
    "test_update.py": ("test_rows_that_match_get_new_values",),
    "test_vacuum_scenarios.py": (),
    "test_view_targets.py": ("test_a_view_of_the_whole_table_is_the_table",),
    "test_views_and_metrics.py": (),
    "test_without_statistics.py": (),
    "test_write_and_read.py": (),
    "test_write_schema_scenarios.py": (),
    "test_write_types.py": (),
}

_JOBS = "Spark Connect has no SparkContext whose jobs could be counted"
_NATIVE = "it looks at the native plan"
_METRICS = "the plan is the server's, and its scans cannot be asked"
_LISTENER = "Spark Connect has no JVM in which a listener could stand"
_GAPS = "a client does not know how many partitions a frame has, and numbers with gaps"
_MOVED = "a managed table cannot be moved by a client, and is refused by name"
_TIMES = "a client does not see its plans, and each query of a command asks for the time on its own"
_TESTING = "a server in its testing mode refuses what Spark's own optimizer does to the plan"

_CASTS = "a client cannot ask for another cast than the session's"

# What a Connect client cannot do, or has no way to show.
CLASSIC_ONLY: dict[str, str] = {
    "test_catalog_tables.py::test_a_name_is_planned_natively_with_the_filters_of_the_query": _NATIVE,
    "test_constraint_scenarios.py::"
    "test_rows_that_go_or_change_neither_move_the_mark_nor_give_numbers_back": _GAPS,
    "test_convert.py::test_a_parquet_table_by_name_is_a_delta_table_under_the_same_name": _MOVED,
    "test_delete.py::test_a_predicate_on_partitions_reads_no_file": _JOBS,
    "test_dml_scenarios.py::test_a_merge_whose_rows_are_lost_begins_again": _JOBS,
    "test_dml_scenarios.py::test_rows_are_replaced_by_what_a_condition_says_of_one_side": _TESTING,
    "test_identity.py::test_one_partition_is_numbered_without_gaps": _GAPS,
    "test_identity.py::test_values_may_be_given_where_they_are_generated_by_default": _GAPS,
    "test_merge_scenarios.py::test_the_policy_legacy_cuts_off_what_does_not_fit": _CASTS,
    "test_merge_scenarios.py::test_the_current_time_is_one_for_the_whole_statement": _TIMES,
    "test_read_schemas.py::test_commands_go_on_with_columns_that_hold_no_null": _TESTING,
    "test_service_scenarios.py::test_a_clone_takes_the_place_of_a_table_of_another_format": _MOVED,
    "test_service_scenarios.py::test_a_database_may_be_called_parquet": _MOVED,
    "test_service_scenarios.py::test_a_parquet_table_is_converted_as_the_catalog_knows_it": _MOVED,
    "test_stream_source.py::test_filters_of_the_query_leave_files_unread": _NATIVE,
    "test_views_and_metrics.py::test_all_scans_of_one_query_see_one_version": _METRICS,
    "test_views_and_metrics.py::test_metrics_tell_the_files_considered_pruned_and_read": _METRICS,
    "test_views_and_metrics.py::test_dynamic_pruning_counts_as_pruned_once_the_query_has_run": _METRICS,
    "test_views_and_metrics.py::test_a_write_is_one_execution_named_after_the_operation": _LISTENER,
    "test_views_and_metrics.py::test_a_listener_of_the_session_sees_a_write_end": _LISTENER,
    "test_write_and_read.py::test_explain_names_the_table_and_its_version": _NATIVE,
    "test_write_types.py::test_variants_come_back": _TESTING,
}
