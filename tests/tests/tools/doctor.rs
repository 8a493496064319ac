//! `tracer-user doctor`: what this machine has and lacks.

use std::process::Command;

use tests::dist;
use tests::rights::missing_right;

#[test]
#[ignore = "needs root"]
fn where_ebpf_can_be_loaded_the_doctor_finds_nothing_missing() {
    if missing_right().is_some() {
        return;
    }
    let mut command = Command::new(dist::tracer_user().unwrap());
    let output = command.arg("doctor").output().unwrap();
    let table = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{table}");
    assert!(table.contains("BTF"), "{table}");
    assert!(table.lines().count() > 3, "{table}");
}
