//! Each law of the model is a test.

#[test]
fn a_reader_beside_a_writer() {
    ring_model::a_reader_beside_a_writer();
}

#[test]
fn a_watermark() {
    ring_model::a_watermark();
}

#[test]
fn a_chunk_that_is_taken_again() {
    ring_model::a_chunk_that_is_taken_again();
}

#[test]
fn a_stream_taken_away() {
    ring_model::a_stream_taken_away();
}

#[test]
fn a_chunk_that_is_closed_again() {
    ring_model::a_chunk_that_is_closed_again();
}

#[test]
fn an_only_chunk_that_is_closed_again() {
    ring_model::an_only_chunk_that_is_closed_again();
}

#[test]
fn a_queue_of_closed_chunks() {
    ring_model::a_queue_of_closed_chunks();
}

#[test]
fn a_stack_of_ended_chunks() {
    ring_model::a_stack_of_ended_chunks();
}

#[test]
fn a_last_chunk_that_has_gone_elsewhere() {
    ring_model::a_last_chunk_that_has_gone_elsewhere();
}

#[test]
fn an_oldest_chunk_that_has_gone_elsewhere() {
    ring_model::an_oldest_chunk_that_has_gone_elsewhere();
}

#[test]
fn killed_before_the_reader_looks() {
    ring_model::killed_before_the_reader_looks();
}

#[test]
fn killed_while_the_reader_looks() {
    ring_model::killed_while_the_reader_looks();
}

#[test]
fn alive_while_the_reader_looks() {
    ring_model::alive_while_the_reader_looks();
}

#[test]
fn handed_on_while_the_reader_looks() {
    ring_model::handed_on_while_the_reader_looks();
}

#[test]
fn stopped_while_the_reader_looks() {
    ring_model::stopped_while_the_reader_looks();
}

#[test]
fn a_list_that_changes_under_the_reader() {
    ring_model::a_list_that_changes_under_the_reader();
}

#[test]
fn amid_a_change_at_each_look() {
    ring_model::amid_a_change_at_each_look();
}

#[test]
fn entered_where_another_one_leaves() {
    ring_model::entered_where_another_one_leaves();
}

#[test]
fn entered_while_the_stream_ends() {
    ring_model::entered_while_the_stream_ends();
}

#[test]
fn found_amid_changes_of_others() {
    ring_model::found_amid_changes_of_others();
}

#[test]
fn gone_on_with_while_the_reader_looks() {
    ring_model::gone_on_with_while_the_reader_looks();
}

#[test]
fn left_for_good() {
    ring_model::left_for_good();
}

#[test]
fn looked_for_in_vain() {
    ring_model::looked_for_in_vain();
}

#[test]
fn whose_chunks_are_abandoned() {
    ring_model::whose_chunks_are_abandoned();
}

#[test]
fn moved_while_the_reader_looks() {
    ring_model::moved_while_the_reader_looks();
}
