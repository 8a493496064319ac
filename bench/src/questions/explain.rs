//! Cost of explaining why a program is slow while it runs.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;

use anyhow::{Context as _, ensure};

use super::super::contest::{Contest, Goal, Run};
use super::super::outcome::{Measure, Unit};
use super::super::tools::{EXPLAIN, OursExplain, Tool};
use super::super::workbench::{Workbench, has};
use super::add_tools;
use super::calls::Server;
use super::programs::{inserting, rows_to_insert};
use crate::folder;
use xtask::process;

/// Most that it may add to the time that a program takes, in percent.
const MOST_PERCENT: f64 = 5.0;

fn contest<'a>(question: &'static str) -> Contest<'a> {
    let mut contest = Contest::new(question, Unit::Seconds).showing(Measure::AddedPercent);
    contest.goal(EXPLAIN, Goal::Below(MOST_PERCENT));
    contest
}

/// Tells whether these programs are installed, and says so where one is not.
fn have(contest: &mut Contest<'_>, programs: &[&str]) -> bool {
    let missing = programs.iter().find(|program| !has(program));
    if let Some(program) = missing {
        contest.missing(format!(
            "everyone: {program}, which is the work, is not installed"
        ));
    }
    missing.is_none()
}

fn explained<'a>(
    contest: &mut Contest<'a>,
    run: impl Fn(Option<&dyn Tool>) -> anyhow::Result<Run> + Clone + 'a,
) {
    let untraced = run.clone();
    contest.peer("untraced", move || untraced(None));
    add_tools(contest, vec![Box::new(OursExplain)], move |tool| {
        run(Some(tool))
    });
}

/// Measures a database that makes half a million system calls a second.
pub fn sqlite(bench: &Workbench) -> anyhow::Result<Contest<'_>> {
    let rows = bench.work(40_000);
    let mut contest = contest(
        "What does `explain` add to sqlite3, which inserts rows into a file in memory, each in a \
         transaction of its own?",
    );
    if have(&mut contest, &["sqlite3"]) {
        let script = folder().join("explain.sql");
        std::fs::write(&script, rows_to_insert(rows))?;
        explained(&mut contest, move |tool| inserting(tool, &script));
    }
    Ok(contest)
}

/// Measures a server that answers one request after the other: one server, since the next one may
/// be a tenth faster or slower.
pub fn redis(bench: &Workbench) -> anyhow::Result<Contest<'_>> {
    let requests = bench.work(100_000);
    let mut contest = contest(
        "What does `explain` of the server add to the time in which redis, one server for all \
         runs, answers requests (SET, GET) over loopback (two redis-benchmark at once, of 50 \
         connections each, so that no CPU is idle)?",
    );
    if have(&mut contest, &["redis-server", "redis-benchmark"]) {
        let server = Server::start()?;
        // Its first requests have pages and connections to make.
        server.ask(None, requests, REDIS_CLIENTS)?;
        let server = Rc::new(server);
        explained(&mut contest, move |tool| {
            server.ask(tool, requests, REDIS_CLIENTS)
        });
    }
    Ok(contest)
}

/// Clients of redis: with one of two threads, redis-benchmark looks every quarter of a second
/// whether it is at its end.
const REDIS_CLIENTS: usize = 2;

/// Measures a database of several processes.
pub fn pgbench(bench: &Workbench) -> anyhow::Result<Contest<'_>> {
    let transactions = bench.work(24_000);
    let mut contest = contest(
        "What does `explain` of PostgreSQL, all of its processes, add to the time of transactions \
         of pgbench (-S, eight clients over a socket of the machine, so that no CPU is idle)?",
    );
    let Some(server) = Postgres::find() else {
        contest.missing("everyone: PostgreSQL, which is the work, is not installed");
        return Ok(contest);
    };
    if have(&mut contest, &["pgbench", "runuser"]) {
        server.prepare()?;
        let server = Rc::new(server);
        explained(&mut contest, move |tool| server.serve(tool, transactions));
    }
    Ok(contest)
}

/// Clients of pgbench.
const CLIENTS: &str = "8";

/// PostgreSQL, with a folder of its own.
#[derive(Debug)]
struct Postgres {
    /// Folder of its programs.
    programs: PathBuf,
    /// Folder of its data and its socket, of the user `postgres`.
    data: PathBuf,
}

impl Postgres {
    /// Finds the newest one as Debian has it.
    fn find() -> Option<Self> {
        let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
        let programs = versions.filter_map(|version| Some(version.ok()?.path().join("bin")));
        let programs = programs.filter(|folder| folder.join("initdb").exists());
        Some(Self {
            programs: programs.max()?,
            data: Path::new("/dev/shm").join(format!("bench-postgres-{}", std::process::id())),
        })
    }

    /// Runs a program as the user `postgres`.
    fn run(&self, program: &Path, arguments: &[&str]) -> anyhow::Result<String> {
        let mut command = Command::new("runuser");
        command.args(["-u", "postgres", "--"]).arg(program);
        process::output(command.args(arguments).current_dir("/dev/shm"))
    }

    fn data(&self) -> anyhow::Result<&str> {
        self.data.to_str().context("a folder without a name")
    }

    fn prepare(&self) -> anyhow::Result<()> {
        let data = self.data()?;
        self.run(&self.programs.join("initdb"), &["-D", data, "-A", "trust"])?;
        self.start()?;
        let filled = self.run(
            Path::new("pgbench"),
            &["-h", data, "-i", "-s", "1", "-q", "postgres"],
        );
        self.stop()?;
        filled.map(drop)
    }

    fn start(&self) -> anyhow::Result<()> {
        let data = self.data()?;
        let options = format!("-k {data} -c listen_addresses= -c fsync=off");
        let log = format!("{data}/log");
        self.run(
            &self.programs.join("pg_ctl"),
            &["-D", data, "-o", &options, "-l", &log, "-w", "start"],
        )?;
        Ok(())
    }

    fn stop(&self) -> anyhow::Result<()> {
        let data = self.data()?;
        let arguments = ["-D", data, "-m", "fast", "-w", "stop"];
        self.run(&self.programs.join("pg_ctl"), &arguments)?;
        Ok(())
    }

    /// Returns the pid of the process that makes all others.
    fn pid(&self) -> anyhow::Result<u32> {
        let file = std::fs::read_to_string(self.data.join("postmaster.pid"))?;
        let first = file.lines().next().context("postmaster.pid is empty")?;
        Ok(first.trim().parse()?)
    }

    /// Measures the time of so many transactions of each client. There are more of these than CPUs:
    /// a CPU that is idle now and then, and is woken, varies by more than what is looked for.
    fn serve(&self, tool: Option<&dyn Tool>, transactions: u64) -> anyhow::Result<Run> {
        self.start()?;
        let run = self.measured(tool, transactions);
        self.stop()?;
        run
    }

    fn measured(&self, tool: Option<&dyn Tool>, transactions: u64) -> anyhow::Result<Run> {
        let pid = self.pid()?;
        let attached = tool.map(|tool| tool.attach(&[pid])).transpose()?;
        let count = transactions.to_string();
        let printed = self.run(
            Path::new("pgbench"),
            &[
                "-h",
                self.data()?,
                "-n",
                "-S",
                "-c",
                CLIENTS,
                "-j",
                "2",
                "-t",
                &count,
                "postgres",
            ],
        )?;
        let rate = rate(&printed).with_context(|| format!("pgbench has printed: {printed}"))?;
        ensure!(rate > 0.0, "pgbench has made no transaction");
        let seen = attached.map(|attached| attached.finish()).transpose()?;
        let all = transactions * CLIENTS.parse::<u64>()?;
        let run = Run::new(super::super::tools::as_float(all) / rate);
        Ok(match seen {
            Some(seen) => seen.beside(run),
            None => run,
        })
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.data);
    }
}

/// Returns the transactions a second that `pgbench` prints.
fn rate(printed: &str) -> Option<f64> {
    let line = printed
        .lines()
        .find_map(|line| line.strip_prefix("tps = "))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_that_of_all_transactions() {
        let printed =
            "latency average = 0.081 ms\ntps = 24691.358025 (without initial connection time)\n";
        assert_eq!(rate(printed), Some(24691.358025));
        assert_eq!(rate("latency average = 0.081 ms"), None);
    }
}
