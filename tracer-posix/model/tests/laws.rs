//! Each law of the model is a test.

#[test]
fn a_reader_beside_a_writer() {
    area_model::a_reader_beside_a_writer();
}

#[test]
fn a_watermark() {
    area_model::a_watermark();
}

#[test]
fn a_chunk_that_is_taken_again() {
    area_model::a_chunk_that_is_taken_again();
}

#[test]
fn a_stream_taken_away() {
    area_model::a_stream_taken_away();
}

#[test]
fn a_chunk_that_is_closed_again() {
    area_model::a_chunk_that_is_closed_again();
}

#[test]
fn an_only_chunk_that_is_closed_again() {
    area_model::an_only_chunk_that_is_closed_again();
}

#[test]
fn a_queue_of_closed_chunks() {
    area_model::a_queue_of_closed_chunks();
}

#[test]
fn a_stack_of_ended_chunks() {
    area_model::a_stack_of_ended_chunks();
}

#[test]
fn a_last_chunk_that_has_gone_elsewhere() {
    area_model::a_last_chunk_that_has_gone_elsewhere();
}

#[test]
fn an_oldest_chunk_that_has_gone_elsewhere() {
    area_model::an_oldest_chunk_that_has_gone_elsewhere();
}

#[test]
fn killed_before_the_reader_looks() {
    area_model::killed_before_the_reader_looks();
}

#[test]
fn killed_while_the_reader_looks() {
    area_model::killed_while_the_reader_looks();
}

#[test]
fn alive_while_the_reader_looks() {
    area_model::alive_while_the_reader_looks();
}

#[test]
fn handed_on_while_the_reader_looks() {
    area_model::handed_on_while_the_reader_looks();
}

#[test]
fn stopped_while_the_reader_looks() {
    area_model::stopped_while_the_reader_looks();
}

#[test]
fn a_list_that_changes_under_the_reader() {
    area_model::a_list_that_changes_under_the_reader();
}

#[test]
fn amid_a_change_at_each_look() {
    area_model::amid_a_change_at_each_look();
}

#[test]
fn entered_where_another_one_leaves() {
    area_model::entered_where_another_one_leaves();
}

#[test]
fn entered_while_the_stream_ends() {
    area_model::entered_while_the_stream_ends();
}

#[test]
fn found_amid_changes_of_others() {
    area_model::found_amid_changes_of_others();
}

#[test]
fn gone_on_with_while_the_reader_looks() {
    area_model::gone_on_with_while_the_reader_looks();
}

#[test]
fn left_for_good() {
    area_model::left_for_good();
}

#[test]
fn looked_for_in_vain() {
    area_model::looked_for_in_vain();
}

#[test]
fn whose_chunks_are_abandoned() {
    area_model::whose_chunks_are_abandoned();
}

#[test]
fn moved_while_the_reader_looks() {
    area_model::moved_while_the_reader_looks();
}
