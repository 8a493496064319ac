//! Test executables: built without rights, run with them.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};
use serde_json::Value;

use crate::tasks::test::totals::{self, Outcome};
use crate::{privilege, process, workspace};

/// Crates whose tests run on the host.
pub const SELECTION: [&str; 5] = [
    "--workspace",
    "--exclude=tracer-ebpf",
    "--exclude=area-model",
    "--exclude=tracer-python",
    "--exclude=tracer-ship",
];

/// Crate with the model of the trace area. A model checker takes long to build and to run.
pub const MODEL: [&str; 1] = ["--package=area-model"];

/// Variable of the number of tests that libtest runs at once. Where it is set already, it counts.
const THREADS: &str = "RUST_TEST_THREADS";

/// Environment of a test run, and the tests that do not run there.
#[derive(Default)]
pub struct Setting {
    /// Words before the command, such as those that put it into a namespace.
    pub words: Vec<OsString>,
    /// Names of tests, without the modules that they are in.
    pub left_out: &'static [&'static str],
    /// When set, the only tests that run there.
    pub only: Option<&'static [&'static str]>,
}

impl Setting {
    /// Tells whether a test of this name, which may begin with modules, runs there.
    pub fn takes(&self, name: &str) -> bool {
        let own = own_name(name);
        let is_asked_for = self.only.is_none_or(|only| only.contains(&own));
        is_asked_for && !self.left_out.contains(&own)
    }
}

/// Returns the name of a test without its modules.
pub fn own_name(name: &str) -> &str {
    name.rsplit_once("::").map_or(name, |(_, own)| own)
}

/// Executable that libtest made.
pub struct TestBinary {
    executable: PathBuf,
    /// Folder of its crate: tests expect to run there.
    folder: PathBuf,
    /// Name that cargo uses.
    name: String,
    /// Whether it has the tests of several files, each of which is a module.
    has_files: bool,
}

/// Builds all test executables; quick when `cargo test` has just done so.
pub fn build() -> anyhow::Result<Vec<TestBinary>> {
    build_by(workspace::cargo_for_tests("test").args(SELECTION))
}

/// Builds the test executables that a cargo command would run.
pub fn build_by(test: &mut Command) -> anyhow::Result<Vec<TestBinary>> {
    let output = test
        .args(["--no-run", "--quiet", "--message-format=json"])
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run cargo")?;
    ensure!(output.status.success(), "the tests cannot be built");
    let mut binaries = Vec::new();
    for line in output.stdout.split(|&byte| byte == b'\n') {
        // Tests' own output never comes here, but a compiler plugin's might: only objects count.
        let Ok(message) = serde_json::from_slice::<Value>(line) else {
            continue;
        };
        binaries.extend(test_binary(&message));
    }
    Ok(binaries)
}

fn test_binary(message: &Value) -> Option<TestBinary> {
    let is_test = message.pointer("/profile/test")?.as_bool()?;
    let executable = PathBuf::from(message.get("executable")?.as_str()?);
    let manifest = PathBuf::from(message.get("manifest_path")?.as_str()?);
    let folder = manifest.parent()?.to_owned();
    let name = message.pointer("/target/name")?.as_str()?.to_owned();
    let source = Path::new(message.pointer("/target/src_path")?.as_str()?);
    let has_files = source.ends_with(format!("tests/{name}/main.rs"));
    is_test.then_some(TestBinary {
        executable,
        folder,
        name,
        has_files,
    })
}

impl TestBinary {
    /// Returns the name that cargo uses.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the name of the file that a test in it is from, without the extension.
    pub fn file_of<'a>(&'a self, test: &'a str) -> &'a str {
        match test.split_once("::") {
            Some((module, _)) if self.has_files => module,
            _ => &self.name,
        }
    }

    /// Returns the path of the executable.
    pub fn executable(&self) -> &Path {
        &self.executable
    }

    /// Returns the folder of its crate.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Lists the tests in it that need rights, by name.
    pub fn privileged(&self) -> anyhow::Result<Vec<String>> {
        let listed = process::output(
            Command::new(&self.executable)
                .current_dir(&self.folder)
                .args(["--ignored", "--list", "--format=terse"]),
        )?;
        let names = listed
            .lines()
            .filter_map(|line| line.strip_suffix(": test"));
        Ok(names.map(str::to_owned).collect())
    }

    /// Runs these tests as root, one after the other: they share the machine's processors and the
    /// kernel's list of programs. Their output is passed to `show`, line by line.
    pub fn run_privileged(
        &self,
        names: &[String],
        variables: &[(&str, OsString)],
        setting: &Setting,
        show: &mut dyn FnMut(&str),
    ) -> anyhow::Result<Outcome> {
        let in_namespace = if setting.words.is_empty() {
            ""
        } else {
            ", in a pid namespace"
        };
        let executable = self.executable.display();
        let file = names.first().map_or("", |name| self.file_of(name));
        show(&format!(
            "\n     Running {file} as root{in_namespace} ({executable})"
        ));
        let mut command = self.as_root(names, variables, setting)?;
        let outcome = totals::run_shown(&mut command, show)?;
        ensure!(
            outcome.is_success || outcome.totals.failed > 0,
            "{executable} ended without saying how its tests went",
        );
        Ok(outcome)
    }

    /// Runs one of those tests again, and tells whether it passes.
    pub fn passes(
        &self,
        name: &str,
        variables: &[(&str, OsString)],
        setting: &Setting,
    ) -> anyhow::Result<bool> {
        println!("\n     Running {name} again");
        let outcome = totals::run(&mut self.as_root(&[name.to_owned()], variables, setting)?)?;
        Ok(outcome.is_success && outcome.totals.passed == 1)
    }

    /// Tells whether it has a test of this name. (`false` when it cannot be listed.)
    pub fn has(&self, name: &str) -> bool {
        let listed = process::output(
            Command::new(&self.executable)
                .current_dir(&self.folder)
                .args(["--exact", name, "--list", "--format=terse"]),
        );
        listed.is_ok_and(|listed| !listed.trim().is_empty())
    }

    /// Runs the tests that need no rights, so many at once, by these arguments of libtest. Their
    /// output is passed to `show`, line by line.
    pub fn run_as_it_is(
        &self,
        arguments: &[OsString],
        variables: &[(&str, OsString)],
        threads: usize,
        show: &mut dyn FnMut(&str),
    ) -> anyhow::Result<Outcome> {
        let executable = self.executable.display();
        show(&format!("\n     Running {} ({executable})", self.name));
        let mut command = self.as_it_is(variables);
        if env::var_os(THREADS).is_none() {
            command.env(THREADS, threads.to_string());
        }
        let outcome = totals::run_shown(command.args(arguments), show)?;
        ensure!(
            outcome.is_success || outcome.totals.failed > 0,
            "{executable} ended without saying how its tests went",
        );
        Ok(outcome)
    }

    /// Runs a test that needs no rights again, and tells whether it passes.
    pub fn passes_as_it_is(
        &self,
        name: &str,
        variables: &[(&str, OsString)],
    ) -> anyhow::Result<bool> {
        println!("\n     Running {name} again");
        let outcome = totals::run(self.as_it_is(variables).args(["--exact", name]))?;
        Ok(outcome.is_success && outcome.totals.passed == 1)
    }

    /// Returns the command that runs its tests, in the environment that cargo would give them.
    fn as_it_is(&self, variables: &[(&str, OsString)]) -> Command {
        let mut command = Command::new(&self.executable);
        command
            .current_dir(&self.folder)
            .env("CARGO_MANIFEST_DIR", &self.folder)
            .envs(variables.iter().map(|(name, value)| (name, value)));
        command
    }

    fn as_root(
        &self,
        names: &[String],
        variables: &[(&str, OsString)],
        setting: &Setting,
    ) -> anyhow::Result<Command> {
        // `env` and not the environment of the command: sudo would drop it.
        let mut command = privilege::as_root("env", "run the tests that load eBPF")?;
        for (name, value) in variables {
            let mut assignment = OsString::from(name);
            assignment.push("=");
            assignment.push(value);
            command.arg(assignment);
        }
        command
            .args(&setting.words)
            .arg(&self.executable)
            .args(["--ignored", "--test-threads=1", "--exact"])
            .args(names)
            .current_dir(&self.folder);
        Ok(command)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Setting, test_binary};

    #[test]
    fn a_setting_knows_tests_by_their_own_names() {
        let setting = Setting {
            left_out: &["b"],
            only: Some(&["a", "b"]),
            ..Setting::default()
        };
        assert!(setting.takes("a") && setting.takes("file::a"));
        assert!(!setting.takes("b") && !setting.takes("file::b") && !setting.takes("a::c"));
        assert!(Setting::default().takes("file::b"));
    }

    #[test]
    fn only_executables_with_tests_in_them_are_run() {
        let of = |test: bool, executable: Value| {
            test_binary(&json!({
                "manifest_path": "/repository/crate/Cargo.toml",
                "profile": { "test": test },
                "executable": executable,
                "target": { "name": "x", "src_path": "/repository/crate/tests/x/main.rs" },
            }))
        };
        use serde_json::Value;

        let binary = of(true, json!("/repository/target/debug/deps/x")).unwrap();
        assert_eq!(binary.folder.to_str(), Some("/repository/crate"));
        assert_eq!(binary.file_of("file::module::a"), "file");
        assert!(of(false, json!("/repository/target/debug/x")).is_none());
        assert!(of(true, Value::Null).is_none());
    }
}
