//! PostgreSQL under pgbench, read by all readers: the same events, each as often.
//!
//! `cargo xtask test --postgresql` runs it: a data base is more than most people want to install
//! for a test.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod same_events;

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;
use tempfile::TempDir;

use same_events::EVENTS;
use tests::beside_strace::{self, Beside, HUNDRED, Shown, assert_agrees};
use tests::dist;
use tests::log_reader::{Log, integer, text};

/// Transactions of each of two clients.
const TRANSACTIONS: usize = 100;

/// A server that is started, used and stopped: all of it below one command.
const SCRIPT: &str = "
    set -e
    pg_ctl -s -w -D \"$1/data\" -l \"$1/server\" \\
        -o \"-k $1 -c listen_addresses= -c fsync=off -c shared_buffers=16MB\" start
    pgbench -h \"$1\" -i -s 1 -q postgres
    pgbench -h \"$1\" -n -c 2 -j 2 -t $2 postgres
    pg_ctl -s -w -D \"$1/data\" stop";

/// Returns the folder in which Debian puts the programs, which is not on the path.
fn programs() -> anyhow::Result<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
    let folders = versions.filter_map(|version| Some(version.ok()?.path().join("bin")));
    let found = folders
        .filter(|folder| folder.join("initdb").exists())
        .max();
    found.context("no PostgreSQL; run: cargo xtask test --postgresql")
}

/// A command that runs as the user of the data base: it refuses to run as root.
fn as_its_user(folder: &Path, program: &str) -> anyhow::Result<Command> {
    let path = std::env::join_paths([programs()?, "/usr/bin".into(), "/bin".into()])?;
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid=postgres", "--regid=postgres", "--clear-groups"])
        .args(["env", "-i", "LC_ALL=C"])
        .arg(format!("PATH={}", path.display()))
        .arg(format!("HOME={}", folder.display()))
        .arg(program)
        .current_dir(folder);
    Ok(command)
}

fn succeed(command: &mut Command) -> anyhow::Result<String> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.success(), "{command:?}: {said}");
    Ok(String::from_utf8(output.stdout)?)
}

/// Makes a data base in the folder, which is then its user's.
fn make(folder: &Path) {
    fs::set_permissions(folder, Permissions::from_mode(0o755)).unwrap();
    let data = folder.join("data");
    fs::create_dir(&data).unwrap();
    succeed(Command::new("chown").args(["-R", "postgres:"]).arg(folder)).unwrap();
    let mut initdb = as_its_user(folder, "initdb").unwrap();
    succeed(initdb.args(["--no-sync", "--auth=trust", "-D"]).arg(&data)).unwrap();
}

fn log(folder: &TempDir) -> Log {
    let folder = folder.path();
    make(folder);
    Log::written_by(|log| {
        let script = as_its_user(folder, "sh")?;
        let said = succeed(
            Command::new(dist::tracer_user()?)
                .args(["run", "--events", EVENTS, "--log"])
                .arg(log)
                .arg("--")
                .arg(script.get_program())
                .args(script.get_args())
                .args(["-c", SCRIPT, "sh"])
                .arg(folder)
                .arg(TRANSACTIONS.to_string())
                .current_dir(folder),
        )?;
        let done = format!("actually processed: {0}/{0}", 2 * TRANSACTIONS);
        anyhow::ensure!(said.contains(&done), "{said}");
        Ok(())
    })
    .unwrap()
}

#[test]
#[ignore = "loads eBPF programs"]
fn all_readers_show_the_same_events_of_pgbench() {
    let folder = tempfile::tempdir().unwrap();
    let log = log(&folder);
    let events = same_events::all_readers_show_the_same(&log);

    // Each transaction ends with a commit that its client waits for.
    let wakeups = events.iter().filter(|event| {
        let data = &event["data"];
        text(event, "type") == "linux_trace_wakeup"
            && text(event, "comm") == "pgbench"
            && text(data, "waker_comm") == "postgres"
            && integer(data, "waker_tid") > 0
    });
    let wakeups = wakeups.count();
    assert!(wakeups >= TRANSACTIONS, "{wakeups}");
    println!("{} events", events.len());
}

#[test]
#[ignore = "loads eBPF programs"]
fn its_calls_are_the_lines_of_strace() {
    let beside = Beside::new().unwrap();
    let work = beside.work();
    let above = work.parent().unwrap();
    fs::set_permissions(above, Permissions::from_mode(0o755)).unwrap();
    make(&work);
    let script = beside_strace::programs().join(beside_strace::SCRIPTS);
    let script = fs::read_to_string(script).unwrap();
    let mut command = as_its_user(&work, "sh").unwrap();
    let compared = beside
        .compare(
            Shown::Paths,
            command.args(["-c", &script, "sh", "postgresql"]),
        )
        .unwrap();
    assert_agrees("PostgreSQL", &compared, |name| HUNDRED.contains(&name));
}

/// A session that waits for a row which another one holds, for more than the second after which a
/// timer wakes it to look for deadlocks. Both say which processes they are, and the one that waits
/// says for how long.
const LOCK: &str = "
    set -e
    pg_ctl -s -w -D \"$1/data\" -l \"$1/server\" \\
        -o \"-k $1 -c listen_addresses= -c fsync=off -c shared_buffers=16MB\" start
    sql() { psql -q -A -t -h \"$1\" postgres; }
    echo 'create table t (n int); insert into t values (0)' | sql \"$1\"
    printf '%s\\n' '\\echo holder' 'select pg_backend_pid();' \\
        'begin; update t set n = 1; select pg_sleep(3); commit;' | sql \"$1\" &
    until echo 'select wait_event from pg_stat_activity' | sql \"$1\" | grep -q PgSleep; do :; done
    printf '%s\\n' '\\echo waiter' 'select pg_backend_pid();' \\
        '\\timing on' 'update t set n = 2;' | sql \"$1\"
    wait
    pg_ctl -s -w -D \"$1/data\" stop";

/// Returns the word behind this one in what a script says.
fn word_behind<'a>(said: &'a str, word: &str) -> &'a str {
    let mut words = said.split([' ', '.', '\n']);
    words
        .find(|one| *one == word)
        .unwrap_or_else(|| panic!("no {word}: {said}"));
    words.next().unwrap()
}

#[test]
#[ignore = "loads eBPF programs"]
fn a_wait_for_a_row_is_one_wait_as_long_as_the_client_says_and_ends_by_who_held_it() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    make(folder);
    let mut said = String::new();
    let log = Log::written_by(|log| {
        let script = as_its_user(folder, "sh")?;
        said = succeed(
            Command::new(dist::tracer_user()?)
                .args(["run", "--log"])
                .arg(log)
                .arg("--")
                .arg(script.get_program())
                .args(script.get_args())
                .args(["-c", LOCK, "sh"])
                .arg(folder)
                .current_dir(folder),
        )?;
        Ok(())
    })
    .unwrap();
    let waiter = word_behind(&said, "waiter");
    let holder: i64 = word_behind(&said, "holder").parse().unwrap();
    let waited_ms: u64 = word_behind(&said, "Time:").parse().unwrap();
    assert!(waited_ms > 1_500, "{said}");

    let output = log
        .run("why", &["--thread", waiter, "--format", "json"])
        .unwrap();
    let why: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let parts = why["slowest"][0]["parts"].as_array().unwrap();
    let waits = parts.iter().filter(|part| part["in"] == "epoll_wait");
    let waits: Vec<_> = waits.collect();
    let by_holder = waits
        .iter()
        .find(|part| part["waker"]["thread"]["pid"] == holder);
    let told = by_holder.unwrap_or_else(|| panic!("{holder}: {waits:#?}"));
    assert_eq!(told["count"], 1, "{told}");
    let told_ms = integer(told, "ns").unsigned_abs() / 1_000_000;
    assert!(
        told_ms.abs_diff(waited_ms) < waited_ms / 20,
        "{told_ms} {waited_ms}"
    );
    let by_timer = waits.iter().filter(|part| part["waker"]["kind"] == "timer");
    assert_eq!(by_timer.count(), 0, "{waits:#?}");
}
