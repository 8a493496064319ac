//! The standard C interface, used by a C program as it would be used anywhere.

use std::process::Command;

use tests::dist;

#[test]
fn a_c_program_that_traces_itself_is_told_what_the_standard_says() {
    let folder = tempfile::tempdir().unwrap();
    let program = dist::compile("streams", folder.path()).unwrap();

    let output = Command::new(program)
        .env("LD_LIBRARY_PATH", dist::folder().unwrap().join("lib"))
        .output()
        .unwrap();

    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(said, "ok\n", "{errors}");
    assert!(output.status.success());
}
