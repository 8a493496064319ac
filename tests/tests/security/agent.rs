//! Hostile users around the agent that gives the kernel's events to programs.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tests::attacker::{
    ATTACKER, MOST_MEMORY_KIB, VICTIM, command_as, delay_limit, give, open_to_all, peak_kib,
};
use tests::dist;
use tests::rights::missing_right;
use tests::target::{Target, values_after};
use tests::wait_until;

/// Makes a folder that all users may read, with the programs in it.
fn stage() -> anyhow::Result<tempfile::TempDir> {
    let folder = tempfile::tempdir()?;
    open_to_all(folder.path())?;
    for program in ["attack_agent", "kernel_events"] {
        dist::compile(program, folder.path())?;
    }
    dist::compile_static("agent_asker", folder.path())?;
    Ok(folder)
}

/// Runs `agent_asker`, which finds `agent` in its environment, and returns what it prints; nothing
/// where it takes too long.
fn ask(asker: Command, agent: &Path) -> Vec<String> {
    let mut limited = Command::new("timeout");
    limited.args(["--kill-after=1", "20"]);
    limited.arg(asker.get_program()).args(asker.get_args());
    let output = limited.env("LINUX_TRACE_AGENT", agent).output();
    let output = output.expect("it can be started");
    let said = String::from_utf8_lossy(&output.stdout);
    said.lines().map(str::to_owned).collect()
}

#[test]
#[ignore = "needs root: makes processes of other users"]
fn an_agent_of_another_user_is_not_believed() {
    if missing_right().is_some() {
        return;
    }
    let folder = stage().unwrap();
    let theirs = folder.path().join("theirs");
    fs::create_dir(&theirs).unwrap();
    give(&theirs, ATTACKER).unwrap();
    let forged = theirs.join("agent.sock");
    let mut attack = command_as(ATTACKER, folder.path().join("attack_agent"));
    let _attack = Target::start(attack.arg("listen").arg(&forged)).unwrap();

    let asker = folder.path().join("agent_asker");
    for user in [0, VICTIM] {
        let start = Instant::now();
        let said = ask(command_as(user, &asker), &forged);
        assert_eq!(said, [format!("created {}", libc::EPERM)], "user {user}");
        assert!(start.elapsed() < delay_limit());
    }
    // To its own user it is an agent as good as any; what it sends is bounded all the same.
    let start = Instant::now();
    let said = ask(command_as(ATTACKER, &asker), &forged);
    assert_eq!(said[0], "created 0");
    assert!(start.elapsed() < 2 * delay_limit());
}

#[test]
#[ignore = "needs root: makes a set-user-ID program"]
fn a_program_with_special_rights_does_not_look_where_its_caller_says() {
    if missing_right().is_some() {
        return;
    }
    let folder = stage().unwrap();
    let theirs = folder.path().join("theirs");
    fs::create_dir(&theirs).unwrap();
    give(&theirs, VICTIM).unwrap();
    // This one would be believed: it is of the user that the program becomes.
    let agent = theirs.join("agent.sock");
    let mut listener = command_as(VICTIM, folder.path().join("attack_agent"));
    let _listener = Target::start(listener.arg("listen").arg(&agent)).unwrap();
    let asker = folder.path().join("agent_asker");
    assert_eq!(ask(command_as(VICTIM, &asker), &agent)[0], "created 0");

    let special = folder.path().join("special");
    fs::copy(&asker, &special).unwrap();
    give(&special, VICTIM).unwrap();
    fs::set_permissions(&special, fs::Permissions::from_mode(0o4755)).unwrap();
    let said = ask(command_as(ATTACKER, &special), &agent);
    assert_eq!(said, [format!("created {}", libc::ENOTSUP)]);
}

/// A tracer with a command that writes down where the agent is, waits for a line, and then is the
/// victim: `kernel_events`, which checks all that it gets.
struct Scene {
    tracer: Child,
    agent: PathBuf,
    output: PathBuf,
    pid: i32,
}

impl Scene {
    /// `before` is what the command does first, in words of the shell.
    fn start(folder: &Path, options: &[&str], before: &str) -> anyhow::Result<Self> {
        let (address, output) = (folder.join("address"), folder.join("output"));
        let script = format!(
            "printf %s \"$LINUX_TRACE_AGENT\" > {address}.new; mv {address}.new {address}; {before}\n\
             read go; exec {victim} > {output}",
            address = address.display(),
            victim = folder.join("kernel_events").display(),
            output = output.display(),
        );
        let mut tracer = Command::new("prlimit");
        tracer.args(["--nofile=1024:1024"]);
        tracer.arg(dist::tracer_user()?).args(["run", "--output"]);
        tracer.arg("/dev/null").args(options);
        tracer.args(["--", "sh", "-c", &script]);
        let tracer = tracer
            .env("LINUX_TRACE_KERNEL_EVENTS", "1")
            .env("LD_LIBRARY_PATH", dist::folder()?.join("lib"))
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let agent = wait_until("the agent's address", Duration::from_secs(30), || {
            Ok(fs::read_to_string(&address).ok().map(PathBuf::from))
        })?;
        let pid = i32::try_from(tracer.id())?;
        Ok(Self {
            tracer,
            agent,
            output,
            pid,
        })
    }

    /// Lets the victim go, and returns what it said and what the tracer did.
    fn end(mut self) -> anyhow::Result<(String, String)> {
        if let Some(mut input) = self.tracer.stdin.take() {
            input.write_all(b"go\n")?;
        }
        let output = self.tracer.wait_with_output()?;
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        Ok((fs::read_to_string(&self.output)?, errors))
    }
}

#[test]
#[ignore = "loads eBPF"]
fn more_connections_than_there_are_descriptors_do_not_end_the_agent() {
    if missing_right().is_some() {
        return;
    }
    let folder = stage().unwrap();
    let scene = Scene::start(folder.path(), &[], "").unwrap();
    let mut attack = command_as(ATTACKER, folder.path().join("attack_agent"));
    attack.arg("connect").arg(&scene.agent).arg("1135");
    let _attack = Target::start(&mut attack).unwrap();

    let start = Instant::now();
    let (said, errors) = scene.end().unwrap();
    assert_eq!(said, "ok\n", "{errors}");
    assert!(start.elapsed() < 4 * delay_limit(), "{:?}", start.elapsed());
}

#[test]
#[ignore = "loads eBPF"]
fn no_other_user_can_take_the_agents_name() {
    if missing_right().is_some() {
        return;
    }
    let folder = stage().unwrap();
    let scene = Scene::start(folder.path(), &[], "").unwrap();
    let agent = scene.agent.clone();
    let (said, errors) = scene.end().unwrap();
    assert_eq!(said, "ok\n", "{errors}");
    // The trace is over, and its name is free.
    let mut attack = command_as(ATTACKER, folder.path().join("attack_agent"));
    attack.arg("listen").arg(&agent);
    let taken = Target::start(attack.stderr(Stdio::null()));
    assert!(taken.is_err(), "{} was taken", agent.display());
}

#[test]
#[ignore = "loads eBPF"]
fn a_user_gets_a_share_of_the_subscriptions_and_of_their_memory() {
    if missing_right().is_some() {
        return;
    }
    let folder = stage().unwrap();
    let (end, said) = (folder.path().join("end"), folder.path().join("said"));
    // A process of the traced family, but of another user; it holds its subscriptions until the
    // pipe ends.
    let attacker = format!(
        "mkfifo {end}; setpriv --reuid={ATTACKER} --regid={ATTACKER} --clear-groups -- \
         {program} subscribe \"$LINUX_TRACE_AGENT\" 32 < {end} > {said} & exec 9> {end}; \
         chmod 666 {end}",
        end = end.display(),
        said = said.display(),
        program = folder.path().join("attack_agent").display(),
    );
    let options = ["--syscalls", "getppid", "--stream-size", "1M"];
    let scene = Scene::start(folder.path(), &options, &attacker).unwrap();
    let all = wait_until("300,000 system calls", Duration::from_secs(60), || {
        let said = fs::read_to_string(&said).unwrap_or_default();
        let said: Vec<String> = said.lines().map(str::to_owned).collect();
        Ok(said.iter().any(|line| line == "ready").then_some(said))
    })
    .unwrap();
    let granted = values_after(&all, "granted").unwrap()[0][0];
    assert_eq!(granted, 16, "half of what there is");
    // What they made is read, however slow the machine is.
    std::thread::sleep(delay_limit());
    let peak = peak_kib(scene.pid).unwrap();
    let (said, errors) = scene.end().unwrap();
    assert_eq!(said, "ok\n", "{errors}");
    assert!(peak < MOST_MEMORY_KIB, "{peak} KiB");
}

#[test]
#[ignore = "loads eBPF"]
fn a_user_gets_events_of_the_processes_that_it_may_look_into() {
    if missing_right().is_some() {
        return;
    }
    let folder = stage().unwrap();
    let said = folder.path().join("said");
    // All are of the traced family. The shell is root's.
    let asking = format!(
        "as() {{ setpriv --reuid=$1 --regid=$1 --clear-groups -- sleep 1000 & \
           until [ \"$(cat /proc/$!/comm)\" = sleep ]; do sleep 0.01; done; }}\n\
         as {VICTIM}; others=$!; as {ATTACKER}; own=$!\n\
         for pid in 0 $own $others $$; do\n\
           setpriv --reuid={ATTACKER} --regid={ATTACKER} --clear-groups -- \
             {program} ask \"$LINUX_TRACE_AGENT\" $pid < /dev/null\n\
         done > {said}\n\
         kill $others $own",
        program = folder.path().join("attack_agent").display(),
        said = said.display(),
    );
    let scene = Scene::start(folder.path(), &[], &asking).unwrap();
    let (ended, errors) = scene.end().unwrap();
    assert_eq!(ended, "ok\n", "{errors}");
    let said = fs::read_to_string(&said).unwrap();
    let expected = ["itself 1", "its user's 1", "another user's 0", "root's 0"];
    let whose = expected.iter().map(|line| line.rsplit_once(' ').unwrap().0);
    let found: Vec<String> = whose
        .zip(said.lines())
        .map(|(whose, line)| line.replace("granted", whose))
        .collect();
    assert_eq!(found, expected);
}

#[test]
#[ignore = "loads eBPF"]
fn from_its_exec_on_a_program_with_special_rights_is_not_seen_by_its_caller() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    open_to_all(folder.path()).unwrap();
    let watcher = dist::compile("exec_watcher", folder.path()).unwrap();
    // The distribution may lie where other users may not look, such as in root's home.
    let everyones = dist::copy_for_everyone(folder.path()).unwrap();
    let plain = dist::compile_static("watched", folder.path()).unwrap();
    let special = folder.path().join("special");
    fs::copy(&plain, &special).unwrap();
    fs::set_permissions(&special, fs::Permissions::from_mode(0o4755)).unwrap();
    // The tracer, and who asks it, and the program that is run.
    let seen = |user: u32, program: &Path| -> Vec<u64> {
        let mut tracer = Command::new(dist::tracer_user().unwrap());
        tracer.args(["run", "--output", "/dev/null", "--events"]);
        tracer.args(["fork,exec,exit,switch,rename,fault", "--"]);
        let asks = command_as(user, &watcher);
        tracer.arg(asks.get_program()).args(asks.get_args());
        tracer.arg(program);
        tracer.env("LD_LIBRARY_PATH", everyones.join("lib"));
        let output = tracer.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        let said: Vec<String> = said.lines().map(str::to_owned).collect();
        let count = |word| {
            let found = values_after(&said, word);
            found.unwrap_or_else(|_| panic!("{output:?}"))[0][0]
        };
        vec![count("execs"), count("after"), count("lost")]
    };
    for round in 0..3 {
        assert_eq!(seen(ATTACKER, &special), [0, 0, 0], "round {round}");
        for (user, program) in [(ATTACKER, &plain), (0, &plain), (0, &special)] {
            let found = seen(user, program);
            let [execs, after, lost] = found[..] else {
                panic!("{found:?}")
            };
            assert!(execs >= 1 && after > 200 && lost == 0, "{user}: {found:?}");
        }
    }
}
