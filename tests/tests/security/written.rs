//! Files that root writes where other users may have put something.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::Path;
use std::process::{Command, Output};

use tests::attacker::{ATTACKER, VICTIM, give, open_to_all};
use tests::dist;
use tests::rights::missing_right;

/// Runs the tracer on a command that does nothing, and returns what it said.
fn trace(environment: &[(&str, &str)], arguments: &[&str]) -> Output {
    let mut command = Command::new(dist::tracer_user().expect("cargo xtask dist"));
    command.args(["run", "--no-system"]).args(arguments);
    command.args(["--", "true"]);
    command.env_remove("SUDO_UID").env_remove("SUDO_GID");
    command.envs(environment.iter().copied());
    command.output().expect("it can be started")
}

#[test]
#[ignore = "needs root: what root writes"]
fn what_root_writes_is_roots_and_under_sudo_the_callers() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    open_to_all(folder.path()).unwrap();
    let facts = |path: &Path| {
        let facts = fs::metadata(path).unwrap();
        (facts.mode() & 0o777, facts.uid(), facts.gid())
    };
    let user = VICTIM.to_string();
    let sudo = [("SUDO_UID", &*user), ("SUDO_GID", &*user)];
    for (option, environment, owner) in [
        ("--log", &[][..], 0),
        ("--output", &[][..], 0),
        ("--log", &sudo[..], VICTIM),
        ("--output", &sudo[..], VICTIM),
    ] {
        let path = folder.path().join(format!("{option}{owner}"));
        let output = trace(environment, &[option, path.to_str().unwrap()]);
        assert!(output.status.success(), "{output:?}");
        assert_eq!(facts(&path), (0o600, owner, owner), "{option}");
        // Written once more; a log only where that is said.
        let force: &[&str] = if option == "--log" { &["--force"] } else { &[] };
        let output = trace(
            environment,
            &[&[option, path.to_str().unwrap()], force].concat(),
        );
        assert!(output.status.success(), "{output:?}");
        assert_eq!(facts(&path), (0o600, owner, owner), "{option}");
    }
    let exported = folder.path().join("exported");
    let mut export = Command::new(dist::tracer_user().unwrap());
    // These tests may themselves be called so.
    export.env_remove("SUDO_UID").env_remove("SUDO_GID");
    export
        .args(["export", "--to", "chrome", "-o"])
        .arg(&exported);
    let output = export.arg(folder.path().join("--log0")).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(facts(&exported), (0o600, 0, 0));
}

#[test]
#[ignore = "needs root: makes files of other users"]
fn root_does_not_fill_a_file_that_another_user_has_put_there() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for option in ["--log", "--output"] {
        let path = folder.path().join(option);
        fs::write(&path, "theirs").unwrap();
        give(&path, ATTACKER).unwrap();
        let output = trace(&[], &[option, path.to_str().unwrap()]);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(errors.contains("it belongs to user 61001"), "{errors}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "theirs");
    }
}

#[test]
#[ignore = "needs root: what root writes"]
fn a_link_where_an_export_is_half_written_leads_nowhere() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let log = path("log");
    let output = trace(&[], &["--log", log.to_str().unwrap()]);
    assert!(output.status.success(), "{output:?}");
    fs::write(path("precious"), "precious").unwrap();
    for to in ["chrome", "perfetto", "parquet", "ctf"] {
        let out = path(to);
        symlink(path("precious"), path(&format!("{to}.partial"))).unwrap();
        let mut export = Command::new(dist::tracer_user().unwrap());
        export
            .args(["export", "--to", to, "-o"])
            .arg(&out)
            .arg(&log);
        let output = export.output().unwrap();
        assert!(output.status.success(), "{to}: {output:?}");
        assert!(out.exists(), "{to}");
        assert_eq!(
            fs::read_to_string(path("precious")).unwrap(),
            "precious",
            "{to}"
        );
    }
}
