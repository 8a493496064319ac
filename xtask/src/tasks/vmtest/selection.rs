//! Which tests run in the virtual machine: those that load eBPF.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};

use super::machine::Processors;
use crate::tasks::test::binaries;

/// A test that virtual machines cannot run.
struct LeftOut {
    /// Part of its name.
    test: &'static str,
    why: &'static str,
    /// Whether it runs where the host's own processors do the work.
    is_for_slowness: bool,
}

const LEFT_OUT: &[LeftOut] = &[
    LeftOut {
        test: "interrupts_are_as_many_as_the_kernel_counted",
        why: "there is no device that interrupts",
        is_for_slowness: false,
    },
    LeftOut {
        test: "requests_to_the_disk_are_as_many",
        why: "there is no disk",
        is_for_slowness: false,
    },
    LeftOut {
        test: "two_hundred_thousand_events_a_second",
        why: "the reader must be as fast as that",
        is_for_slowness: true,
    },
    LeftOut {
        test: "a_stopped_reader_counts_the_switches",
        why: "it waits for 60,000 switches, and for a minute at most",
        is_for_slowness: true,
    },
];

/// The tests.
pub struct Tests {
    /// By name, without the part that Cargo adds.
    executables: Vec<(String, PathBuf)>,
    /// How many will run.
    pub count: u64,
    left_out: Vec<&'static LeftOut>,
    /// Only those whose name contains this.
    filter: Option<String>,
}

impl Tests {
    /// Builds them, and chooses those that the processors are fast enough for.
    pub fn build(processors: Processors, filter: Option<&str>) -> anyhow::Result<Self> {
        let is_left_out = |test: &&LeftOut| match processors {
            Processors::Hardware => !test.is_for_slowness,
            Processors::Software => true,
        };
        let mut tests = Self {
            executables: Vec::new(),
            count: 0,
            left_out: LEFT_OUT.iter().filter(is_left_out).collect(),
            filter: filter.map(str::to_owned),
        };
        let mut all = Vec::new();
        for binary in binaries::build()? {
            let names = binary.privileged()?;
            tests.add(binary.executable(), &names)?;
            all.extend(names);
        }
        for LeftOut { test, .. } in LEFT_OUT {
            let is_there = all.iter().any(|name| name.contains(test));
            ensure!(is_there, "no test is called {test} any more");
        }
        ensure!(
            tests.count > 0,
            "no test that loads eBPF is called {}",
            filter.unwrap_or_default()
        );
        Ok(tests)
    }

    fn add(&mut self, executable: &Path, names: &[String]) -> anyhow::Result<()> {
        let filter = self.filter.as_deref().unwrap_or_default();
        let is_run = |name: &&String| {
            let is_left_out = self
                .left_out
                .iter()
                .any(|left_out| name.contains(left_out.test));
            name.contains(filter) && !is_left_out
        };
        let count = names.iter().filter(is_run).count();
        if count == 0 {
            return Ok(());
        }
        let name = name(executable)?;
        ensure!(
            self.executables.iter().all(|(other, _)| *other != name),
            "two test executables are called {name}"
        );
        self.count += u64::try_from(count)?;
        self.executables.push((name, executable.to_owned()));
        Ok(())
    }

    /// Name and file of each executable.
    pub fn executables(&self) -> impl Iterator<Item = (&str, &Path)> {
        let executables = self.executables.iter();
        executables.map(|(name, path)| (name.as_str(), path.as_path()))
    }

    /// What tells an executable which of its tests to run.
    pub fn arguments(&self) -> String {
        let left_out = self.left_out.iter();
        let skipped = left_out.map(|left_out| format!("--skip {}", left_out.test));
        let arguments = skipped.chain(self.filter.clone());
        arguments.collect::<Vec<_>>().join(" ")
    }

    /// Says what will not run, and why.
    pub fn say_left_out(&self) {
        for LeftOut { test, why, .. } in &self.left_out {
            println!("left out: {test}: {why}");
        }
    }
}

/// `order` of `…/order-0123456789abcdef`.
fn name(executable: &Path) -> anyhow::Result<String> {
    let file = executable.file_name().and_then(|name| name.to_str());
    let file = file.with_context(|| format!("{} has no name", executable.display()))?;
    Ok(file
        .rsplit_once('-')
        .map_or(file, |(name, _)| name)
        .to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_that_are_left_out_are_not_counted() {
        let mut tests = Tests {
            executables: Vec::new(),
            count: 0,
            left_out: LEFT_OUT.iter().collect(),
            filter: None,
        };
        let slow = format!("{}_x", LEFT_OUT[0].test);
        tests
            .add(Path::new("/t/a-01"), &["one".into(), slow.clone()])
            .unwrap();
        tests.add(Path::new("/t/b-01"), &[slow]).unwrap();
        tests.add(Path::new("/t/c-01"), &[]).unwrap();

        assert_eq!(tests.count, 1);
        let names: Vec<_> = tests.executables().map(|(name, _)| name).collect();
        assert_eq!(names, ["a"]);
        assert!(tests.add(Path::new("/u/a-02"), &["two".into()]).is_err());
    }

    #[test]
    fn an_executable_is_called_what_its_test_is_called() {
        let path = Path::new("/t/debug/deps/user_events-0123456789abcdef");
        assert_eq!(name(path).unwrap(), "user_events");
    }
}
