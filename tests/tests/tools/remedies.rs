//! A loss names its remedy, and the remedy helps.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use tests::dist;
use tests::rights::missing_right;

/// Sizes by option, in KiB.
type Sizes = BTreeMap<String, u64>;

/// Losses, as the closing lines state them.
#[derive(Debug)]
struct Summary {
    lost: u64,
    /// Options that should be larger, by cause of the loss.
    advice: BTreeMap<String, String>,
    /// No size helps against any of the losses: the tracer had no CPU for long.
    is_late: bool,
}

/// Runs the program, again where the tracer was late: a larger size would hold all that was lost.
fn run(options: &[&str], sizes: &Sizes, program: &Path, arguments: &[&str]) -> Summary {
    let mut runs = (0..5).map(|_| run_once(options, sizes, program, arguments));
    let summary = runs.find(|summary| !summary.is_late);
    summary.unwrap_or_else(|| panic!("the tracer is late each time"))
}

fn run_once(options: &[&str], sizes: &Sizes, program: &Path, arguments: &[&str]) -> Summary {
    let mut tracer = Command::new(dist::tracer_user().unwrap());
    tracer.arg("run").args(options).args(["-o", "/dev/null"]);
    for (option, size) in sizes {
        tracer.arg(option).arg(format!("{size}K"));
    }
    tracer.arg("--").arg(program).args(arguments);
    let output = tracer.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    let mut summary = Summary {
        lost: u64::MAX,
        advice: BTreeMap::new(),
        is_late: false,
    };
    for line in said
        .lines()
        .filter_map(|line| line.strip_prefix("tracer-user: "))
    {
        if let Some((count, causes)) = line.split_once(" lost") {
            // Behind it is what the kernel did not report.
            let causes = causes.split(';').next().unwrap();
            summary.lost = count.parse().unwrap();
            summary.is_late =
                summary.lost > 0 && causes.trim_start_matches(": ").split(", ").all(is_late);
        } else if let Some((cause, advice)) = line
            .strip_prefix("against ")
            .and_then(|line| line.split_once(": give a larger "))
        {
            let option = advice.split([',', ' ']).next().unwrap();
            summary.advice.insert(cause.to_owned(), option.to_owned());
        }
    }
    let code = i32::from(summary.lost > 0);
    assert_eq!(output.status.code(), Some(code), "{said}");
    let has_remedy = summary.lost > 0 && !summary.is_late;
    assert_eq!(has_remedy, !summary.advice.is_empty(), "{said}");
    summary
}

/// Tells whether something like `5 late` is a loss that no size helps against.
fn is_late(cause: &str) -> bool {
    ["late", "not_read"].contains(&cause.split(' ').nth(1).unwrap_or_default())
}

/// Follows the advice until nothing is lost, and says which causes had what remedy.
fn follow(options: &[&str], first: &[&str], program: &Path, arguments: &[&str]) -> Sizes {
    const LEAST_KIB: u64 = 64;
    const STEP: u64 = 16;
    let mut sizes: Sizes = first
        .iter()
        .map(|option| ((*option).to_owned(), LEAST_KIB))
        .collect();
    for _ in 0..3 * first.len() {
        let summary = run(options, &sizes, program, arguments);
        for option in summary.advice.values() {
            let size = sizes.get_mut(option);
            *size.unwrap_or_else(|| panic!("{summary:?}")) *= STEP;
        }
        if summary.lost == 0 {
            return sizes;
        }
    }
    let summary = run(options, &sizes, program, arguments);
    assert_eq!(summary.lost, 0, "{sizes:?}: {summary:?}");
    sizes
}

#[test]
#[ignore = "loads eBPF"]
fn who_does_as_the_closing_line_says_loses_nothing_in_the_end() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // 84,000 events of the kernel, and 100,000 of the program, each as fast as it can.
    let calls = dist::compile("calls", folder.path()).unwrap();
    let options = ["--events", "exec,exit", "--syscalls", "all"];
    let sizes = ["--ring-size", "--stream-size"];
    // On an idle machine nothing may be lost whatever the sizes are.
    let has_grown = (0..30).any(|_| {
        let grown = follow(&options, &sizes, &calls, &["2000"]);
        grown.values().any(|size| *size > 64)
    });
    assert!(has_grown, "nothing was ever lost");

    let burst = dist::compile("burst", folder.path()).unwrap();
    let sizes = ["--thread-ring-size", "--stream-size"];
    // Which of the two is too small depends on who gets the processor.
    let has_grown = (0..30).any(|_| {
        let grown = follow(&["--no-system"], &sizes, &burst, &["100000"]);
        grown.values().any(|size| *size > 64)
    });
    assert!(has_grown, "nothing was ever lost");
}
