//! The laws of the thread ring, one test each.

#[test]
fn records_beside_an_overwriting_writer_are_whole_in_order_and_counted() {
    ring_model::a_reader_beside_a_writer(false);
}

#[test]
fn records_beside_a_writer_that_keeps_the_oldest_are_whole_in_order_and_counted() {
    ring_model::a_reader_beside_a_writer(true);
}

#[test]
fn nothing_comes_that_is_older_than_what_was_vouched_for() {
    ring_model::a_watermark();
}

#[test]
fn each_record_is_told_to_be_its_own_threads_when_the_ring_changes_hands() {
    ring_model::a_ring_that_changes_hands();
}

#[test]
fn a_stream_that_was_taken_away_leaves_nothing_in_the_ring_of_the_next() {
    ring_model::a_stream_taken_away();
}
