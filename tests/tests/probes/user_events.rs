//! User events against what the program itself counted.

use std::process::Command;
use std::thread;
use std::time::Duration;

use tests::dist;
use tests::event::two_integers;
use tests::rights::missing_right;
use tests::target::{Target, values_after};
use tests::tracer::{Trace, Tracer};

const THREADS: usize = 8;

fn start(folder: &tempfile::TempDir, rate: &str, seconds: &str) -> anyhow::Result<Target> {
    let program = dist::compile("flood", folder.path())?;
    let threads = THREADS.to_string();
    let (target, _) = Target::start(Command::new(program).args([&threads, rate, seconds]))?;
    Ok(target)
}

/// Returns how many events the program says it sent, by thread.
fn sent_of(said: &[String]) -> anyhow::Result<Vec<u64>> {
    let pairs = values_after(said, "sent")?;
    Ok(pairs.iter().map(|pair| pair[1]).collect())
}

/// The sequence numbers of "flood" events by thread, in the order in which they were printed.
fn seen_in(trace: &Trace) -> anyhow::Result<Vec<Vec<u64>>> {
    let mut seen = vec![Vec::new(); THREADS];
    for line in trace.lines()? {
        let line = line?;
        if line.contains("\"type\":\"flood\"") {
            let Some((thread, sequence)) = two_integers(&line) else {
                anyhow::bail!("damaged data: {line}");
            };
            seen[usize::try_from(thread)?].push(sequence);
        }
    }
    Ok(seen)
}

#[test]
#[ignore = "loads eBPF"]
fn two_hundred_thousand_events_a_second_beside_a_switching_neighbour_all_arrive_once() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let neighbour = dist::compile("pingpong", folder.path()).unwrap();
    let _neighbour = Target::start_neighbour(&mut Command::new(neighbour)).unwrap();
    let mut target = start(&folder, "200000", "4").unwrap();
    // Large enough for all, so that nothing is lost however late the tracer gets a processor.
    let mut sizes = vec!["--thread-ring-size", "64M", "--stream-size", "128M"];
    sizes.extend(["--ring-size", "16M"]);
    let mut tracer = Tracer::attach(target.pid(), &sizes).unwrap();
    tracer.wait_for(|event| event.is_user("marker")).unwrap();

    target.go().unwrap();
    let sent = sent_of(&target.wait_until_done().unwrap()).unwrap();
    let trace = tracer.stop().unwrap();

    assert_eq!(sent.iter().sum::<u64>(), 800_000);
    let summary = trace.summary().unwrap();
    assert_eq!(summary.all_lost(), 0, "{:?}", summary.lost);
    for (sequences, sent) in seen_in(&trace).unwrap().into_iter().zip(sent) {
        assert_eq!(sequences, (0..sent).collect::<Vec<_>>());
    }
    assert_eq!(trace.status.code(), Some(0));

    // With the usual sizes that depends on the machine, and is counted.
    let mut target = start(&folder, "200000", "4").unwrap();
    let mut tracer = Tracer::attach(target.pid(), &["--no-system"]).unwrap();
    tracer.wait_for(|event| event.is_user("marker")).unwrap();
    target.go().unwrap();
    let said = target.wait_until_done().unwrap();
    let trace = tracer.stop().unwrap();
    let lost = lost_of_what_was_sent(&trace, &said).unwrap();
    assert_eq!(trace.status.code(), Some(i32::from(lost > 0)));
}

#[test]
#[ignore = "loads eBPF"]
fn a_stopped_reader_sees_or_counts_every_event_that_was_sent() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut target = start(&folder, "1000000", "4").unwrap();
    // Without the kernel's events, so that what is lost is the program's.
    let mut tracer = Tracer::attach(target.pid(), &["--no-system"]).unwrap();
    tracer.wait_for(|event| event.is_user("marker")).unwrap();

    target.go().unwrap();
    thread::sleep(Duration::from_millis(300));
    tracer.signal(libc::SIGSTOP).unwrap();
    let said = target.wait_until_done().unwrap();
    tracer.signal(libc::SIGCONT).unwrap();
    let trace = tracer.stop().unwrap();

    assert!(
        lost_of_what_was_sent(&trace, &said).unwrap() > 0,
        "nothing was lost"
    );
    assert_eq!(trace.status.code(), Some(1), "events were lost");
}

/// Returns how many events were lost, and checks that these and those in the trace are all that the
/// program has sent.
fn lost_of_what_was_sent(trace: &Trace, said: &[String]) -> anyhow::Result<u64> {
    let seen = seen_in(trace)?;
    for sequences in &seen {
        let is_increasing = sequences.is_sorted_by(|earlier, later| earlier < later);
        assert!(is_increasing, "an event came twice or in wrong order");
    }
    let flood_seen = count(seen.iter().map(Vec::len).sum());
    let flood_sent: u64 = sent_of(said)?.iter().sum();
    // The markers before the first one seen were emitted before the tracer was attached.
    let markers = markers_in(trace)?;
    let markers_sent = values_after(said, "marked")?[0][0] - markers[0];
    let lost = trace.summary()?.all_lost();
    assert_eq!(
        flood_seen + count(markers.len()) + lost,
        flood_sent + markers_sent
    );
    Ok(lost)
}

/// The sequence numbers of the "marker" events that were printed.
fn markers_in(trace: &Trace) -> anyhow::Result<Vec<u64>> {
    let mut markers = Vec::new();
    for line in trace.lines()? {
        let line = line?;
        if line.contains("\"type\":\"marker\"") {
            let pair = two_integers(&line).ok_or_else(|| anyhow::anyhow!("damaged: {line}"))?;
            markers.push(pair.1);
        }
    }
    Ok(markers)
}

fn count(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}
