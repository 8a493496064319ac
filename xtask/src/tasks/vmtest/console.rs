//! Output of the virtual machine, and its meaning.

use std::collections::VecDeque;

use super::results::Verdict;
use super::selection::Case;

/// Number of last lines that are shown after a failure.
const LAST: usize = 30;

/// Result of one test.
#[derive(Debug, PartialEq, Eq)]
pub struct Ended {
    /// Test.
    pub case: Case,
    /// Verdict.
    pub verdict: Verdict,
    /// Duration in seconds.
    pub seconds: u64,
}

/// State of a guest, as read from its console so far.
#[derive(Debug, Default)]
pub struct Console {
    /// Number of tests that it has reported the result of.
    pub ended: u64,
    /// Test that it has begun and not reported the result of.
    pub running: Option<Case>,
    /// Kernel's own name.
    pub kernel: Option<String>,
    /// Clock that the kernel uses.
    pub clock: Option<String>,
    /// Whether it reached its end.
    pub is_done: bool,
    /// Taint bits of the kernel, which show its own faults among others.
    pub taint: u64,
    last: VecDeque<String>,
}

/// Bits of the taint that show a fault: a machine check, a bad page, an oops, a warning, a soft
/// lockup. The others show which modules were loaded.
const TAINT_FAULTS: u64 = 1 << 4 | 1 << 5 | 1 << 7 | 1 << 9 | 1 << 14;

impl Console {
    /// Reads one line. Returns the result of a test, when the line reports one.
    pub fn line(&mut self, line: &str) -> Option<Ended> {
        if self.last.len() == LAST {
            self.last.pop_front();
        }
        self.last.push_back(line.to_owned());
        self.own_line(line.strip_prefix("vmtest: ")?)
    }

    fn own_line(&mut self, said: &str) -> Option<Ended> {
        match said.split_once(' ') {
            Some(("kernel", kernel)) => self.kernel = Some(kernel.to_owned()),
            Some(("clock", clock)) => self.clock = Some(clock.to_owned()),
            Some(("taint", taint)) => self.taint = taint.parse().unwrap_or(u64::MAX),
            Some(("test", case)) => self.running = Case::parse(case),
            Some(("result", result)) => {
                let ended = ended(result)?;
                self.running = None;
                self.ended += 1;
                return Some(ended);
            }
            None if said == "done" => self.is_done = true,
            _ => {}
        }
        None
    }

    /// Describes the fault of the guest itself, or returns `None`.
    pub fn fault(&self) -> Option<String> {
        if !self.is_done {
            let last: Vec<_> = self.last.iter().map(String::as_str).collect();
            return Some(format!("it did not come to its end:\n{}", last.join("\n")));
        }
        let fault = self.taint & TAINT_FAULTS;
        (fault != 0).then(|| format!("the kernel reports a fault of its own (taint {fault})"))
    }
}

/// Parses `FILE TEST VERDICT SECONDS`.
fn ended(result: &str) -> Option<Ended> {
    let (rest, seconds) = result.rsplit_once(' ')?;
    let (case, verdict) = rest.rsplit_once(' ')?;
    Some(Ended {
        case: Case::parse(case)?,
        verdict: Verdict::named(verdict)?,
        seconds: seconds.parse().ok()?,
    })
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

    #[test]
    fn every_result_is_reported_as_it_comes() {
        let mut console = console(&["vmtest: kernel 6.1.0", "vmtest: test tests.x a::b"]);
        let case = Case::parse("tests.x a::b").unwrap();
        assert_eq!(console.kernel.as_deref(), Some("6.1.0"));
        assert_eq!(console.running.as_ref(), Some(&case));

        let ended = console.line("vmtest: result tests.x a::b late 300");
        let (verdict, seconds) = (Verdict::Late, 300);
        assert_eq!(
            ended,
            Some(Ended {
                case,
                verdict,
                seconds
            })
        );
        assert_eq!((console.running.as_ref(), console.ended), (None, 1));
        assert_eq!(console.line("vmtest: result tests.x a::b maybe 3"), None);
    }

    #[test]
    fn a_hung_machine_is_known_by_its_last_lines() {
        let lines: Vec<_> = (0..50).map(|index| format!("line {index}")).collect();
        let lines: Vec<_> = lines.iter().map(String::as_str).collect();
        let fault = console(&lines).fault().unwrap();

        assert!(fault.contains("line 20\n") && fault.ends_with("line 49"));
        assert!(!fault.contains("line 19\n"));
    }

    #[test]
    fn a_kernel_s_warning_is_a_fault() {
        let warned = console(&["vmtest: taint 512", "vmtest: done"]);
        assert!(warned.fault().unwrap().contains("taint 512"));
        let with_modules = console(&["vmtest: taint 4097", "vmtest: done"]);
        assert_eq!(with_modules.fault(), None);
    }
}
