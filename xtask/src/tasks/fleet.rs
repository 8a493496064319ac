//! Traces of many hosts: the questions of `docs/fleet.md`, asked of each engine that it names.

use crate::tasks::{dist, recorder, ship};
use crate::{packages, privilege, process, python, workspace};

/// Arguments of the task.
#[derive(clap::Args)]
pub struct Args {
    /// Instead of comparing the answers, measure how long they take of so many hosts, which are
    /// made of those of the last test
    #[arg(long, value_name = "HOSTS")]
    scale: Option<u32>,
    /// With --scale, the number of slices that each host has
    #[arg(long, value_name = "COUNT", default_value_t = 1, requires = "scale")]
    slices: u32,
    /// Instead of comparing the answers, have so many hosts ship a slice a minute into one server,
    /// and measure what that costs
    #[arg(long, value_name = "HOSTS", conflicts_with = "scale")]
    ship: Option<u32>,
    /// With --ship, how long
    #[arg(long, value_name = "MINUTES", default_value_t = 60, requires = "ship")]
    minutes: u32,
    /// Only these engines: DuckDB, DataFusion, ClickHouse, Spark; may be given more than once
    #[arg(long, value_name = "ENGINE")]
    engine: Vec<String>,
}

/// Folder of the scripts.
const SCRIPTS: &str = "tests/fleet";

/// Records three hosts that work for each other, and compares the answers of the engines with each
/// other and with those of the tool; or measures.
pub fn run(args: &Args) -> anyhow::Result<()> {
    packages::install_missing(
        packages::TO_TEST_FLEETS
            .iter()
            .chain(packages::TO_TEST_POSTGRESQL),
    )?;
    let python = python::with_engines()?;
    let scripts = workspace::root().join(SCRIPTS);
    let folder = workspace::target("fleet");
    recorder::run()?;
    let dist = dist::run_for_tests()?;
    let tool = dist.join("bin/tracer-user");
    let why = "trace the programs of three hosts";
    if let Some(hosts) = args.scale {
        let counts = [hosts, args.slices].map(|count| count.to_string());
        let mut command = privilege::as_root(python, why)?;
        command.arg(scripts.join("scale.py"));
        command.arg(tool).arg(folder).args(counts);
        return process::run(command.args(&args.engine));
    }
    // Measured is what is shipped.
    let shipper = ship::build(if args.ship.is_some() {
        "shipped"
    } else {
        "dev"
    })?;
    let servers = python::for_fleets()?;
    // Their network is one that no other program of this machine is on.
    let mut command = privilege::as_root("env", why)?;
    let phoenix = servers.with_file_name("phoenix");
    command.arg(format!("PHOENIX={}", phoenix.display()));
    command.args(["unshare", "--net"]).arg(python);
    let script = if args.ship.is_some() {
        "cost.py"
    } else {
        "same_answers.py"
    };
    command.arg(scripts.join(script)).arg(tool);
    command.arg(dist.join("lib/libposixtrace.so.0"));
    command.arg(shipper).arg(folder);
    if let Some(hosts) = args.ship {
        command.args([hosts, args.minutes].map(|count| count.to_string()));
    }
    process::run(command.args(&args.engine))
}
