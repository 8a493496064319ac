//! ROS 2 itself: two nodes of `rclpy` with `libtracetools.so` preloaded, beside what they have
//! counted, and beside LTTng, which records the same calls in the same run.
//!
//! `cargo xtask test --ros` runs it: ROS is a quarter of a gigabyte.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::{BTreeMap, HashMap, HashSet};
use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use tests::log_reader::text;
use tests::lttng::{self, Daemon, RosEvent, Session};
use tests::{dist, tools};

/// Messages at each rate.
const MESSAGES: usize = 1_000;

/// Messages a second; 0 for as fast as they can be published.
const RATES: [&str; 4] = ["100", "1000", "5000", "0"];

/// Messages of the executor that publishes as fast as it can.
const OF_FASTEST: usize = 20_000;

/// Times that what is measured is tried.
const ROUNDS: usize = 5;

const TOPIC: &str = "/tracer_test_chatter";

fn interpreter() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let interpreter = here.join("../target/ros/bin/python");
    assert!(
        interpreter.exists(),
        "ROS is not installed; run: cargo xtask test --ros"
    );
    interpreter
}

/// Headers of the original's trace points, which the package of ROS has.
fn headers() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/ros/include/tracetools")
}

fn robots(name: &str) -> PathBuf {
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/robots");
    programs.join(name)
}

/// The library under test.
fn library() -> PathBuf {
    let dist = dist::folder().unwrap();
    dist.join("lib/posixtrace/libtracetools.so")
}

/// Has a command find no other nodes than its own: no other machine's, and no other test's.
fn alone<'a>(command: &'a mut Command, folder: &Path) -> &'a mut Command {
    command
        .current_dir(folder)
        .envs([("ROS_LOCALHOST_ONLY", "1"), ("ROS_DOMAIN_ID", "87")])
        .env("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
        .env("ROS_HOME", folder)
}

/// Runs a command to its end, and returns what it has said: the standard output, and the standard
/// error.
fn ended(command: &mut Command) -> (String, String) {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let [said, told] = [output.stdout, output.stderr];
    let [said, told] = [said, told].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert!(output.status.success(), "{command:?}: {said}{told}");
    (said, told)
}

fn tool(folder: &Path, arguments: &[&str]) -> String {
    let mut tool = Command::new(dist::tracer_user().unwrap());
    ended(tool.current_dir(folder).args(arguments)).0
}

/// Traces a command, whose libraries the environment chooses, and returns what it has said.
fn traced(folder: &Path, log: &str, options: &[&str], command: &Command) -> String {
    let mut tool = Command::new(dist::tracer_user().unwrap());
    tool.args(["run", "--log", log]).args(options).arg("--");
    tool.arg(command.get_program()).args(command.get_args());
    let variables = command.get_envs();
    let variables = variables.filter_map(|(name, value)| Some((name, value?)));
    let (said, told) = ended(alone(tool.envs(variables), folder));
    assert!(told.contains(" 0 lost"), "{told}");
    said
}

/// The nodes at this rate.
fn nodes(rate: &str) -> Command {
    let mut nodes = Command::new(interpreter());
    nodes.arg(robots("nodes.py"));
    nodes.args([&MESSAGES.to_string(), rate]);
    nodes
}

/// Returns all events of a log, and how many switches the kernel did not report by its summary.
fn events(folder: &Path, log: &str) -> (Vec<Value>, usize) {
    let lines = tool(folder, &["read", "--format", "json", log]);
    let lines = lines.lines().map(serde_json::from_str::<Value>);
    let mut events: Vec<Value> = lines.map(Result::unwrap).collect();
    let summary = events.pop().unwrap();
    let unreported = &summary["summary"]["lost"]["kernel_not_told"];
    (
        events,
        usize::try_from(unreported.as_u64().unwrap()).unwrap(),
    )
}

/// Returns the events of this type of which a field has this value, by where they are among all.
fn having(events: &[Value], name: &str, field: &str, value: &Value) -> Vec<usize> {
    let is_one = |event: &Value| text(event, "type") == name && event["data"][field] == *value;
    let of = events.iter().enumerate();
    of.filter(|(_, event)| is_one(event))
        .map(|(at, _)| at)
        .collect()
}

/// Where a message is among all events: published by a node of the C library and by the
/// middleware, and taken.
struct Message {
    rcl_publish: usize,
    rmw_publish: usize,
    rmw_take: usize,
}

/// Checks that the log has each message once, in the order in which they were published.
fn messages(events: &[Value], said: &str) -> Vec<Message> {
    assert!(said.contains(&format!("published {MESSAGES} ")), "{said}");
    assert!(said.contains(&format!("taken {MESSAGES}")), "{said}");

    let topic = Value::from(TOPIC);
    let publishers = having(events, "ros2:rcl_publisher_init", "topic_name", &topic);
    let subscriptions = having(events, "ros2:rcl_subscription_init", "topic_name", &topic);
    assert_eq!((publishers.len(), subscriptions.len()), (1, 1));
    let publisher = &events[publishers[0]]["data"];
    let subscription = &events[subscriptions[0]]["data"];
    let of = |name: &str, field: &str, begun: &Value| having(events, name, field, &begun[field]);
    let published = of("ros2:rcl_publish", "publisher_handle", publisher);
    let sent = of("ros2:rmw_publish", "rmw_publisher_handle", publisher);
    let mut taken = of("ros2:rmw_take", "rmw_subscription_handle", subscription);
    taken.retain(|at| events[*at]["data"]["taken"] == 1);
    assert_eq!(published.len(), MESSAGES);

    let stamps = |of: &[usize], field: &str| -> Vec<i64> {
        of.iter()
            .map(|at| events[*at]["data"][field].as_i64().unwrap())
            .collect()
    };
    let stamped = stamps(&sent, "timestamp");
    assert_eq!(stamped.len(), MESSAGES);
    assert_eq!(stamped, stamps(&taken, "source_timestamp"));
    let each = published.into_iter().zip(sent).zip(taken);
    each.map(|((rcl_publish, rmw_publish), rmw_take)| Message {
        rcl_publish,
        rmw_publish,
        rmw_take,
    })
    .collect()
}

/// Traces a command with this library and with LTTng at once, and returns what it has said, how
/// many events LTTng has discarded, and the events of both: those of this library first.
fn traced_by_both(
    folder: &Path,
    both: &Path,
    log: &str,
    command: &mut Command,
) -> (String, u64, [Vec<RosEvent>; 2]) {
    let lttngs = folder.join(format!("{log}-lttng"));
    let session = Session::start(&lttngs).unwrap();
    command
        .env("LD_PRELOAD", format!("{} {}", lttng::FORK, both.display()))
        .env("BESIDE", library())
        // Until it records.
        .env("LTTNG_UST_REGISTER_TIMEOUT", "-1");
    let said = traced(folder, log, &[], command);
    let discarded = session.finish().unwrap();
    let ours = folder.join(format!("{log}-ctf"));
    let to = ours.to_str().unwrap();
    tool(folder, &["export", log, "--to", "ctf", "-o", to]);
    let both = [&ours, &lttngs].map(|trace| lttng::ros_events(trace).unwrap());
    (said, discarded, both)
}

/// Events of each thread, in its order.
fn by_thread(events: &[RosEvent]) -> BTreeMap<&[String; 3], Vec<&RosEvent>> {
    let mut threads = BTreeMap::<_, Vec<&RosEvent>>::new();
    for event in events {
        threads.entry(&event.context).or_default().push(event);
    }
    threads
}

/// Checks that each event of LTTng is there, in the order of its thread and with its fields, and
/// that no other is but so many as LTTng has discarded. Returns the pairs.
fn paired([ours, lttngs]: &[Vec<RosEvent>; 2], discarded: u64) -> Vec<(&RosEvent, &RosEvent)> {
    let is_lost = usize::try_from(discarded).unwrap();
    assert_eq!(ours.len(), lttngs.len() + is_lost);
    let threads = by_thread(ours);
    let mut pairs = Vec::new();
    for (thread, theirs) in by_thread(lttngs) {
        let mut ours = threads.get(thread).into_iter().flatten();
        for event in theirs {
            let is_it = |own: &&&RosEvent| own.name == event.name && own.fields == event.fields;
            let own = ours.find(is_it);
            pairs.push((*own.unwrap_or_else(|| panic!("{event:?}")), event));
        }
    }
    pairs
}

#[test]
#[ignore = "needs root, ROS and LTTng"]
fn nodes_of_ros_are_counted_as_they_count_themselves_where_lttng_discards() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let both = lttng::compile_tracetools(&headers(), folder).unwrap();
    let _daemon = Daemon::start().unwrap();
    for rate in RATES {
        let log = format!("log-{rate}");
        let (said, discarded, of_both) = traced_by_both(folder, &both, &log, &mut nodes(rate));
        messages(&events(folder, &log).0, &said);
        paired(&of_both, discarded);
        println!(
            "{rate} a second: {} events, 0 lost; of these LTTng has {} and has discarded {discarded}",
            of_both[0].len(),
            of_both[1].len(),
        );
        views_have_each_message(folder, &log);
    }

    // Without Python a message takes so little time that LTTng does not keep up.
    let program = executor(folder, &both);
    let mut fastest = Command::new(program);
    fastest.args([&OF_FASTEST.to_string(), "0"]);
    for round in 1..=ROUNDS {
        let log = format!("fastest-{round}");
        let (said, discarded, of_both) = traced_by_both(folder, &both, &log, &mut fastest);
        for done in ["published", "taken"] {
            assert!(said.contains(&format!("{done} {OF_FASTEST}")), "{said}");
        }
        paired(&of_both, discarded);
        each_is_counted(&of_both[0]);
        println!(
            "executor: {} events, 0 lost; of these LTTng has discarded {discarded}",
            of_both[0].len()
        );
        if discarded > 0 {
            return;
        }
    }
    println!("LTTng has kept up with this machine");
}

/// Checks that there are as many events of the executor as it does things.
fn each_is_counted(events: &[RosEvent]) {
    let mut counts = BTreeMap::<&str, usize>::new();
    for event in events {
        *counts.entry(event.name.as_str()).or_default() += 1;
    }
    for (name, count) in [
        ("rcl_publish", OF_FASTEST),
        ("rmw_take", OF_FASTEST),
        ("callback_start", 2 * OF_FASTEST),
        ("callback_end", 2 * OF_FASTEST),
    ] {
        assert_eq!(counts.get(name), Some(&count), "{name}");
    }
}

/// Checks that the page has a lane for each node, with its messages, and `top` the deliveries.
fn views_have_each_message(folder: &Path, log: &str) {
    tool(folder, &["report", log, "-o", "page.html", "--force"]);
    let page = tools::report(&folder.join("page.html")).unwrap();
    for (node, does) in [("/talker", "published"), ("/listener", "taken")] {
        let mut nodes = page["nodes"].as_array().unwrap().iter();
        let lane = nodes.find(|lane| lane["label"] == node).unwrap();
        let messages = lane["messages"].as_array().unwrap();
        let wanted = format!("ros2 {does} {TOPIC}");
        let count = messages.iter().filter(|name| **name == *wanted).count();
        assert_eq!(count, MESSAGES, "{node}");
    }
    let top = ["top", log, "--once", "--window", "all", "--format", "json"];
    let screen: Value = serde_json::from_str(&tool(folder, &top)).unwrap();
    let mut spans = screen["spans"].as_array().unwrap().iter();
    let delivery = format!("{TOPIC} delivery");
    let row = spans.find(|row| row["name"] == *delivery).unwrap();
    assert_eq!(row["took"]["count"], MESSAGES, "{row}");
}

/// Offsets of the system calls that mark where a message is, as `nodes.py` has them: before it is
/// published, after that, and in the callback that takes it.
const MARKS: [u64; 3] = [1 << 40, 2 << 40, 3 << 40];

/// Tells whether events of this type are what their thread does, for which it needs a CPU.
fn is_own_act(name: &str) -> bool {
    name.starts_with("ros2:") || name.starts_with("linux_trace_syscall_")
}

/// All events in the order of the log, and where those of each thread are.
struct Order<'a> {
    events: &'a [Value],
    threads: HashMap<i64, Vec<usize>>,
    /// Where threads gave up their CPUs that did something afterwards, without a switch in between
    /// that gave them one.
    unreported: HashSet<usize>,
}

impl<'a> Order<'a> {
    fn from_events(events: &'a [Value]) -> Self {
        let mut threads = HashMap::<i64, Vec<usize>>::new();
        for (at, event) in events.iter().enumerate() {
            let tid = event["tid"].as_i64().unwrap();
            threads.entry(tid).or_default().push(at);
        }
        let mut unreported = HashSet::new();
        for of_thread in threads.values() {
            let mut gave_up = None;
            for at in of_thread {
                match text(&events[*at], "type") {
                    "linux_trace_switch_in" => gave_up = None,
                    "linux_trace_switch_out" => unreported.extend(gave_up.replace(*at)),
                    name if is_own_act(name) => unreported.extend(gave_up.take()),
                    _ => {}
                }
            }
        }
        Self {
            events,
            threads,
            unreported,
        }
    }

    fn tid(&self, at: usize) -> i64 {
        self.events[at]["tid"].as_i64().unwrap()
    }

    fn event_type(&self, at: usize) -> &str {
        text(&self.events[at], "type")
    }

    fn is_switch(&self, at: usize) -> bool {
        self.event_type(at).starts_with("linux_trace_switch_")
    }

    /// The last event of a thread before another one, of those that are wanted.
    fn last_before(&self, tid: i64, at: usize, is_wanted: impl Fn(usize) -> bool) -> Option<usize> {
        let all = self.threads.get(&tid)?;
        let before = all.partition_point(|other| *other < at);
        all[..before]
            .iter()
            .rev()
            .copied()
            .find(|at| is_wanted(*at))
    }

    /// The first event of a thread after another one.
    fn next_after(&self, tid: i64, at: usize) -> Option<usize> {
        let all = self.threads.get(&tid)?;
        all.get(all.partition_point(|other| *other <= at)).copied()
    }

    /// Tells whether the thread had no CPU there, where that is known.
    fn has_no_cpu(&self, tid: i64, at: usize) -> bool {
        let switch = self.last_before(tid, at, |at| self.is_switch(at));
        switch.is_some_and(|at| {
            self.event_type(at) == "linux_trace_switch_out" && !self.unreported.contains(&at)
        })
    }

    /// Returns where the system calls with a mark are, by its number.
    fn marks(&self, mark: u64) -> Vec<usize> {
        let mut found = vec![None; MESSAGES];
        for (at, event) in self.events.iter().enumerate() {
            let data = &event["data"];
            if text(event, "type") == "linux_trace_syscall_enter"
                && data["name"] == "lseek"
                && let Some(offset) = data["args"][1].as_u64()
                && let Some(number) = offset.checked_sub(mark)
                && let Ok(number) = usize::try_from(number)
                && let Some(of) = found.get_mut(number)
            {
                assert_eq!(*of, None, "{number}");
                *of = Some(at);
            }
        }
        let missing = found.iter().enumerate().filter(|(_, at)| at.is_none());
        let missing: Vec<usize> = missing.map(|(number, _)| number).collect();
        assert!(
            missing.is_empty(),
            "no system call {mark:#x} and {missing:?}"
        );
        found.into_iter().flatten().collect()
    }

    /// Follows who woke the thread that took a message, who woke that one, and so on, to the
    /// thread that published it. Returns where that woke the first of them, or `None` where the
    /// thread was not woken meanwhile, or by another one. Each that was woken must have had a CPU
    /// after that and before it did anything, and each that woke one must have had it before that.
    fn first_woken(&self, of: &Message) -> Option<usize> {
        let publisher = self.tid(of.rmw_publish);
        let (mut tid, mut at) = (self.tid(of.rmw_take), of.rmw_take);
        loop {
            let is_wakeup = |at: usize| self.event_type(at) == "linux_trace_wakeup";
            let woken = self.last_before(tid, at, is_wakeup)?;
            if woken < of.rmw_publish {
                return None;
            }
            if self.has_no_cpu(tid, woken) {
                let next = self.next_after(tid, woken).unwrap();
                assert_eq!(self.event_type(next), "linux_trace_switch_in");
                assert!(next < at, "{}", self.events[at]);
            }
            let data = &self.events[woken]["data"];
            if data["waker_context"] != "thread" {
                return None;
            }
            let waker = data["waker_tid"].as_i64().unwrap();
            // Where the other CPU completes the wake-up, who asked for it may have given its CPU up
            // by then: it had one after the message was published.
            let had_cpu = |at| !self.has_no_cpu(waker, at);
            let gave_up = self.last_before(waker, woken, |at| self.is_switch(at));
            let is_late = || gave_up.is_some_and(|at| at > of.rmw_publish);
            assert!(had_cpu(woken) || is_late(), "{}", self.events[woken]);
            if waker == publisher {
                return Some(woken);
            }
            (tid, at) = (waker, woken);
        }
    }
}

#[test]
#[ignore = "needs root, and ROS"]
fn events_of_ros_and_of_the_kernel_are_in_the_order_in_which_they_were() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for rate in RATES {
        let log = format!("log-{rate}");
        let mut marked = nodes(rate);
        marked.env("LD_PRELOAD", library()).env("MARKS", "1");
        let options = ["--syscalls", "lseek,futex", "--ring-size", "4M"];
        let said = traced(folder, &log, &options, &marked);
        let (events, unreported) = events(folder, &log);
        let messages = messages(&events, &said);
        let order = Order::from_events(&events);

        // A thread that does something has a CPU: but for switches that the kernel did not report,
        // as the log says itself.
        let missing = order.unreported.len();
        assert!(missing <= unreported, "{rate}: {missing} of {unreported}");
        let acts = events
            .iter()
            .filter(|event| is_own_act(text(event, "type")));
        let acts = acts.count();
        assert!(acts > 4 * MESSAGES, "{acts}");

        // Each message has its causes before it and its effects after it.
        let [before, after, taken] = MARKS.map(|mark| order.marks(mark));
        let mut woken = 0;
        for (number, message) in messages.iter().enumerate() {
            let path = [
                before[number],
                message.rcl_publish,
                message.rmw_publish,
                message.rmw_take,
                taken[number],
            ];
            assert!(path.is_sorted(), "{rate}: {number}: {path:?}");
            assert!(message.rmw_publish < after[number], "{rate}: {number}");
            // The library of C takes between the middleware and the callback.
            let (tid, message_of) = (order.tid(message.rmw_take), |at: usize| {
                &events[at]["data"]["message"]
            });
            let is_take = |at: usize| order.event_type(at) == "ros2:rcl_take";
            let rcl_take = order.last_before(tid, taken[number], is_take).unwrap();
            assert!(message.rmw_take < rcl_take, "{rate}: {number}");
            assert_eq!(message_of(rcl_take), message_of(message.rmw_take));
            // Who takes it was woken while it was published, or one after it.
            if let Some(at) = order.first_woken(message) {
                let by = messages.partition_point(|of| of.rmw_publish <= at) - 1;
                // Another CPU may complete it later.
                let is_of_other = events[at]["cpu"] != events[after[by]]["cpu"];
                assert!(
                    by >= number && (at < after[by] || is_of_other),
                    "{rate}: {number} by {by}"
                );
                woken += usize::from(by == number);
            }
        }
        println!(
            "{rate} a second: {woken} of {MESSAGES} messages woke who took them; {acts} events of \
             threads with a CPU, {missing} switches missing and {unreported} said to be"
        );
        // One that is taken by itself finds its thread asleep.
        if rate == "100" {
            assert!(woken * 10 > MESSAGES * 8, "{woken}");
        }
    }
}

/// Builds the executor, which emits what the C++ library does.
fn executor(folder: &Path, library: &Path) -> PathBuf {
    let program = folder.join("executor");
    let here = library.parent().unwrap().display();
    let mut compile = Command::new("cc");
    compile.args(["-O2", "-pthread"]).arg(robots("executor.c"));
    compile.arg("-o").arg(&program).arg(library);
    ended(compile.arg(format!("-Wl,-rpath,{here}")));
    program
}

/// Returns how long each callback took, by the address of the callback.
fn durations<'a>(events: impl Iterator<Item = &'a RosEvent>) -> BTreeMap<String, Vec<i64>> {
    let (mut began, mut took) = (HashMap::new(), BTreeMap::<String, Vec<i64>>::new());
    for event in events {
        let callback = event.fields.split(", ").next().unwrap();
        match event.name.as_str() {
            "callback_start" => {
                began.insert((&event.context, callback), event.at_ns);
            }
            "callback_end" => {
                let began = began.remove(&(&event.context, callback)).unwrap();
                let of = took.entry(callback.to_owned()).or_default();
                of.push(event.at_ns - began);
            }
            _ => {}
        }
    }
    took
}

/// Checks that callbacks took as long in the one trace as in the other: but for one of twenty,
/// since a thread may lose its CPU between the two calls that record the same.
fn durations_are_equal(
    ours: &BTreeMap<String, Vec<i64>>,
    lttngs: &BTreeMap<String, Vec<i64>>,
    callbacks: usize,
) {
    assert_eq!(ours.len(), 2, "{ours:?}");
    assert!(ours.keys().eq(lttngs.keys()), "{lttngs:?}");
    for (callback, ours) in ours {
        let lttngs = &lttngs[callback];
        assert_eq!((ours.len(), lttngs.len()), (callbacks, callbacks));
        let pairs = ours.iter().zip(lttngs);
        let mut apart: Vec<i64> = pairs.map(|(one, other)| (one - other).abs()).collect();
        apart.sort_unstable();
        let (median, most) = (apart[callbacks / 2], apart[callbacks * 19 / 20]);
        println!("{callback}: durations differ by {median} ns, and 19 of 20 by at most {most} ns");
        assert!(most < 100_000, "{apart:?}");
    }
}

/// Messages of the executor; every tenth callback takes 20 ms longer.
const OF_EXECUTOR: usize = 100;

/// Packages that read traces of ROS: `tracetools_read`, `tracetools_analysis`, and
/// `tracetools_trace`, which has the names. No registry of packages has them; where this variable
/// names the folders of their sources, as `PYTHONPATH` would, they are asked too.
const ANALYSIS: &str = "TRACER_TRACETOOLS";

#[test]
#[ignore = "needs root, ROS and LTTng"]
fn the_export_is_what_lttng_records_in_the_same_run() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let both = lttng::compile_tracetools(&headers(), folder).unwrap();
    let program = executor(folder, &both);
    let _daemon = Daemon::start().unwrap();
    let mut command = Command::new(program);
    command.args([&OF_EXECUTOR.to_string(), "2000", "late", "busy"]);
    let (said, discarded, of_both) = traced_by_both(folder, &both, "executor-log", &mut command);
    assert!(
        said.contains(&format!("taken {OF_EXECUTOR} late ")),
        "{said}"
    );
    assert_eq!(discarded, 0);

    // Each thread has the same events, with the same contexts and fields.
    let pairs = paired(&of_both, 0);
    let [ours, lttngs] = &of_both;
    assert_eq!((pairs.len(), ours.len()), (lttngs.len(), lttngs.len()));
    assert!(pairs.len() > 13 * OF_EXECUTOR, "{}", pairs.len());
    let (start, end) = (&pairs[0], &pairs[pairs.len() - 1]);
    println!(
        "{} events, the first {} ns apart, the last {} ns",
        pairs.len(),
        start.1.at_ns - start.0.at_ns,
        end.1.at_ns - end.0.at_ns,
    );
    let both_durations = [ours, lttngs].map(|events| durations(events.iter()));
    let [ours, lttngs] = &both_durations;
    durations_are_equal(ours, lttngs, OF_EXECUTOR);
    let late = ours.values().flatten().filter(|ns| **ns >= 20_000_000);
    assert!(late.count() >= OF_EXECUTOR / 10, "{ours:?}");

    let Some(packages) = env::var_os(ANALYSIS) else {
        println!("tracetools_analysis was not asked: {ANALYSIS} is not set");
        return;
    };
    let analysed = ["executor-log-ctf", "executor-log-lttng"].map(|trace| {
        let mut analysis = Command::new("/usr/bin/python3");
        analysis.arg(robots("analysis.py")).arg(folder.join(trace));
        let (said, _) = ended(analysis.env("PYTHONPATH", &packages));
        serde_json::from_str::<Value>(&said).unwrap()
    });
    let [ours, lttngs] = &analysed;
    assert_eq!(ours["tables"], lttngs["tables"]);
    let rows = |table: &str| ours["tables"][table].as_array().unwrap().len();
    for (table, count) in [
        ("nodes", 2),
        ("timers", 1),
        ("rcl_publish_instances", OF_EXECUTOR),
        ("rmw_take_instances", OF_EXECUTOR),
        ("callback_instances", 2 * OF_EXECUTOR),
    ] {
        assert_eq!(rows(table), count, "{table}");
    }
    let [ours, lttngs] = analysed.each_ref().map(|of| {
        let durations = of["durations"].as_object().unwrap().iter();
        durations
            .map(|(callback, took)| {
                let took = took.as_array().unwrap().iter();
                (
                    callback.clone(),
                    took.map(|ns| ns.as_i64().unwrap()).collect(),
                )
            })
            .collect::<BTreeMap<String, Vec<i64>>>()
    });
    durations_are_equal(&ours, &lttngs, OF_EXECUTOR);
    println!("tracetools_analysis reads both alike");
}

/// Prints what a message costs without a tracer, with this library, and with LTTng: the CPU time of
/// the thread that publishes it while another process takes them, as that thread measures it.
#[test]
#[ignore = "needs root, ROS and LTTng"]
fn what_a_message_costs_is_printed() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let both = lttng::compile_tracetools(&headers(), folder).unwrap();
    let _daemon = Daemon::start().unwrap();
    let us_each = |said: &str| -> f64 {
        let (_, cpu_time) = said.split_once(" us each, ").unwrap();
        cpu_time.split_whitespace().next().unwrap().parse().unwrap()
    };
    let mut took = BTreeMap::<&str, Vec<f64>>::new();
    let mut discarded = 0;
    for round in 0..ROUNDS {
        let mut add = |name, said: &str| took.entry(name).or_default().push(us_each(said));
        let mut untraced = nodes("0");
        add("untraced", &ended(alone(&mut untraced, folder)).0);

        let mut ours = nodes("0");
        ours.env("LD_PRELOAD", library());
        let log = format!("log-{round}");
        let said = traced(folder, &log, &["--no-system"], &ours);
        add("this library", &said);
        messages(&events(folder, &log).0, &said);
        let log = format!("log-kernel-{round}");
        let said = traced(folder, &log, &[], &ours);
        add("this library, with the kernel's events", &said);

        let session = Session::start(&folder.join(format!("lttng-{round}"))).unwrap();
        let mut lttngs = nodes("0");
        lttngs.env("LD_PRELOAD", format!("{} {}", lttng::FORK, both.display()));
        lttngs.env("LTTNG_UST_REGISTER_TIMEOUT", "-1");
        add("LTTng", &ended(alone(&mut lttngs, folder)).0);
        discarded += session.finish().unwrap();
    }
    for (name, mut us) in took {
        us.sort_by(f64::total_cmp);
        let (least, median) = (us[0], us[us.len() / 2]);
        println!("{name}: {least:.1} us at least, {median:.1} in the middle of {us:.1?}");
    }
    println!("LTTng has discarded {discarded} events in {ROUNDS} runs, this library none");
}
