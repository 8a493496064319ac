//! A few seconds of random stress; `cargo xtask stress` does the same for as long as one likes.

use std::process::Command;

#[test]
fn all_that_is_sent_in_rough_weather_is_seen_or_counted_as_lost() {
    let output = Command::new(env!("CARGO_BIN_EXE_stress"))
        .arg("6")
        .output()
        .unwrap_or_else(|error| panic!("cannot run the stress program: {error}"));
    assert!(
        output.status.success(),
        "{}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}
