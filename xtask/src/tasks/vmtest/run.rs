//! Run of one kernel, from its first test to its last: it is booted again after it dies.

use std::collections::VecDeque;
use std::fmt;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};

use super::console::Console;
use super::initramfs::{self, Guest};
use super::kernels::Image;
use super::machine::{self, Machine, Processors};
use super::results::{Results, Verdict};
use super::selection::Case;
use crate::workspace;

/// Task of running tests on a kernel.
pub struct Order<'a> {
    /// Name for people.
    pub name: &'static str,
    /// Kernel image that boots.
    pub image: Image,
    /// Files of the guest.
    pub guest: &'a Guest,
    /// Tests to run, in this order.
    pub cases: &'a [Case],
    /// All tests that could run: results of others are removed.
    pub built: &'a [Case],
    /// Whether tests that passed before are left out.
    pub resume: bool,
    /// Implementation of the guest's processors.
    pub processors: Processors,
    /// Greatest time of all tests together.
    pub limit: Duration,
}

/// Outcome of a kernel.
pub struct Outcome {
    guest: String,
    passed: usize,
    asked: usize,
    boots: u32,
    seconds: u64,
    /// Tests that did not pass, and faults of the guest itself.
    faults: Vec<String>,
}

impl Outcome {
    /// Tells whether every test passed, and the guest had no fault.
    pub fn is_good(&self) -> bool {
        self.faults.is_empty() && self.passed == self.asked
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            guest,
            passed,
            asked,
            boots,
            seconds,
            faults,
        } = self;
        write!(
            f,
            "({guest}): {passed} of {asked} tests passed in {seconds} s, "
        )?;
        write!(f, "{boots} boots")?;
        for fault in faults {
            write!(f, "\n    {fault}")?;
        }
        Ok(())
    }
}

/// Runs all tests. A test during which the guest died is tried again at the end, on processors that
/// share a thread.
pub fn all(order: &Order<'_>) -> anyhow::Result<Outcome> {
    let image = &order.image;
    let mut results = Results::load(order.name)?;
    results.rows.retain(|case, _| order.built.contains(case));
    let is_left = |case: &&Case| !(order.resume && results.has_passed(case));
    let asked: Vec<Case> = order.cases.iter().filter(is_left).cloned().collect();
    let log = workspace::target("vm").join(format!("{}.log", order.name));
    fs::write(&log, "").with_context(|| log.display().to_string())?;

    let begin = Instant::now();
    let mut left: VecDeque<Case> = asked.iter().cloned().collect();
    let mut died: Vec<Case> = Vec::new();
    let (mut boots, mut faults) = (0, Vec::new());
    // Until the guest has said more of itself.
    let mut guest = format!("{}; {}", image.package, order.processors.for_people());
    results.guest.clone_from(&guest);
    let mut passed = 0;
    while !left.is_empty() {
        let time = order.limit.saturating_sub(begin.elapsed());
        if time.is_zero() {
            faults.push(format!("no time for {} tests", left.len()));
            break;
        }
        boots += 1;
        let is_threaded = left.iter().any(|case| !died.contains(case));
        println!(
            "\nBooting {}, {}",
            image.package,
            order.processors.for_people()
        );
        let initramfs = write_initramfs(order, left.make_contiguous())?;
        let machine = Machine {
            kind: order.guest.kind,
            files: &order.guest.files,
            kernel: &image.path,
            initramfs: &initramfs,
            processors: order.processors,
            is_threaded,
        };
        let console = machine::run(&machine, &log, time, |ended| {
            left.retain(|case| *case != ended.case);
            match ended.verdict {
                Verdict::Passed => passed += 1,
                other => faults.push(format!("{}: {}", other.name(), ended.case)),
            }
            results.note(ended.case, ended.verdict, ended.seconds);
            results.save(order.name)
        })?;
        ensure!(
            console.ended > 0 || console.running.is_some(),
            "it does not boot; {}",
            console.fault().unwrap_or_default()
        );
        guest = described(&image.package, &console, order.processors);
        results.guest.clone_from(&guest);
        let Some(case) = console.running.clone() else {
            faults.extend(console.fault());
            continue;
        };
        // With the limit the guest ends too, and says nothing of the test.
        if order.limit.saturating_sub(begin.elapsed()).is_zero() {
            continue;
        }
        left.retain(|other| *other != case);
        if died.contains(&case) || order.processors == Processors::Hardware {
            faults.push(format!(
                "died: {case}: {}",
                console.fault().unwrap_or_default()
            ));
            results.note(case, Verdict::Died, 0);
        } else {
            died.push(case.clone());
            left.push_back(case);
        }
    }
    results.save(order.name)?;
    Ok(Outcome {
        guest,
        passed,
        asked: asked.len(),
        boots,
        seconds: begin.elapsed().as_secs(),
        faults,
    })
}

fn described(package: &str, console: &Console, processors: Processors) -> String {
    let unknown = || "unknown".to_owned();
    let clock = console.clock.clone().unwrap_or_else(unknown);
    let kernel = console.kernel.clone().unwrap_or_else(unknown);
    let processors = processors.for_people();
    format!("{package}; {kernel}; clock {clock}; {processors}")
}

/// Writes the first root file system, with the tests to run in it.
fn write_initramfs(order: &Order<'_>, cases: &[Case]) -> anyhow::Result<PathBuf> {
    let path = workspace::target("vm").join(format!("{}.initramfs.cpio", order.name));
    let bytes = initramfs::build(&order.image, order.guest, cases)?;
    fs::write(&path, bytes).with_context(|| path.display().to_string())?;
    Ok(path)
}
