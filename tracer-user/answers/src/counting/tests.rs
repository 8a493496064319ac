use std::cell::RefCell;
use std::rc::Rc;

use tracer_common::kernel::{COUNT_RANGES, CountKey, CountSum, CountedThread, NotCounted, counted};
use tracer_engine::event::EventHeader;
use tracer_event::counts::{CountSource, CountsRead, PointNames};
use zerocopy::FromZeros as _;

use super::*;

/// Counts as they are given.
struct Given(Vec<CountsRead>);

impl CountSource for Given {
    fn names(&self) -> PointNames {
        let named = |names: &[&str]| names.iter().map(ToString::to_string).collect();
        PointNames {
            probes: named(&["probe:open", "probe:close", "probe:close"]),
            tracepoints: named(&["tracepoint:sched:sched_switch"]),
        }
    }

    fn read(&mut self) -> anyhow::Result<CountsRead> {
        Ok(if self.0.len() > 1 {
            self.0.remove(0)
        } else {
            self.0[0].clone()
        })
    }

    fn note(&mut self, _: &EventHeader, _: &ThreadStateData) {}
}

fn key(who: u64, kind: u32, number: u32) -> CountKey {
    CountKey {
        who: [who, 0],
        kind,
        number,
    }
}

fn sum(count: u64, also: u64, total_ns: u64, longest_ns: u64, range: usize) -> CountSum {
    let mut ranges = [0; COUNT_RANGES];
    ranges[range] = count;
    CountSum {
        count,
        also,
        total_ns,
        longest_ns,
        ranges,
    }
}

fn shown(reads: Vec<CountsRead>, view: CountView, ticks: &[u64]) -> String {
    let lines = Lines::default();
    let has_no_space = reads.iter().any(|read| read.not_counted.events > 0);
    let counts = Rc::new(RefCell::new(Given(reads)));
    let outcome = Rc::new(Cell::new(Outcome::Complete));
    let start = MonotonicNs(0);
    let mut consumer = consumer(
        counts,
        (view, Budget::default(), start),
        lines.clone(),
        Rc::clone(&outcome),
    );
    for now in ticks {
        consumer.idle(MonotonicNs(*now));
    }
    consumer.finish(&Summary::default()).unwrap();
    assert_eq!(outcome.get() == Outcome::EventsLost, has_no_space);
    let shown = String::from_utf8(lines.bytes().clone()).unwrap();
    assert!(!shown.contains('\x1b'), "{shown}");
    shown
}

fn one(at: u64, sums: Vec<(CountKey, CountSum)>) -> CountsRead {
    CountsRead {
        at: MonotonicNs(at),
        sums,
        ..CountsRead::default()
    }
}

#[test]
fn calls_have_their_counts_errors_and_times() {
    let read = one(
        2_000_000_000,
        vec![(key(0, counted::CALL, 0), sum(7, 2, 7000, 1024, 10))],
    );
    let text = shown(vec![read.clone()], CountView::default(), &[]);
    let row = text.lines().find(|line| line.starts_with("read ")).unwrap();
    let words: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(
        words[..6],
        ["read", "7", "2", "7.000", "us", "1.000"],
        "{text}"
    );
    assert!(
        text.contains("read                    1.024 us: 7"),
        "{text}"
    );
    let view = CountView {
        is_json: true,
        ..CountView::default()
    };
    let json: serde_json::Value = serde_json::from_str(&shown(vec![read], view, &[])).unwrap();
    let call = &json["sums"][0]["syscalls"][0];
    assert_eq!((&call["name"], &call["count"]), (&"read".into(), &7.into()));
    assert_eq!(call["took"]["ranges"][0]["up_to_ns"], 1024);
}

#[test]
fn an_interval_has_what_was_counted_in_it_and_no_longest_time_of_before() {
    let reads = [(1, 7, 5000), (2, 9, 5000), (3, 10, 6000)].map(|(at, count, longest)| {
        let sums = vec![(
            key(0, counted::CALL, 1),
            sum(count, 0, 100 * count, longest, 7),
        )];
        one(at * 1_000_000_000, sums)
    });
    let view = CountView {
        is_json: true,
        interval: Some(Duration::from_secs(1)),
        ..CountView::default()
    };
    let ticks = [500_000_000, 1_000_000_000, 2_000_000_000];
    let shown = shown(reads.to_vec(), view, &ticks);
    let lines: Vec<serde_json::Value> = shown
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let calls: Vec<_> = lines
        .iter()
        .map(|line| {
            let call = &line["sums"][0]["syscalls"][0];
            let is_interval = line["is_interval"].as_bool().unwrap();
            (
                is_interval,
                call["count"].clone(),
                call["took"]["max_ns"].clone(),
            )
        })
        .collect();
    let null = serde_json::Value::Null;
    assert_eq!(
        calls,
        [
            (true, 7.into(), 5000.into()),
            (true, 2.into(), null),
            (false, 10.into(), 6000.into())
        ]
    );
}

#[test]
fn what_goes_on_at_the_end_is_in_the_total() {
    let thread = CountedThread {
        since_ns: 400,
        entered_ns: 0,
        pid: 7,
        does: counted::BLOCKED,
        kind: 0,
        number: 0,
        is_new: 0,
        is_forced: 0,
    };
    let read = CountsRead {
        threads: vec![(8, thread)],
        ..one(
            1000,
            vec![(key(7 << 32 | 8, counted::BLOCKED, 0), sum(1, 0, 50, 50, 6))],
        )
    };
    let view = CountView {
        by: Some(By::Thread),
        is_json: true,
        ..CountView::default()
    };
    let json: serde_json::Value = serde_json::from_str(&shown(vec![read], view, &[])).unwrap();
    let row = &json["sums"][0];
    assert_eq!((&row["pid"], &row["tid"]), (&7.into(), &8.into()));
    let blocked = &row["blocked"];
    assert_eq!(
        (&blocked["total_ns"], &blocked["open"]),
        (&650.into(), &1.into())
    );
    assert_eq!(blocked["took"]["total_ns"], 50);
}

#[test]
fn names_are_harmless_and_what_found_no_space_is_said() {
    let mut name = [0_u8; 16];
    name[..8].copy_from_slice(b"\x1b[2J\xff\0ol");
    let who = zerocopy::transmute!(name);
    let read = CountsRead {
        not_counted: NotCounted {
            events: 3,
            threads: 4,
        },
        ..one(
            1000,
            vec![(
                CountKey {
                    who,
                    kind: 77,
                    number: u32::MAX,
                },
                sum(u64::MAX, 1, u64::MAX, 5, COUNT_RANGES - 1),
            )],
        )
    };
    let by = Some(By::Comm);
    for is_json in [false, true] {
        let view = CountView {
            by,
            is_json,
            ..CountView::default()
        };
        let shown = shown(vec![read.clone()], view, &[]);
        assert!(shown.contains('3') && shown.contains('4'), "{shown}");
        assert!(!shown.contains("ol\""), "{shown}");
    }
}

#[test]
fn probes_of_one_name_are_one_row_and_points_come_by_their_counts() {
    let passed = |count| sum(count, 0, 0, 0, 0);
    let read = CountsRead {
        sums: vec![
            (key(0, counted::PROBE, 0), passed(1)),
            (key(0, counted::PROBE, 1), passed(2)),
            (key(0, counted::PROBE, 2), passed(3)),
            (key(0, counted::TRACEPOINT, 0), passed(4)),
            (key(0, counted::TRACEPOINT, 7), passed(6)),
        ],
        ..CountsRead::default()
    };
    let text = shown(vec![read.clone()], CountView::default(), &[]);
    let at = text.find("probe or tracepoint").unwrap();
    let rows: Vec<Vec<&str>> = text[at..]
        .lines()
        .skip(1)
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(
        rows,
        [
            ["6", "unknown"],
            ["5", "probe:close"],
            ["4", "tracepoint:sched:sched_switch"],
            ["1", "probe:open"],
        ]
    );
    let is_json = true;
    let view = CountView {
        is_json,
        ..CountView::default()
    };
    let object: serde_json::Value = serde_json::from_str(&shown(vec![read], view, &[])).unwrap();
    let points = serde_json::json!([
        { "name": "probe:open", "count": 1 },
        { "name": "probe:close", "count": 5 },
        { "name": "tracepoint:sched:sched_switch", "count": 4 },
        { "name": "unknown", "count": 6 },
    ]);
    assert_eq!(object["sums"][0]["points"], points);
}

#[test]
fn what_goes_on_is_that_of_the_name_of_its_thread() {
    let does = |pid| CountedThread {
        pid,
        does: counted::BLOCKED,
        since_ns: 400,
        ..CountedThread::new_zeroed()
    };
    let read = CountsRead {
        threads: vec![(7, does(7)), (8, does(7)), (9, does(9))],
        ..one(1000, Vec::new())
    };
    let mut names = LastNames::default();
    for (pid, tid, name) in [(7, 7, "a"), (7, 8, "b"), (9, 9, "b")] {
        names.learn(Thread { pid, tid }, name.as_bytes());
    }
    let points = PointNames::default();
    let table = CountTable::new(&read, Some(By::Comm), (&points, &names));
    let open = |name: &str| {
        let sums = &table.sums[&table::SumOwner::Comm(name.as_bytes().to_vec())];
        let sum = sums[&What::Kind(counted::BLOCKED)];
        (sum.open, sum.open_ns)
    };
    assert_eq!((open("a"), open("b")), ((1, 600), (2, 1200)));
}

#[test]
#[cfg(target_arch = "x86_64")]
fn the_end_of_a_signal_handler_does_not_fail() {
    const RT_SIGRETURN: u32 = 15;
    let read = one(
        1000,
        vec![
            (key(0, counted::CALL, RT_SIGRETURN), sum(5, 4, 50, 10, 4)),
            (key(0, counted::CALL, 0), sum(5, 4, 50, 10, 4)),
        ],
    );
    let view = CountView {
        is_json: true,
        ..CountView::default()
    };
    let object: serde_json::Value = serde_json::from_str(&shown(vec![read], view, &[])).unwrap();
    let calls = object["sums"][0]["syscalls"].as_array().unwrap();
    let errors = |name: &str| {
        let found = calls.iter().find(|call| call["name"] == name);
        found.unwrap()["errors"].as_u64()
    };
    assert_eq!(errors("rt_sigreturn"), Some(0));
    assert_eq!(errors("read"), Some(4));
}
