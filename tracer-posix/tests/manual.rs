//! The manual pages against what they describe.

use tracer_engine::Attributes;

#[test]
fn the_manual_has_the_defaults_of_the_attributes() {
    let page = include_str!("../../man/posix_trace_attr_init.3");
    let attributes = Attributes::default();
    let rows = [
        format!("stream size\t{} bytes", attributes.stream_min_size()),
        format!(
            "most data of a user event\t{} bytes",
            attributes.max_data_size()
        ),
        format!("log size\t{} bytes", attributes.log_max_size()),
    ];
    for row in rows {
        assert!(page.lines().any(|line| line == row), "{row}");
    }
}
