//! Attaches to a small instrumented program and prints the timeline.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, ensure};

use crate::tasks::{dist, setup};
use crate::{privilege, process, workspace};

/// Arguments of the demonstration.
#[derive(clap::Args)]
pub struct Args {
    /// How long to trace
    #[arg(long, value_name = "SECONDS", default_value_t = 4)]
    seconds: u32,
}

/// Program that is traced.
const SOURCE: &str = "tracer-posix/libposixtrace/examples/worker.c";

/// Time for which each worker holds the lock: long enough to read the timeline.
const HOLD_MILLISECONDS: &str = "100";

/// Sets up, builds, starts the program and attaches to it.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let why = "load the eBPF programs";
    privilege::check(why)?;
    setup::for_c_programs()?;
    let dist = dist::run_for_tests()?;
    let program = compile(&dist)?;
    let mut attach = privilege::as_root(dist.join("bin/tracer-user"), why)?;

    // It outlives the tracing, so that its end is not what stops it.
    let life = args.seconds.saturating_add(4).to_string();
    let worker = Command::new(&program)
        .args([&life, HOLD_MILLISECONDS])
        .env("LD_LIBRARY_PATH", dist.join("lib"))
        .stdin(Stdio::null())
        .spawn()
        .with_context(|| format!("cannot start {}", program.display()))?;
    let mut worker = EndsWithUs(worker);
    thread::sleep(Duration::from_millis(200));
    let ended = worker.0.try_wait().context("cannot look at the program")?;
    ensure!(ended.is_none(), "the program to trace ended at once");

    let pid = worker.0.id().to_string();
    let duration = args.seconds.to_string();
    attach.args(["attach", &pid, "--duration", &duration]);
    println!(
        "Tracing {SOURCE} for {duration} s: {}\n",
        process::shown(&attach)
    );
    process::run(&mut attach)
}

/// Compiles the program as any user of the library would.
fn compile(dist: &Path) -> anyhow::Result<PathBuf> {
    let flags = process::output(
        Command::new("pkg-config")
            .args(["--cflags", "--libs", "posixtrace"])
            .env("PKG_CONFIG_PATH", dist.join("lib/pkgconfig")),
    )?;
    let folder = workspace::target("demo");
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("cannot make {}", folder.display()))?;
    let program = folder.join("worker");
    process::run(
        Command::new("cc")
            .current_dir(workspace::root())
            .args(["-O2", "-g", "-Wall", "-Wextra", "-pthread", "-o"])
            .arg(&program)
            .arg(SOURCE)
            .args(flags.split_whitespace()),
    )?;
    Ok(program)
}

/// Child that is killed when this value is dropped, on every way out.
struct EndsWithUs(Child);

impl Drop for EndsWithUs {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
