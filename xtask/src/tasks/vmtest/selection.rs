//! Selection of the tests that run in the virtual machine, those that load eBPF, and their order.

use std::path::{Path, PathBuf};
use std::{fmt, fs};

use anyhow::{Context as _, ensure};

use super::machine::Processors;
use crate::tasks::test::binaries;
use crate::workspace;

/// Test that virtual machines cannot run.
struct LeftOut {
    /// Its name.
    test: &'static str,
    why: &'static str,
    /// Whether it runs on the host's own processors.
    is_for_slowness: bool,
}

const LEFT_OUT: &[LeftOut] = &[
    LeftOut {
        test: "interrupts_are_as_many_as_the_kernel_counted",
        why: "the device that has its files interrupts all the time",
        is_for_slowness: false,
    },
    LeftOut {
        test: "requests_to_the_disk_are_as_many_bytes_as_the_kernel_counted_for_the_process",
        why: "there is no disk",
        is_for_slowness: false,
    },
    LeftOut {
        test: "threads_block_in_the_calls_that_the_kernel_says",
        why: "there is no disk, so no page fault waits for one",
        is_for_slowness: false,
    },
    LeftOut {
        test: "a_disk_is_named_with_the_call_and_the_file",
        why: "there is no disk",
        is_for_slowness: false,
    },
    LeftOut {
        test: "a_disk_behind_io_uring_is_named",
        why: "there is no disk",
        is_for_slowness: false,
    },
    LeftOut {
        test: "page_faults_that_wait_for_a_disk_are_named",
        why: "there is no disk",
        is_for_slowness: false,
    },
    LeftOut {
        test: "descriptors_are_what_strace_says",
        why: "strace has the names of sockets from modules that are not loaded there",
        is_for_slowness: false,
    },
    LeftOut {
        test: "programs::tests::no_program_takes_the_verifier_longer_than_its_budget_says",
        why: "the budgets are those of the newest verifier",
        is_for_slowness: false,
    },
    LeftOut {
        test: "a_waiting_thread_shows_the_trace_that_it_works_for_however_its_variable_is_found",
        why: "a compiler takes long",
        is_for_slowness: true,
    },
    LeftOut {
        test: "all_readers_show_the_same_events_of_pgbench",
        why: "PostgreSQL takes longer to start than it waits",
        is_for_slowness: true,
    },
    LeftOut {
        test: "two_hundred_thousand_events_a_second_beside_a_switching_neighbour_all_arrive_once",
        why: "the reader must be as fast as that",
        is_for_slowness: true,
    },
    LeftOut {
        test: "of_twenty_thousand_short_lived_processes_each_is_there_and_none_is_left",
        why: "it waits a minute at most for five thousand of them",
        is_for_slowness: true,
    },
    LeftOut {
        test: "the_time_on_the_cpu_is_what_the_scheduler_counts",
        why: "its bounds are those of a fast processor",
        is_for_slowness: true,
    },
    LeftOut {
        test: "a_stopped_reader_counts_the_switches_that_the_kernel_could_not_record",
        why: "it waits for 60,000 switches, and for a minute at most",
        is_for_slowness: true,
    },
    LeftOut {
        test: "a_herd_that_is_woken_in_vain_is_named",
        why: "a thread that is woken in vain runs for longer than the rule has it, 0.2 ms",
        is_for_slowness: true,
    },
    LeftOut {
        test: "a_slow_program_is_explained_without_root",
        why: "the service loads its programs for longer than a client waits, five seconds",
        is_for_slowness: true,
    },
];

/// Test executable with those of its tests that run.
pub struct Executable {
    /// Its crate and its name there, without the part that Cargo adds.
    pub name: String,
    /// Path of the file.
    pub path: PathBuf,
    /// Tests, by their full names.
    pub tests: Vec<String>,
}

/// Tests that can run.
pub struct Selection {
    /// Executables.
    pub executables: Vec<Executable>,
    left_out: Vec<&'static LeftOut>,
}

impl Selection {
    /// Builds the tests, and selects those that the processors are fast enough for.
    pub fn build(processors: Processors) -> anyhow::Result<Self> {
        let mut selection = Self::leaving_out(processors);
        let mut all = Vec::new();
        for binary in binaries::build()? {
            let names = binary.privileged()?;
            all.extend(names.iter().cloned());
            let name = name(binary.folder(), binary.executable())?;
            selection.add(name, binary.executable(), names)?;
        }
        for LeftOut { test, .. } in LEFT_OUT {
            let is_there = all.iter().any(|name| is_called(name, test));
            ensure!(is_there, "no test is called {test} any more");
        }
        Ok(selection)
    }

    fn leaving_out(processors: Processors) -> Self {
        Self {
            executables: Vec::new(),
            left_out: left_out(processors).collect(),
        }
    }

    fn add(&mut self, name: String, path: &Path, mut tests: Vec<String>) -> anyhow::Result<()> {
        tests.retain(|name| {
            let mut left_out = self.left_out.iter();
            !left_out.any(|left_out| is_called(name, left_out.test))
        });
        if tests.is_empty() {
            return Ok(());
        }
        ensure!(
            self.executables.iter().all(|other| other.name != name),
            "two test executables are called {name}"
        );
        self.executables.push(Executable {
            name,
            path: path.to_owned(),
            tests,
        });
        Ok(())
    }

    /// Returns the tests, one by one.
    pub fn cases(&self) -> Vec<Case> {
        let of = |file: &Executable| {
            let name = file.name.clone();
            file.tests.clone().into_iter().map(move |test| Case {
                file: name.clone(),
                test,
            })
        };
        self.executables.iter().flat_map(of).collect()
    }
}

/// Tells whether a test has this name, as a whole or without its modules.
pub fn is_called(test: &str, name: &str) -> bool {
    test == name || binaries::own_name(test) == name
}

/// Returns the names of tests that do not run there, with the reasons.
pub fn impossible(processors: Processors) -> impl Iterator<Item = (&'static str, &'static str)> {
    left_out(processors).map(|left_out| (left_out.test, left_out.why))
}

fn left_out(processors: Processors) -> impl Iterator<Item = &'static LeftOut> {
    LEFT_OUT.iter().filter(move |test| match processors {
        Processors::Hardware => !test.is_for_slowness,
        Processors::Software => true,
    })
}

/// Returns the name of an executable: `tests.order` of `…/tests` and `…/order-0123456789abcdef`.
pub fn name(folder: &Path, executable: &Path) -> anyhow::Result<String> {
    let last = |path: &Path| {
        let name = path.file_name().and_then(|name| name.to_str());
        let name = name.with_context(|| format!("{} has no name", path.display()))?;
        anyhow::Ok(name.to_owned())
    };
    let file = last(executable)?;
    let file = file.rsplit_once('-').map_or(&*file, |(name, _)| name);
    Ok(format!("{}.{file}", last(folder)?))
}

/// Test: its executable, as the guest names it, and its name there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Case {
    /// Name of the executable.
    pub file: String,
    /// Name of the test.
    pub test: String,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.file, self.test)
    }
}

impl Case {
    /// Parses a test from the form in which it is displayed.
    pub fn parse(line: &str) -> Option<Self> {
        let (file, test) = line.trim().split_once(' ')?;
        let (file, test) = (file.to_owned(), test.to_owned());
        (!test.contains(' ')).then_some(Self { file, test })
    }
}

/// Formats a line for each test.
pub fn listed(cases: &[Case]) -> String {
    cases.iter().map(|case| format!("{case}\n")).collect()
}

/// Reads the tests that were built last.
pub fn read_last_build() -> anyhow::Result<Vec<Case>> {
    let path = workspace::target(LAST);
    let text = fs::read_to_string(&path)
        .with_context(|| format!("{}: nothing is built yet", path.display()))?;
    Ok(text.lines().filter_map(Case::parse).collect())
}

/// Writes down the tests that were built.
pub fn note_build(cases: &[Case]) -> anyhow::Result<()> {
    fs::write(workspace::target(LAST), listed(cases)).context(LAST)
}

const LAST: &str = "vm/cases";

/// Test after which a machine lets no process trace another (Yama's scope 3, which stays): it runs
/// last. `tests.sh` lets it.
const FOR_GOOD: &str = "the_service_gives_what_ptrace_allows_but_for_what_its_rule_withholds";

/// Returns the tests whose name contains `filter`, and of them those that `list` names, in its
/// order.
pub fn chosen(
    cases: &[Case],
    filter: Option<&str>,
    list: Option<&Path>,
) -> anyhow::Result<Vec<Case>> {
    let filter = filter.unwrap_or_default();
    let mut chosen: Vec<_> = cases
        .iter()
        .filter(|case| case.to_string().contains(filter))
        .cloned()
        .collect();
    if let Some(list) = list {
        let text = fs::read_to_string(list).with_context(|| list.display().to_string())?;
        chosen = in_order(&chosen, &text)?;
    }
    ensure!(
        !chosen.is_empty(),
        "no test that loads eBPF is called {filter}"
    );
    chosen.sort_by_key(|case| case.test.ends_with(FOR_GOOD));
    Ok(chosen)
}

/// Returns the tests that the lines of `text` name: a test, or its executable and it.
fn in_order(cases: &[Case], text: &str) -> anyhow::Result<Vec<Case>> {
    let lines = text.lines().map(str::trim);
    let mut chosen: Vec<Case> = Vec::new();
    for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let named: Vec<_> = cases
            .iter()
            .filter(|case| case.test == line || case.to_string() == line)
            .collect();
        ensure!(
            !named.is_empty(),
            "no test that runs there is called {line}"
        );
        for case in named {
            if !chosen.contains(case) {
                chosen.push(case.clone());
            }
        }
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_that_are_left_out_do_not_run_and_those_of_similar_names_do() {
        let left_out = LEFT_OUT[0].test.to_owned();
        let similar = format!("soft_{left_out}");
        let mut selection = Selection::leaving_out(Processors::Hardware);
        let both = vec![left_out.clone(), similar.clone()];
        let path = Path::new("/t/x");
        selection.add("a".into(), path, both).unwrap();
        selection.add("b".into(), path, vec![left_out]).unwrap();
        selection.add("c".into(), path, Vec::new()).unwrap();

        assert_eq!(listed(&selection.cases()), format!("a {similar}\n"));
        let again = selection.add("a".into(), path, vec!["two".into()]);
        assert!(again.is_err(), "two executables of one name");
    }

    #[test]
    fn what_is_only_slow_runs_where_it_is_not() {
        let slow = LEFT_OUT.iter().find(|test| test.is_for_slowness).unwrap();
        let names = |processors| impossible(processors).map(|(name, _)| name);
        assert!(names(Processors::Software).any(|name| name == slow.test));
        assert!(!names(Processors::Hardware).any(|name| name == slow.test));
    }

    #[test]
    fn an_executable_is_called_what_its_test_is_called() {
        let path = Path::new("/t/debug/deps/user_events-0123456789abcdef");
        let name = name(Path::new("/repository/tests"), path).unwrap();
        assert_eq!(name, "tests.user_events");
    }

    fn case(line: &str) -> Case {
        Case::parse(line).unwrap()
    }

    #[test]
    fn a_case_is_read_as_it_is_written() {
        let case = case("tests.order a::b");
        assert_eq!(Case::parse(&case.to_string()), Some(case));
        assert_eq!(Case::parse("tests.order"), None);
        assert_eq!(Case::parse("tests.order a b"), None);
    }

    #[test]
    fn what_stays_for_good_is_done_last() {
        let (last, another) = (format!("x a::{FOR_GOOD}"), "x b".to_owned());
        let cases = [case(&last), case(&another)];
        let chosen = chosen(&cases, None, None).unwrap();
        assert_eq!(chosen, [case(&another), case(&last)]);
    }

    #[test]
    fn a_list_chooses_and_orders_and_may_not_name_what_is_not_there() {
        let cases = [case("x a"), case("x b"), case("y a"), case("y c")];
        let chosen = in_order(&cases, "# short ones\ny c\na\n\n").unwrap();
        assert_eq!(listed(&chosen), "y c\nx a\ny a\n");
        assert!(in_order(&cases, "d\n").is_err());
    }
}
