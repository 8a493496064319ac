//! What the virtual machine says, and what it means.

use std::collections::VecDeque;

use crate::tasks::test::totals::Totals;

/// Lines that are shown when it ends otherwise than it should.
const LAST: usize = 30;

/// Read from its console so far.
#[derive(Debug, Default)]
pub struct Console {
    /// How the tests went.
    pub totals: Totals,
    /// Tests that failed, by name.
    pub failed: Vec<String>,
    /// What the kernel calls itself.
    pub kernel: Option<String>,
    /// Which clock it counts time with.
    pub clock: Option<String>,
    /// Whether it came to its end.
    pub is_done: bool,
    /// Why the kernel says that something in it went wrong, if it does: the bits of its taint.
    pub taint: u64,
    last: VecDeque<String>,
}

/// Bits of the taint that tell of a fault: a machine check, a bad page, an oops, a warning, a soft
/// lockup. The others tell which modules were loaded.
const TAINT_FAULTS: u64 = 1 << 4 | 1 << 5 | 1 << 7 | 1 << 9 | 1 << 14;

impl Console {
    /// Takes one line in.
    pub fn line(&mut self, line: &str) {
        if let Some(totals) = Totals::of_line(line) {
            self.totals.add(totals);
        } else if let Some(said) = line.strip_prefix("vmtest: ") {
            self.own_line(said);
        } else if let Some(name) = failed_test(line) {
            self.failed.push(name.to_owned());
        }
        if self.last.len() == LAST {
            self.last.pop_front();
        }
        self.last.push_back(line.to_owned());
    }

    fn own_line(&mut self, said: &str) {
        match said.split_once(' ') {
            Some(("kernel", kernel)) => self.kernel = Some(kernel.to_owned()),
            Some(("clock", clock)) => self.clock = Some(clock.to_owned()),
            Some(("taint", taint)) => self.taint = taint.parse().unwrap_or(u64::MAX),
            None if said == "done" => self.is_done = true,
            _ => {}
        }
    }

    /// What is wrong, or `None`. `expected` tests were to run.
    pub fn fault(&self, expected: u64) -> Option<String> {
        let Totals { passed, failed, .. } = self.totals;
        if !self.is_done {
            let last: Vec<_> = self.last.iter().map(String::as_str).collect();
            return Some(format!("it did not come to its end:\n{}", last.join("\n")));
        }
        if failed > 0 {
            return Some(format!("{failed} tests failed: {}", self.failed.join(", ")));
        }
        if passed != expected {
            return Some(format!("{expected} tests were to run and {passed} did"));
        }
        let fault = self.taint & TAINT_FAULTS;
        (fault != 0).then(|| format!("the kernel tells of a fault of its own (taint {fault})"))
    }
}

/// The name in `test NAME ... FAILED`.
fn failed_test(line: &str) -> Option<&str> {
    line.strip_prefix("test ")?.strip_suffix(" ... FAILED")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn console(lines: &[&str]) -> Console {
        let mut console = Console::default();
        for line in lines {
            console.line(line);
        }
        console
    }

    const RESULT: &str = "test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; \
                          0 filtered out; finished in 0.01s";

    #[test]
    fn all_is_well_when_every_test_ran_and_the_end_was_reached() {
        let console = console(&[
            "vmtest: kernel 6.1.0",
            RESULT,
            "vmtest: begin x",
            RESULT,
            "vmtest: taint 0",
            "vmtest: done",
        ]);
        assert_eq!(console.fault(4), None);
        assert_eq!(console.kernel.as_deref(), Some("6.1.0"));
        assert!(console.fault(5).unwrap().contains("5 tests were to run"));
    }

    #[test]
    fn a_hung_machine_is_told_by_its_last_lines() {
        let lines: Vec<_> = (0..50).map(|number| format!("line {number}")).collect();
        let lines: Vec<_> = lines.iter().map(String::as_str).collect();
        let fault = console(&lines).fault(0).unwrap();

        assert!(fault.contains("line 20\n") && fault.ends_with("line 49"));
        assert!(!fault.contains("line 19\n"));
    }

    #[test]
    fn failed_tests_are_named_and_a_kernel_s_warning_is_a_fault() {
        let result = RESULT.replace("2 passed; 0 failed", "1 passed; 1 failed");
        let failed = console(&["test a::b ... FAILED", &result, "vmtest: done"]);
        assert_eq!(failed.fault(2).unwrap(), "1 tests failed: a::b");

        let warned = console(&[RESULT, "vmtest: taint 512", "vmtest: done"]);
        assert!(warned.fault(2).unwrap().contains("taint 512"));
        let with_modules = console(&[RESULT, "vmtest: taint 4097", "vmtest: done"]);
        assert_eq!(with_modules.fault(2), None);
    }
}
