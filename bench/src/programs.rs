//! C programs under `bench/programs`: compiles them in one way, runs them, and parses their output.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, anyhow};

use super::folder;
use xtask::{process, workspace};

/// Recipe by which a program is compiled.
pub struct Recipe {
    /// Name of the executable.
    pub name: &'static str,
    /// Its source, without the folder.
    pub source: &'static str,
    /// Flags in addition to those that all programs get.
    pub flags: &'static [&'static str],
}

const OURS: &[&str] = &["-lposixtrace"];

/// Programs that need only this project.
pub const OWN: &[Recipe] = &[
    Recipe {
        name: "libempty.so",
        source: "empty.c",
        flags: &["-shared", "-fPIC"],
    },
    Recipe {
        name: "emit_none",
        source: "emit_none.c",
        flags: &[],
    },
    Recipe {
        name: "emit_empty_call",
        source: "emit_none.c",
        flags: &["-DEMPTY_CALL", "-lempty"],
    },
    Recipe {
        name: "emit_counter",
        source: "emit_none.c",
        flags: &["-DCOUNTER"],
    },
    Recipe {
        name: "emit_fenced_counter",
        source: "emit_none.c",
        flags: &["-DCOUNTER", "-DFENCE"],
    },
    Recipe {
        name: "emit_posix",
        source: "emit_posix.c",
        flags: OURS,
    },
    Recipe {
        name: "latency_none",
        source: "emit_none.c",
        flags: &["-DLATENCY"],
    },
    Recipe {
        name: "latency_counter",
        source: "emit_none.c",
        flags: &["-DLATENCY", "-DCOUNTER", "-DFENCE"],
    },
    Recipe {
        name: "latency_posix",
        source: "emit_posix.c",
        flags: &["-DLATENCY", "-lposixtrace"],
    },
    Recipe {
        name: "emit_posix_function",
        source: "emit_posix.c",
        flags: &["-DOUT_OF_LINE", "-lposixtrace"],
    },
    Recipe {
        name: "getnext",
        source: "getnext.c",
        flags: OURS,
    },
    Recipe {
        name: "stream_memory",
        source: "stream_memory.c",
        flags: OURS,
    },
    Recipe {
        name: "processes",
        source: "processes.c",
        flags: OURS,
    },
    Recipe {
        name: "pingpong",
        source: "pingpong.c",
        flags: &[],
    },
    Recipe {
        name: "calls",
        source: "calls.c",
        flags: &["-fno-omit-frame-pointer"],
    },
    Recipe {
        name: "getppid",
        source: "getppid.c",
        flags: &[],
    },
    Recipe {
        name: "floor",
        source: "floor.c",
        flags: &[],
    },
    Recipe {
        name: "forks",
        source: "forks.c",
        flags: &[],
    },
    Recipe {
        name: "storm",
        source: "storm.c",
        flags: &[],
    },
];

/// Programs that need a library with trace logs.
pub const WITH_LOGS: &[Recipe] = &[
    Recipe {
        name: "log_write",
        source: "log_write.c",
        flags: OURS,
    },
    Recipe {
        name: "log_read",
        source: "log_read.c",
        flags: OURS,
    },
];

/// Programs with a trace point of LTTng-UST.
pub const LTTNG: &[Recipe] = &[
    Recipe {
        name: "emit_lttng",
        source: "emit_lttng.c",
        flags: &["-llttng-ust", "-ldl"],
    },
    Recipe {
        name: "latency_lttng",
        source: "emit_lttng.c",
        flags: &["-DLATENCY", "-llttng-ust", "-ldl"],
    },
];

/// Program with a function that uftrace traces.
pub const UFTRACE: Recipe = Recipe {
    name: "emit_uftrace",
    source: "emit_uftrace.c",
    flags: &["-pg"],
};

/// Compiles a program.
pub fn compile(recipe: &Recipe) -> anyhow::Result<()> {
    let sources = workspace::root().join("bench/programs");
    let dist = workspace::target("dist");
    process::run(
        Command::new("cc")
            .args(["-O2", "-Wall", "-Wextra", "-D_GNU_SOURCE", "-pthread"])
            .arg("-I")
            .arg(&sources)
            .arg("-I")
            .arg(dist.join("include"))
            .arg("-L")
            .arg(dist.join("lib"))
            .arg("-L")
            .arg(folder())
            .arg(format!("-Wl,-rpath,{}", folder().display()))
            .arg("-o")
            .arg(executable(recipe.name))
            .arg(sources.join(recipe.source))
            .args(recipe.flags),
    )
}

/// Returns the path of a program.
pub fn executable(name: &str) -> PathBuf {
    folder().join(name)
}

/// Returns a command that runs a program with the library of this build.
pub fn command(name: &str, arguments: &[u64]) -> Command {
    with_library(&executable(name), arguments.iter().map(u64::to_string))
}

/// Returns a command whose program loads the library of this build.
pub fn with_library(program: &Path, arguments: impl IntoIterator<Item = String>) -> Command {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env("LD_LIBRARY_PATH", workspace::target("dist/lib"));
    command
}

/// Lines "name value" that a program printed.
pub struct Printed(BTreeMap<String, f64>);

impl Printed {
    /// Runs a program to its end.
    pub fn by(command: &mut Command) -> anyhow::Result<Self> {
        Ok(Self::parse(&process::output(command)?))
    }

    /// Parses a program's output; other lines are skipped.
    pub fn parse(text: &str) -> Self {
        let value = |line: &str| {
            let (name, value) = line.split_once(' ')?;
            Some((name.to_owned(), value.trim().parse().ok()?))
        };
        Self(text.lines().filter_map(value).collect())
    }

    /// Returns a value that the program must have printed.
    pub fn get(&self, name: &str) -> anyhow::Result<f64> {
        let all = || self.0.keys().cloned().collect::<Vec<_>>().join(", ");
        self.0
            .get(name)
            .copied()
            .ok_or_else(|| anyhow!("the program printed no {name:?}, only: {}", all()))
            .context("a program of the benchmark does not fit it")
    }
}
