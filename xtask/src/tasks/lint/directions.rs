//! Directions of dependencies between crates: compares the output of `cargo tree` with the list
//! here.

use anyhow::ensure;

use crate::{process, workspace};

/// Crate, and the crates of this project that it may use.
struct Crate {
    of: &'static str,
    may_use: &'static [&'static str],
}

/// Crates from the bottom up. The engine knows neither shared memory nor files; logs and the area
/// do not know each other; only the C library has C functions. Of the tool's crates only those of
/// the agent and of running traces know the kernel's, and answers and exports know neither; only
/// the command line knows all.
const CRATES: [Crate; 26] = [
    Crate {
        of: "tracer-common",
        may_use: &[],
    },
    Crate {
        of: "tracer-engine",
        may_use: &["tracer-common"],
    },
    Crate {
        of: "tracer-analysis",
        may_use: &["tracer-common", "tracer-engine"],
    },
    Crate {
        of: "tracer-log",
        may_use: &["tracer-common", "tracer-engine"],
    },
    Crate {
        of: "tracer-area",
        may_use: &["tracer-common", "tracer-engine"],
    },
    Crate {
        of: "tracer-posix",
        may_use: &[
            "tracer-common",
            "tracer-engine",
            "tracer-log",
            "tracer-area",
        ],
    },
    Crate {
        of: "libposixtrace",
        may_use: &[
            "tracer-common",
            "tracer-engine",
            "tracer-log",
            "tracer-area",
            "tracer-posix",
        ],
    },
    // At run time it has the library, as any program; it is built of none of its crates.
    Crate {
        of: "tracetools-posix",
        may_use: &["tracer-common"],
    },
    Crate {
        of: "tracer-text",
        may_use: &["tracer-common", "tracer-engine"],
    },
    Crate {
        of: "tracer-schema",
        may_use: &[],
    },
    Crate {
        of: "tracer-syscalls",
        may_use: &["tracer-common", "tracer-engine", "tracer-text"],
    },
    Crate {
        of: "tracer-binary",
        may_use: &[
            "tracer-common",
            "tracer-engine",
            "tracer-area",
            "tracer-text",
        ],
    },
    Crate {
        of: "tracer-event",
        may_use: &[
            "tracer-analysis",
            "tracer-common",
            "tracer-engine",
            "tracer-log",
            "tracer-text",
            "tracer-schema",
            "tracer-syscalls",
            "tracer-binary",
        ],
    },
    Crate {
        of: "tracer-kernel",
        may_use: &[
            "tracer-common",
            "tracer-engine",
            "tracer-area",
            "tracer-text",
            "tracer-syscalls",
            "tracer-binary",
        ],
    },
    Crate {
        of: "tracer-agent",
        may_use: &[
            "tracer-common",
            "tracer-engine",
            "tracer-area",
            "tracer-posix",
            "tracer-text",
            "tracer-syscalls",
            "tracer-binary",
            "tracer-kernel",
        ],
    },
    Crate {
        of: "tracer-output",
        may_use: &[
            "tracer-analysis",
            "tracer-common",
            "tracer-engine",
            "tracer-text",
            "tracer-syscalls",
            "tracer-event",
        ],
    },
    Crate {
        of: "tracer-log-view",
        may_use: &[
            "tracer-common",
            "tracer-engine",
            "tracer-log",
            "tracer-area",
            "tracer-text",
            "tracer-syscalls",
            "tracer-binary",
            "tracer-event",
            "tracer-output",
        ],
    },
    Crate {
        of: "tracer-live",
        may_use: &[
            "tracer-common",
            "tracer-engine",
            "tracer-log",
            "tracer-area",
            "tracer-posix",
            "tracer-text",
            "tracer-syscalls",
            "tracer-binary",
            "tracer-event",
            "tracer-kernel",
            "tracer-agent",
            "tracer-output",
            "tracer-log-view",
        ],
    },
    Crate {
        of: "tracer-answers",
        may_use: &[
            "tracer-analysis",
            "tracer-common",
            "tracer-engine",
            "tracer-text",
            "tracer-syscalls",
            "tracer-binary",
            "tracer-event",
            "tracer-output",
            "tracer-log-view",
        ],
    },
    Crate {
        of: "tracer-tables",
        may_use: &[
            "tracer-analysis",
            "tracer-common",
            "tracer-engine",
            "tracer-text",
            "tracer-syscalls",
            "tracer-event",
            "tracer-output",
            "tracer-log-view",
            "tracer-answers",
        ],
    },
    Crate {
        of: "tracer-export",
        may_use: &[
            "tracer-analysis",
            "tracer-common",
            "tracer-engine",
            "tracer-log",
            "tracer-text",
            "tracer-syscalls",
            "tracer-binary",
            "tracer-event",
            "tracer-output",
            "tracer-log-view",
            "tracer-tables",
        ],
    },
    Crate {
        of: "tracer-python",
        may_use: &[
            "tracer-common",
            "tracer-engine",
            "tracer-log",
            "tracer-text",
            "tracer-syscalls",
            "tracer-event",
            "tracer-log-view",
            "tracer-answers",
            "tracer-tables",
        ],
    },
    // At run time the tool starts it; neither is built of the other.
    Crate {
        of: "tracer-ship",
        may_use: &[
            "tracer-engine",
            "tracer-log",
            "tracer-text",
            "tracer-event",
            "tracer-log-view",
            "tracer-answers",
            "tracer-tables",
            "tracer-export",
        ],
    },
    Crate {
        of: "tracer-top",
        may_use: &[
            "tracer-analysis",
            "tracer-common",
            "tracer-engine",
            "tracer-text",
            "tracer-event",
            "tracer-output",
            "tracer-log-view",
            "tracer-answers",
        ],
    },
    Crate {
        of: "tracer-mcp",
        may_use: &["tracer-text", "tracer-answers"],
    },
    Crate {
        of: "tracer-user",
        may_use: &[
            "tracer-common",
            "tracer-engine",
            "tracer-log",
            "tracer-text",
            "tracer-schema",
            "tracer-syscalls",
            "tracer-binary",
            "tracer-event",
            "tracer-kernel",
            "tracer-agent",
            "tracer-output",
            "tracer-log-view",
            "tracer-export",
            "tracer-live",
            "tracer-answers",
            "tracer-tables",
            "tracer-top",
            "tracer-mcp",
        ],
    },
];

/// Fails on a crate that uses a crate it may not use.
pub fn check() -> anyhow::Result<()> {
    for one in &CRATES {
        let tree = process::output(
            workspace::cargo("tree")
                .args(["--edges=normal", "--depth=1", "--prefix=none"])
                .args(["--format={p}", "--package", one.of]),
        )?;
        for used in ours(&tree).filter(|name| *name != one.of) {
            ensure!(
                one.may_use.contains(&used),
                "{} uses {used}, which it must not know: docs/architecture.md has the directions",
                one.of
            );
        }
    }
    Ok(())
}

/// Finds the crates of this project in a tree.
fn ours(tree: &str) -> impl Iterator<Item = &str> {
    let names = tree.lines().filter_map(|line| line.split(' ').next());
    names.filter(|name| CRATES.iter().any(|one| one.of == *name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_of_this_project_are_distinguished_from_others() {
        let tree = "tracer-log v0.1.0 (/x)\nlibc v0.2.1\ntracer-engine v0.1.0 (/x)\n";
        assert_eq!(
            ours(tree).collect::<Vec<_>>(),
            ["tracer-log", "tracer-engine"]
        );
    }
}
