//! The service that gives the kernel's events to the programs of all users.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use tests::attacker::{ATTACKER, VICTIM, as_user, command_as, give, stage};
use tests::bpf::{self, Object};
use tests::rights::missing_right;
use tests::target::{Target, values_after};
use tests::{dist, wait_until};

/// The user that the service runs as.
pub const SERVICE: u32 = 61_003;

/// The group that sees every process, where a policy says so.
const GROUP: u32 = 61_010;

/// The file with the policy.
const POLICY: &str = "policy.toml";

/// Longest time for which something of the service is waited for.
pub const SOON: Duration = Duration::from_secs(60);

/// A service without rights but those to load programs and to read what they record, started as a
/// service manager starts it: root has made the socket.
pub struct Service {
    pub folder: tempfile::TempDir,
    listener: UnixListener,
    process: Child,
}

impl Service {
    pub fn start() -> anyhow::Result<Self> {
        Self::start_with("")
    }

    /// Starts it with this policy.
    pub fn start_with(policy: &str) -> anyhow::Result<Self> {
        let folder = stage(&[
            "agent_client",
            "agent_returns",
            "attack_agent",
            "chosen_calls",
            "exec_storm",
            "exec_watcher",
            "fuse_trap",
            "hidden_forks",
            "unseen_children",
            "kernel_events",
        ])?;
        dist::compile_static("watched", folder.path())?;
        fs::write(folder.path().join(POLICY), policy)?;
        let listener = UnixListener::bind(address(folder.path()))?;
        fs::set_permissions(address(folder.path()), Permissions::from_mode(0o666))?;
        let process = serve(folder.path(), &listener)?;
        Ok(Self {
            folder,
            listener,
            process,
        })
    }

    /// Ends it at once, and starts another at the same socket.
    pub fn replace(&mut self, meanwhile: impl FnOnce()) -> anyhow::Result<()> {
        self.process.kill()?;
        self.process.wait()?;
        meanwhile();
        self.process = serve(self.folder.path(), &self.listener)?;
        Ok(())
    }

    pub fn pid(&self) -> i32 {
        self.process.id().cast_signed()
    }

    /// A program of the stage as this user, whose streams are to have the kernel's events.
    pub fn program(&self, user: u32, name: &str) -> Command {
        let mut program = as_user(user, self.folder.path(), name);
        program.env("LINUX_TRACE_AGENT", address(self.folder.path()));
        program.env("LINUX_TRACE_KERNEL_EVENTS", "1");
        program.env("LINUX_TRACE_DEBUG", "1");
        program
    }

    /// Asks as this user with these as the proof. Returns whether it could open them, and whether
    /// it was granted.
    pub fn proves(&self, user: u32, pid: i32, file: &str, further: &[&str]) -> (u64, u64) {
        let mut attack = self.program(user, "attack_agent");
        attack.arg("prove").arg(address(self.folder.path()));
        let output = attack.arg(pid.to_string()).arg(file).args(further).output();
        let said = lines(&output.unwrap());
        let one = |word| values_after(&said, word).unwrap()[0][0];
        (one("opened"), one("granted"))
    }

    /// `tracer-user` as this user, who is of this group too.
    pub fn tool(&self, user: u32, group: u32) -> Command {
        let mut tool = Command::new("setpriv");
        tool.args([
            format!("--reuid={user}"),
            format!("--regid={user}"),
            format!("--groups={group}"),
        ]);
        tool.args(["--inh-caps=-all", "--"]);
        tool.arg(self.folder.path().join("dist/bin/tracer-user"));
        tool.env("LINUX_TRACE_AGENT", address(self.folder.path()));
        tool.current_dir("/");
        tool
    }

    /// The doctor's line about the service, for this user.
    fn diagnosis(&self, user: u32, group: u32) -> String {
        let output = self.tool(user, group).arg("doctor").output().unwrap();
        let mut all = lines(&output).into_iter();
        all.find(|line| line.contains("kernel events: service"))
            .unwrap()
    }

    /// Traces a process as this user, who is of this group too, for a second. Returns the names of
    /// the programs that it was seen to run, and the message where it is refused.
    fn attach(&self, user: u32, group: u32, pid: i32) -> Result<BTreeSet<String>, String> {
        let mut attach = self.tool(user, group);
        attach.args(["attach", "--no-user", "--format", "json"]);
        attach.args(["--duration", "1s", "-p"]).arg(pid.to_string());
        let output = attach.output().unwrap();
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned());
        }
        let events = lines(&output);
        let parsed = events
            .iter()
            .map(|line| serde_json::from_str(line).unwrap());
        let execs = parsed.filter(|event: &serde_json::Value| event["type"] == "linux_trace_exec");
        Ok(execs.map(|event| event["comm"].to_string()).collect())
    }

    /// Whether it has a program at this tracepoint.
    pub fn attached_to(&self, tracepoint: &str) -> bool {
        let all = fs::read_dir(format!("/proc/{}/fdinfo", self.pid())).unwrap();
        // A descriptor may be closed meanwhile.
        let mut all = all.filter_map(|file| fs::read_to_string(file.ok()?.path()).ok());
        let is_there = |info: String| {
            let mut names = info
                .lines()
                .filter_map(|line| line.strip_prefix("tp_name:"));
            names.any(|name| name.trim() == tracepoint)
        };
        all.any(is_there)
    }

    /// The eBPF objects that it has in the kernel.
    pub fn objects(&self) -> BTreeSet<Object> {
        bpf::all_because_of(self.pid()).unwrap()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

pub fn address(folder: &Path) -> PathBuf {
    folder.join("agent.sock")
}

fn serve(folder: &Path, listener: &UnixListener) -> anyhow::Result<Child> {
    let rights = "+bpf,+perfmon";
    let script = format!(
        "exec 3<&0 </dev/null; LISTEN_PID=$$ LISTEN_FDS=1 exec nice -n -10 setpriv \
         --reuid={SERVICE} --regid={SERVICE} --clear-groups --inh-caps=-all,{rights} --ambient-caps={rights} \
         --bounding-set=-all,{rights} --no-new-privs -- {} serve --idle 0 --policy {}",
        folder.join("dist/bin/tracer-user").display(),
        folder.join(POLICY).display(),
    );
    let socket = OwnedFd::from(listener.try_clone()?);
    let mut service = Command::new("sh");
    service.args(["-c", &script]).stdin(Stdio::from(socket));
    Ok(service.stderr(Stdio::null()).spawn()?)
}

pub fn lines(output: &Output) -> Vec<String> {
    let said = String::from_utf8_lossy(&output.stdout);
    said.lines().map(str::to_owned).collect()
}

pub fn sleeper(user: u32) -> Target {
    let mut shell = command_as(user, "sh");
    Target::start(shell.args(["-c", "echo ready; read end"]))
        .unwrap()
        .0
}

#[test]
#[ignore = "loads eBPF"]
fn a_program_of_any_user_gets_its_events_and_nothing_stays_in_the_kernel() {
    if missing_right().is_some() {
        return;
    }
    let service = Service::start().unwrap();
    // It compares forks, ends and switches with what /proc says of them.
    for user in [ATTACKER, VICTIM, 0] {
        let output = service.program(user, "kernel_events").output().unwrap();
        assert_eq!(lines(&output), ["ok"], "user {user}: {output:?}");
    }
    let mut program = service.program(ATTACKER, "agent_returns");
    let (program, _) = Target::start(&mut program).unwrap();
    program.wait_for("first").unwrap();
    let objects = service.objects();
    assert!(!objects.is_empty());
    drop(program);
    wait_until("the kernel to have no program", SOON, || {
        let left = objects.iter().map(|object| object.exists());
        let left: Vec<bool> = left.collect::<std::io::Result<_>>()?;
        Ok((!left.contains(&true)).then_some(()))
    })
    .unwrap();
    assert!(service.objects().is_empty());
}

#[test]
#[ignore = "loads eBPF"]
fn system_calls_are_recorded_while_a_stream_has_chosen_them() {
    if missing_right().is_some() {
        return;
    }
    let service = Service::start().unwrap();
    // What slows every process of the machine, as the kernel shows it.
    let attached = || service.attached_to("sys_enter");
    let start = |arguments: &[&str]| {
        let mut program = service.program(ATTACKER, "chosen_calls");
        Target::start(program.args(arguments)).unwrap().0
    };
    let end = |program: Target| {
        let said = program.end_saying().unwrap();
        let one = |word| values_after(&said, word).unwrap()[0][0];
        (one("calls"), one("lost"))
    };
    let without = start(&[]);
    assert!(!service.objects().is_empty() && !attached());
    let chosen = start(&["chosen"]);
    let another = start(&[]);
    assert!(attached());
    assert_eq!(end(chosen), (1000, 0));
    wait_until("the calls to be unobserved", SOON, || {
        Ok((!attached()).then_some(()))
    })
    .unwrap();
    // The others are recorded without a gap.
    for program in [without, another] {
        assert_eq!(end(program), (0, 0));
    }
}

#[test]
#[ignore = "loads eBPF"]
fn only_who_may_trace_a_process_is_given_its_events() {
    if missing_right().is_some() {
        return;
    }
    let service = Service::start().unwrap();
    let (own, another, roots) = (sleeper(ATTACKER), sleeper(VICTIM), sleeper(0));
    let memory = |of: &Target| format!("/proc/{}/mem", of.pid());
    let proves = |pid, file: &str, further: &[&str]| service.proves(ATTACKER, pid, file, further);
    assert_eq!(proves(own.pid(), &memory(&own), &[]), (1, 1));
    for others in [&another, &roots] {
        // The kernel does not open it.
        assert_eq!(proves(others.pid(), &memory(others), &[]), (0, 0));
        // It lets any process name the file that it does not open.
        assert_eq!(proves(others.pid(), &memory(others), &["path"]), (1, 0));
        // The pidfd of one and the memory of another.
        assert_eq!(proves(others.pid(), &memory(&own), &[]), (1, 0));
    }
    // Its own, but not the pidfd's.
    assert_eq!(proves(own.pid(), "/proc/self/mem", &[]), (1, 0));
    for other in ["/proc/self/status", "/dev/null", "/proc", "/etc/passwd"] {
        assert_eq!(proves(own.pid(), other, &[]), (1, 0), "{other}");
    }
    // Another user's process may be traced by a process that the kernel lets: here root's.
    assert_eq!(
        service.proves(0, another.pid(), &memory(&another), &[]),
        (1, 1)
    );
}

#[test]
#[ignore = "loads eBPF"]
fn the_group_of_the_policy_sees_every_process_and_no_other_user_does() {
    if missing_right().is_some() {
        return;
    }
    let service = Service::start_with(&format!("[serve]\ngroup = \"{GROUP}\"\n")).unwrap();
    let busy = |user| {
        let mut shell = command_as(user, "sh");
        let script = "echo ready; while :; do /bin/sleep 0.02; done";
        Target::start(shell.args(["-c", script])).unwrap().0
    };
    for of in [busy(VICTIM), busy(0)] {
        let seen = service.attach(ATTACKER, GROUP, of.pid()).unwrap();
        assert!(seen.iter().any(|name| name.contains("sleep")), "{seen:?}");
        let refused = service.attach(ATTACKER, ATTACKER, of.pid()).unwrap_err();
        assert!(refused.contains("another user"), "{refused}");
        // A number in the message, without the group: the pidfd of another's process alone.
        assert_eq!(service.proves(ATTACKER, of.pid(), "/dev/null", &[]), (1, 0));
    }
    let of_group = service.diagnosis(ATTACKER, GROUP);
    assert!(of_group.contains("those of every process"), "{of_group}");
    let of_another = service.diagnosis(ATTACKER, ATTACKER);
    assert!(of_another.contains("their own processes"), "{of_another}");
    // The service itself is no process for them.
    let refused = service.attach(ATTACKER, GROUP, service.pid()).unwrap_err();
    assert!(refused.contains("another user"), "{refused}");
}

#[test]
#[ignore = "loads eBPF"]
fn a_service_that_is_turned_off_serves_no_user() {
    if missing_right().is_some() {
        return;
    }
    let policy = format!("[serve]\nallow = \"off\"\ngroup = \"{GROUP}\"\n");
    let service = Service::start_with(&policy).unwrap();
    let own = sleeper(ATTACKER);
    for group in [ATTACKER, GROUP] {
        let refused = service.attach(ATTACKER, group, own.pid()).unwrap_err();
        assert!(refused.contains("turned the service off"), "{refused}");
        let diagnosis = service.diagnosis(ATTACKER, group);
        assert!(diagnosis.contains("turned the service off"), "{diagnosis}");
    }
    assert!(service.objects().is_empty());
}

#[test]
#[ignore = "loads eBPF"]
fn from_its_exec_on_a_program_with_special_rights_is_hidden_by_the_service_too() {
    if missing_right().is_some() {
        return;
    }
    let service = Service::start().unwrap();
    let plain = service.folder.path().join("watched");
    let special = service.folder.path().join("special");
    fs::copy(&plain, &special).unwrap();
    fs::set_permissions(&special, Permissions::from_mode(0o4755)).unwrap();
    let seen = |program: &Path| -> Vec<u64> {
        let mut watcher = service.program(ATTACKER, "exec_watcher");
        let output = watcher.arg(program).output().unwrap();
        let said = lines(&output);
        let count = |word| {
            let found = values_after(&said, word);
            found.unwrap_or_else(|_| panic!("{output:?}"))[0][0]
        };
        vec![count("execs"), count("after"), count("lost")]
    };
    for round in 0..3 {
        assert_eq!(seen(&special), [0, 0, 0], "round {round}");
        let found = seen(&plain);
        let [execs, after, lost] = found[..] else {
            panic!("{found:?}")
        };
        assert!(execs == 1 && after > 200 && lost == 0, "{found:?}");
    }
}

#[test]
#[ignore = "loads eBPF"]
fn what_a_process_does_while_none_may_look_into_it_is_not_given() {
    if missing_right().is_some() {
        return;
    }
    let service = Service::start().unwrap();
    let output = service.program(ATTACKER, "hidden_forks").output().unwrap();
    let said = lines(&output);
    // Three before, and four after; what was between is told to have been withheld.
    assert_eq!(said, ["forks 7", "lost 1"], "{output:?}");
    // Root may look into it all the time.
    let output = service.program(0, "hidden_forks").output().unwrap();
    assert_eq!(lines(&output), ["forks 12", "lost 0"], "{output:?}");
}

#[test]
#[ignore = "loads eBPF"]
fn a_killed_service_leaves_a_gap_that_is_marked_and_programs_go_on_with_the_next() {
    if missing_right().is_some() {
        return;
    }
    let mut service = Service::start().unwrap();
    let mut program = service.program(ATTACKER, "agent_returns");
    let (mut program, _) = Target::start(&mut program).unwrap();
    program.wait_for("first").unwrap();
    let objects = service.objects();
    assert!(!objects.is_empty());
    service
        .replace(|| {
            program.wait_for("gap").unwrap();
            // The kernel frees them a little later than the process.
            wait_until("the kernel to let go", SOON, || {
                let left = objects.iter().map(|object| object.exists());
                let left: Vec<bool> = left.collect::<std::io::Result<_>>()?;
                Ok((!left.contains(&true)).then_some(()))
            })
            .unwrap();
        })
        .unwrap();
    program.wait_for("again").unwrap();
    // The program asks as it notices the end, and its question waits at the socket: so it waits for
    // the next service alone, whose work is of less than a second.
    let worked = processor_time(service.pid());
    assert!(worked < Duration::from_secs(1), "{worked:?}");
    assert!(program.is_running().unwrap());
    let said = program.end_saying().unwrap();
    let one = |word| values_after(&said, word).unwrap()[0][0];
    // It gave its CPU to others, and got it from them: which these are it is not told.
    assert_eq!(one("others"), 0);
    assert!(one("masked") > 0, "{said:?}");
}

/// Returns how long a process has had a processor.
fn processor_time(pid: i32) -> Duration {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let ran = threads.map(|thread| {
        let counters = fs::read_to_string(thread.unwrap().path().join("schedstat")).unwrap();
        counters.split(' ').next().unwrap().parse::<u64>().unwrap()
    });
    Duration::from_nanos(ran.sum())
}

#[test]
#[ignore = "loads eBPF"]
fn ten_thousand_connections_that_say_half_or_nothing_harm_no_other() {
    if missing_right().is_some() {
        return;
    }
    let service = Service::start().unwrap();
    let descriptors = || {
        let all = fs::read_dir(format!("/proc/{}/fd", service.pid())).unwrap();
        all.count()
    };
    let unharmed = || {
        let output = service.program(VICTIM, "kernel_events").output().unwrap();
        assert_eq!(lines(&output), ["ok"], "{output:?}");
    };
    unharmed();
    let mut held = service.program(VICTIM, "agent_returns");
    let (held, _) = Target::start(&mut held).unwrap();
    held.wait_for("first").unwrap();
    let before = descriptors();
    let mut flood = service.program(ATTACKER, "attack_agent");
    let flood = flood.arg("flood").arg(address(service.folder.path()));
    let flood = flood.arg("10000").stdout(Stdio::piped()).spawn().unwrap();
    // It compares what it is given meanwhile with what /proc says.
    unharmed();
    let flood = flood.wait_with_output().unwrap();
    assert_eq!(lines(&flood), ["connected 10000"], "{flood:?}");
    // Each connection of the flood has ended.
    wait_until(
        "its descriptors to be closed",
        Duration::from_secs(5),
        || Ok((descriptors() <= before).then_some(())),
    )
    .unwrap();
    let mut hold = service.program(ATTACKER, "attack_agent");
    hold.arg("connect")
        .arg(address(service.folder.path()))
        .arg("900");
    let _hold = Target::start(&mut hold).unwrap();
    unharmed();
    // Who had a stream all the time has it still, and misses nothing.
    let said = held.end_saying().unwrap();
    assert!(!said.contains(&"gap".to_owned()), "{said:?}");
}

#[test]
#[ignore = "loads eBPF"]
fn no_stack_has_an_address_of_a_program_with_special_rights_and_none_is_told_what_it_maps() {
    if missing_right().is_some() {
        return;
    }
    let service = Service::start().unwrap();
    let folder = service.folder.path();
    let plain = folder.join("watched");
    let special = folder.join("special");
    fs::copy(&plain, &special).unwrap();
    fs::set_permissions(&special, Permissions::from_mode(0o4755)).unwrap();
    let made = folder.join("made");
    fs::create_dir(&made).unwrap();
    give(&made, ATTACKER).unwrap();
    let log = made.join("log");
    let mut tool = service.tool(ATTACKER, ATTACKER);
    tool.args(["run", "--syscalls", "all", "--stack", "user", "--log"]);
    tool.arg(&log)
        .args(["--", "sh", "-c", "\"$0\"; \"$1\"; \"$0\""]);
    let output = tool.args([&special, &plain]).output().unwrap();
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("kernel events"),
        "{output:?}"
    );
    let mut read = Command::new(dist::tracer_user().unwrap());
    let read = read
        .args(["read", "--format", "json"])
        .arg(&log)
        .output()
        .unwrap();
    let mut modules = BTreeSet::new();
    for line in lines(&read) {
        let event: serde_json::Value = serde_json::from_str(&line).unwrap();
        for frame in event["stack"].as_array().into_iter().flatten() {
            // An address in no mapping that was given is one of its own.
            modules.insert(frame["module"].as_str().unwrap_or("?").to_owned());
        }
    }
    let has = |name: &str| modules.iter().any(|module| module.ends_with(name));
    assert!(has("libc.so.6") && !has("/special"), "{modules:?}");
    // Mappings, whether a stack has an address in them or not.
    let mut read = Command::new(dist::tracer_user().unwrap());
    let read = read.args(["read", "--events", "mapping", "--format", "json"]);
    let mapped = lines(&read.arg(&log).output().unwrap());
    let of = |name: &str| {
        let path = folder.join(name);
        let path = path.to_str().unwrap();
        mapped.iter().filter(|line| line.contains(path)).count()
    };
    assert!(of("watched") > 0, "{mapped:?}");
    assert_eq!(of("special"), 0);
}
