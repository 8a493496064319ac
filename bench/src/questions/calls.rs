//! Cost that a program bears when all of its system calls are traced, with their arguments and
//! results.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::{self, sleep};
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};

use super::super::contest::{Contest, Goal, Run};
use super::super::meanwhile::{self, Whom};
use super::super::outcome::{Measure, Unit};
use super::super::programs;
use super::super::tools::{
    Bpftrace, COUNT, COUNT_WITHOUT_TIMES, EMPTY, Floor, Ftrace, LOG, LOG_OF_RESULTS,
    LOG_WITHOUT_TEXTS, Ours, OursCounting, OursIntoLog, PerfTrace, READING_CLOCK, Strace, Tool,
    What,
};
use super::super::workbench::{Workbench, has};
use super::programs::{inserting, rows_to_insert};
use super::{add_tools, compare_builds, with_other_build};
use crate::folder;
use xtask::process;

/// Greatest additional time of a program that reaches the goal, with and without texts.
const MOST_PERCENT: [f64; 2] = [30.0, 20.0];

/// Greatest cost of calls that are recorded as they end that reaches the goal, in per cent.
const MOST_PERCENT_OF_RESULTS: f64 = 15.0;

/// Greatest cost of a counted call, beside that of programs that read the clock, that reaches the
/// goal.
const MOST_COUNTED: f64 = 1.25;

/// Part of what recording adds that counting may add.
const HALF: f64 = 0.5;

/// Greatest cost of an untraced call, beside that of programs that do nothing, that reaches the
/// goal.
const MOST_UNTRACED: f64 = 1.2;

/// Compares what tracing adds to a call that does nothing.
pub fn traced(bench: &Workbench) -> anyhow::Result<Contest<'_>> {
    let mut contest = one_call(
        bench,
        "What does it add to a call of getppid() that it is recorded, with its time, its arguments and its \
         result? The first lines are the least that a tracer by eBPF costs: programs at entry and exit that do \
         nothing, and such that read the clock once each.",
        Whom::It,
        vec![
            floor(What::Calls, false),
            floor(What::Calls, true),
            Box::new(OursIntoLog::Whole(What::Calls)),
            Box::new(OursIntoLog::WithoutTexts(What::Calls)),
            Box::new(Ftrace(What::Calls)),
            Box::new(Bpftrace::Counting(What::Calls)),
        ],
    );
    for log in [LOG, LOG_WITHOUT_TEXTS] {
        contest.goal(log, Goal::PartOf("ftrace", 1.0));
    }
    compare_builds(&mut contest, bench, LOG);
    Ok(contest)
}

/// Compares what recording calls as they end adds to a call that does nothing.
pub fn results(bench: &Workbench) -> anyhow::Result<Contest<'_>> {
    Ok(one_call(
        bench,
        "What does it add to a call of getppid() that it is recorded as it ends, with its result, and not how long \
         it took? The first lines are the least: a program at the end that does nothing, and one that reads the \
         clock.",
        Whom::It,
        vec![
            floor(What::Results, false),
            floor(What::Results, true),
            Box::new(OursIntoLog::Whole(What::Results)),
            Box::new(OursIntoLog::WithoutTexts(What::Results)),
            Box::new(OursIntoLog::WithoutTexts(What::Calls)),
            Box::new(Bpftrace::Counting(What::Results)),
        ],
    ))
}

/// Compares what counting adds to a call that does nothing.
pub fn counted(bench: &Workbench) -> anyhow::Result<Contest<'_>> {
    let mut contest = one_call(
        bench,
        "What does it add to a call of getppid() that it is counted in the kernel, with its result and how long \
         it took, and not recorded? The first lines are the least that any tracer by eBPF costs which measures \
         that; of one that takes no times, the least is a program at the end that does nothing.",
        Whom::It,
        vec![
            floor(What::Calls, false),
            floor(What::Calls, true),
            floor(What::Results, false),
            Box::new(OursCounting::WithTimes),
            Box::new(OursCounting::WithoutTimes),
            Box::new(OursIntoLog::WithoutTexts(What::Calls)),
            Box::new(Bpftrace::Counting(What::Calls)),
        ],
    );
    contest.goal(COUNT, Goal::PartOf(READING_CLOCK, MOST_COUNTED));
    for count in [COUNT, COUNT_WITHOUT_TIMES] {
        contest.goal(count, Goal::PartOf(LOG_WITHOUT_TEXTS, HALF));
    }
    Ok(contest)
}

/// Compares what tracing another process adds to a call.
pub fn untraced(bench: &Workbench) -> anyhow::Result<Contest<'_>> {
    let mut contest = one_call(
        bench,
        "What does it add to a call of getppid() of a process that is not traced, that all calls of another one \
         are? The first lines are the kernel's part: a call of programs at entry and exit that do nothing, and at \
         the exit alone.",
        Whom::Another,
        vec![
            floor(What::Calls, false),
            floor(What::Results, false),
            Box::new(OursIntoLog::Whole(What::Calls)),
            Box::new(OursIntoLog::Whole(What::Results)),
            Box::new(OursIntoLog::WithDescriptors),
            Box::new(OursCounting::WithTimes),
            Box::new(Ftrace(What::Calls)),
            Box::new(Bpftrace::Counting(What::Results)),
        ],
    );
    contest.goal(LOG, Goal::PartOf(EMPTY, MOST_UNTRACED));
    compare_builds(&mut contest, bench, LOG);
    Ok(contest)
}

/// Compares counting the calls of a database with recording them.
pub fn sqlite_counted(bench: &Workbench) -> anyhow::Result<Contest<'_>> {
    let rows = bench.work(40_000);
    let question = "What does it add to sqlite3 when all of its system calls are counted in the kernel, with their \
                    errors and times, while it inserts rows as above?";
    let mut contest = Contest::new(question, Unit::Seconds).showing(Measure::AddedPercent);
    contest.goal(COUNT, Goal::PartOf(LOG_WITHOUT_TEXTS, HALF));
    inserting_rows(
        contest,
        rows,
        vec![
            floor(What::Calls, true),
            Box::new(OursCounting::WithTimes),
            Box::new(OursCounting::WithoutTimes),
            Box::new(OursIntoLog::WithoutTexts(What::Calls)),
            Box::new(OursIntoLog::Whole(What::Calls)),
        ],
    )
}

/// Compares recording the calls of a database as they end with recording them whole.
pub fn sqlite_results(bench: &Workbench) -> anyhow::Result<Contest<'_>> {
    let rows = bench.work(40_000);
    let question = "What does it add to sqlite3 when all of its system calls are recorded as they end, with their \
                    results and without times, while it inserts rows as above?";
    let mut contest = Contest::new(question, Unit::Seconds).showing(Measure::AddedPercent);
    contest.goal(LOG_OF_RESULTS, Goal::Below(MOST_PERCENT_OF_RESULTS));
    inserting_rows(
        contest,
        rows,
        vec![
            floor(What::Results, false),
            floor(What::Results, true),
            Box::new(OursIntoLog::Whole(What::Results)),
            Box::new(OursIntoLog::WithoutTexts(What::Results)),
            Box::new(OursIntoLog::WithoutTexts(What::Calls)),
        ],
    )
}

fn floor(of: What, reads_clock: bool) -> Box<dyn Tool> {
    Box::new(Floor { of, reads_clock })
}

fn one_call<'a>(
    bench: &'a Workbench,
    question: &'static str,
    whom: Whom,
    tools: Vec<Box<dyn Tool>>,
) -> Contest<'a> {
    let mut contest = Contest::new(question, Unit::Ns);
    let tools = with_other_build(bench, What::Calls, tools);
    add_tools(&mut contest, tools, move |tool| {
        let mut program = programs::command("getppid", &[]);
        meanwhile::attach(tool, &mut program, whom, bench.phase()).map(meanwhile::Costs::added)
    });
    contest
}

fn contest<'a>(question: &'static str) -> Contest<'a> {
    let mut contest = Contest::new(question, Unit::Seconds).showing(Measure::AddedPercent);
    let [with_texts, without] = MOST_PERCENT;
    contest.goal(LOG, Goal::Below(with_texts));
    contest.goal(LOG_WITHOUT_TEXTS, Goal::Below(without));
    for log in [LOG, LOG_WITHOUT_TEXTS] {
        contest.goal(log, Goal::PartOf("ftrace", 1.0));
    }
    contest
}

fn tools() -> Vec<Box<dyn Tool>> {
    vec![
        floor(What::Calls, false),
        floor(What::Calls, true),
        Box::new(OursIntoLog::Whole(What::Calls)),
        Box::new(OursIntoLog::WithoutTexts(What::Calls)),
        Box::new(Ours(What::Calls)),
        Box::new(Ftrace(What::Calls)),
        Box::new(PerfTrace::Syscalls),
        Box::new(Strace::Everything),
    ]
}

/// Compares tracers of a database that commits one row after the other: 31 calls per row, and
/// little else.
pub fn sqlite(bench: &Workbench) -> anyhow::Result<Contest<'_>> {
    let rows = bench.work(16_000);
    let contest = contest(
        "What does it add to sqlite3 when all of its system calls are traced, while it inserts rows \
         into a file in memory, each in a transaction of its own? tracer-user, strace and perf \
         trace print each call with its arguments; ftrace notes registers in its ring. Programs that do nothing, \
         and such that read the clock, are the least that a tracer by eBPF costs.",
    );
    inserting_rows(contest, rows, tools())
}

/// Has a database insert so many rows while each of these tools traces it.
fn inserting_rows<'a>(
    mut contest: Contest<'a>,
    rows: u64,
    tools: Vec<Box<dyn Tool>>,
) -> anyhow::Result<Contest<'a>> {
    if !has("sqlite3") {
        contest.missing("everyone: sqlite3, which is the work, is not installed");
        return Ok(contest);
    }
    let script = folder().join("calls.sql");
    std::fs::write(&script, rows_to_insert(rows))?;
    contest.peer("untraced", {
        let script = script.clone();
        move || inserting(None, &script)
    });
    add_tools(&mut contest, tools, move |tool| {
        inserting(Some(tool), &script)
    });
    Ok(contest)
}

/// Compares tracers of a server that answers one request after the other.
pub fn redis(bench: &Workbench) -> anyhow::Result<Contest<'_>> {
    let requests = bench.work(50_000);
    let mut contest = contest(
        "What does it add to the time in which redis answers requests (SET, GET) of redis-benchmark \
         over loopback, 50 connections, when all system calls of the server are traced?",
    );
    for program in ["redis-server", "redis-benchmark"] {
        if !has(program) {
            contest.missing(format!(
                "everyone: {program}, which is the work, is not installed"
            ));
            return Ok(contest);
        }
    }
    contest.peer("untraced", move || asking(None, requests));
    add_tools(&mut contest, tools(), move |tool| {
        asking(Some(tool), requests)
    });
    Ok(contest)
}

/// Redis, without a file. Killed when dropped.
#[derive(Debug)]
pub(super) struct Server {
    child: Child,
    port: String,
}

impl Server {
    /// Starts it, and waits until it accepts connections.
    pub(super) fn start() -> anyhow::Result<Self> {
        // Free a moment ago.
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let port = port.to_string();
        let mut command = Command::new("redis-server");
        command
            .args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
            .args(["--port", &port, "--dir"])
            .arg(folder());
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .context("cannot start redis-server")?;
        let server = Self { child, port };
        for _ in 0..200 {
            if std::net::TcpStream::connect(("127.0.0.1", server.port.parse()?)).is_ok() {
                return Ok(server);
            }
            sleep(Duration::from_millis(50));
        }
        bail!("redis-server accepts no connection")
    }

    /// Measures the time of so many requests of each kind by each of so many clients, which ask at
    /// once: the mean of theirs.
    pub(super) fn ask(
        &self,
        tool: Option<&dyn Tool>,
        requests: u64,
        clients: usize,
    ) -> anyhow::Result<Run> {
        let attached = tool
            .map(|tool| tool.attach(&[self.child.id()]))
            .transpose()?;
        let times = thread::scope(|scope| {
            let client = || scope.spawn(|| self.time_of(requests));
            let started: Vec<_> = std::iter::repeat_with(client).take(clients).collect();
            let times = started.into_iter().map(|client| {
                let joined = client.join();
                joined.map_err(|_panic| anyhow!("a client's thread has panicked"))?
            });
            times.collect::<anyhow::Result<Vec<f64>>>()
        })?;
        let seen = attached.map(|attached| attached.finish()).transpose()?;
        let all: f64 = times.iter().sum();
        let run = Run::new(all / super::super::tools::as_float(u64::try_from(clients)?));
        Ok(match seen {
            Some(seen) => seen.beside(run),
            None => run,
        })
    }

    /// Returns the seconds that redis-benchmark takes for so many requests of each kind.
    fn time_of(&self, requests: u64) -> anyhow::Result<f64> {
        let printed = process::output(
            Command::new(Path::new("redis-benchmark"))
                .args(["-h", "127.0.0.1", "-p", &self.port, "-t", "set,get"])
                .args(["-n", &requests.to_string(), "--csv"]),
        )?;
        seconds(&printed, requests)
            .with_context(|| format!("redis-benchmark has printed: {printed}"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Measures the time of the requests to a server of their own.
fn asking(tool: Option<&dyn Tool>, requests: u64) -> anyhow::Result<Run> {
    Server::start()?.ask(tool, requests, 1)
}

/// Sums the time that `requests` requests of each kind took: of each kind, a line has its name and
/// the rate per second.
fn seconds(csv: &str, requests: u64) -> Option<f64> {
    let rates: Vec<f64> = csv
        .lines()
        .filter_map(|line| line.split(',').nth(1)?.trim_matches('"').parse().ok())
        .collect();
    let requests = super::super::tools::as_float(requests);
    (!rates.is_empty()).then(|| rates.iter().map(|rate| requests / rate).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_all_requests_follows_from_their_rates() {
        let csv = "\"test\",\"rps\",\"avg_latency_ms\"\n\"SET\",\"100.00\",\"0.1\"\n\
                   \"GET\",\"50.00\",\"0.1\"\n";

        assert_eq!(seconds(csv, 200), Some(6.0));
        assert_eq!(seconds("", 200), None);
    }
}
