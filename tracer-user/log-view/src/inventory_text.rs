//! Contents of a log, for people.

use tracer_engine::ClockPair;
use tracer_engine::event::RealtimeNs;
use tracer_engine::source::LossCause;
use tracer_engine::{Inheritance, LogFullPolicy, StreamFullPolicy};
use tracer_log::{Damage, FinalStatus};

use super::Inventory;
use super::inventory::ThreadCount;
use tracer_event::summary::Summary;
use tracer_text::escape::push_for_people;
use tracer_text::{WallClock, push_short_name};

/// Threads that are listed; the JSON lists all.
const LISTED: usize = 20;

/// Renders the contents of a log in lines of a label and its value.
#[must_use]
pub fn text(inventory: &Inventory) -> String {
    let mut out = String::new();
    for (label, value) in describe_stream(inventory)
        .into_iter()
        .chain(describe_events(inventory))
    {
        out.push_str(&format!("{label:<16}{value}\n"));
    }
    out.push_str("\nevents by type\n");
    for (name, count) in &inventory.summary.events {
        out.push_str(&format!("{count:>12}  {}\n", shown_name(name)));
    }
    out.push_str("\nevents by thread\n");
    for thread in inventory.threads.iter().take(LISTED) {
        out.push_str(&line_of(thread));
    }
    let rest = inventory.threads.get(LISTED..).unwrap_or_default();
    let of_rest: u64 = rest.iter().map(|thread| thread.events).sum();
    if !rest.is_empty() {
        let others = inventory.events_of_other_threads;
        let more = if others > 0 { " or more" } else { "" };
        out.push_str(&format!(
            "{:>12}  of {}{more} other threads\n",
            of_rest + others,
            rest.len()
        ));
    }
    out
}

fn describe_stream(inventory: &Inventory) -> Vec<(&'static str, String)> {
    let attributes = &inventory.attributes;
    let log_policy = match attributes.log_full_policy() {
        LogFullPolicy::Append => log_policy(LogFullPolicy::Append).to_owned(),
        policy => format!(
            "{}, {} bytes",
            log_policy(policy),
            attributes.log_max_size()
        ),
    };
    vec![
        ("stream", people(attributes.name().as_bytes())),
        (
            "made by",
            people(attributes.generation_version().as_bytes()),
        ),
        ("created", date(attributes.creation_time())),
        (
            "clock",
            format!(
                "monotonic {} ns at {}, resolution {} ns",
                inventory.anchor.monotonic.0,
                date(inventory.anchor.realtime),
                attributes.clock_resolution_ns()
            ),
        ),
        (
            "stream policy",
            format!(
                "{}, {} bytes",
                stream_policy(attributes.stream_full_policy()),
                attributes.stream_min_size()
            ),
        ),
        ("log policy", log_policy),
        (
            "user data",
            format!("at most {} bytes an event", attributes.max_data_size()),
        ),
        (
            "children",
            inheritance(attributes.inheritance()).replace('_', " "),
        ),
        ("completed", status(inventory.status, &inventory.summary)),
    ]
}

fn describe_events(inventory: &Inventory) -> Vec<(&'static str, String)> {
    let events = inventory.events();
    let mut rows = vec![("events", events.to_string())];
    if let Some(span) = inventory.span {
        rows.push(("first", date(span.first.1)));
        rows.push(("last", date(span.last.1)));
        if let Some(ended) = inventory.ended {
            rows.push(("trace ended", date(ended)));
        }
        let span = span.ns();
        rows.push((
            "time span",
            format!("{}.{:09} s", span / 1_000_000_000, span % 1_000_000_000),
        ));
    }
    rows.push(("size", size(inventory)));
    rows.push((
        "data",
        format!("{} bytes before compression", inventory.data_bytes),
    ));
    rows.push(("lost", lost(inventory)));
    rows.push(("damage", damage(inventory)));
    rows
}

fn size(inventory: &Inventory) -> String {
    let (bytes, events) = (inventory.bytes, inventory.events());
    match per_event(bytes, events) {
        None => format!("{bytes} bytes"),
        Some(tenths) => format!("{bytes} bytes, {}.{} an event", tenths / 10, tenths % 10),
    }
}

/// Returns tenths of bytes for each event.
pub fn per_event(bytes: u64, events: u64) -> Option<u64> {
    bytes.saturating_mul(10).checked_div(events)
}

fn lost(inventory: &Inventory) -> String {
    let summary = &inventory.summary;
    let unreported = LossCause::KernelNotReported.name();
    let causes: Vec<String> = summary
        .losses()
        .filter(|(cause, count)| *count > 0 && *cause != unreported)
        .map(|(cause, count)| format!("{count} {cause}"))
        .collect();
    if causes.is_empty() {
        return format!("0{}", summary.but_for());
    }
    let (lost, causes) = (summary.lost_by_tracer(), causes.join(", "));
    format!("{lost}: {causes}{}", summary.but_for())
}

fn damage(inventory: &Inventory) -> String {
    let damage = inventory.summary.log.unwrap_or_default().damage;
    if damage == Damage::default() {
        return "none".to_owned();
    }
    format!(
        "{} bytes at {} sites, {} packets known to be missing",
        damage.bytes, damage.sites, damage.packets_missing
    )
}

fn status(status: Option<FinalStatus>, summary: &Summary) -> String {
    let Some(status) = status else {
        return "no: it is being written, or its writer ended early".to_owned();
    };
    // What the kernel did not report is among the losses of a stream.
    let is_all_there = summary.lost_by_tracer() == 0 && summary.not_reported() > 0;
    let mut remarks = Vec::new();
    for (is_so, remark) in [
        (status.is_full, "the stream was full"),
        (
            status.is_overrun && !is_all_there,
            "the stream had lost events",
        ),
        (status.is_log_full, "the log was full"),
        (status.is_log_overrun, "the log had lost events"),
    ] {
        if is_so {
            remarks.push(remark.to_owned());
        }
    }
    if status.flush_error != 0 {
        let error = std::io::Error::from_raw_os_error(status.flush_error);
        remarks.push(format!("a flush had failed: {error}"));
    }
    if remarks.is_empty() {
        return "yes".to_owned();
    }
    format!("yes; {}", remarks.join("; "))
}

fn line_of(thread: &ThreadCount) -> String {
    let ids = match (thread.pid, thread.tid) {
        (0, _) => "-".to_owned(),
        (pid, tid) if pid == tid => pid.to_string(),
        (pid, tid) => format!("{pid}/{tid}"),
    };
    let line = format!("{:>12}  {ids:<15} {}", thread.events, people(&thread.comm));
    format!("{}\n", line.trim_end())
}

/// Returns the word of a policy, here and in JSON.
pub fn stream_policy(policy: StreamFullPolicy) -> &'static str {
    match policy {
        StreamFullPolicy::Loop => "loop",
        StreamFullPolicy::UntilFull => "until_full",
        StreamFullPolicy::Flush => "flush",
    }
}

/// Returns the word of a policy, here and in JSON.
pub fn log_policy(policy: LogFullPolicy) -> &'static str {
    match policy {
        LogFullPolicy::Loop => "loop",
        LogFullPolicy::UntilFull => "until_full",
        LogFullPolicy::Append => "append",
    }
}

/// Returns the word of an inheritance, here and in JSON.
pub fn inheritance(inheritance: Inheritance) -> &'static str {
    match inheritance {
        Inheritance::CloseForChild => "not_traced",
        Inheritance::Inherited => "traced",
    }
}

/// Renders a date as the JSON lines show it.
pub fn date(date: RealtimeNs) -> String {
    let mut out = Vec::new();
    WallClock::new(ClockPair::default()).push_date(&mut out, date);
    String::from_utf8_lossy(&out).into_owned()
}

fn people(untrusted: &[u8]) -> String {
    let mut out = Vec::new();
    push_for_people(&mut out, untrusted);
    String::from_utf8_lossy(&out).into_owned()
}

/// Renders a name as in the text of `read`.
fn shown_name(name: &[u8]) -> String {
    let system = tracer_common::event_type::SYSTEM_EVENT_TYPES
        .iter()
        .find(|entry| entry.name.as_bytes() == name);
    let Some(entry) = system else {
        return people(name);
    };
    let mut out = Vec::new();
    push_short_name(&mut out, entry.name);
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use tracer_common::event_type::EventTypeId;

    use super::*;
    use crate::test_log::TestLog;
    use crate::{Walk, WantedEvents};

    #[test]
    fn everything_is_reported_and_hostile_names_are_harmless() {
        let mut log = TestLog {
            late: 3,
            lost_in_log: 4,
            status: Some(FinalStatus {
                is_log_full: true,
                flush_error: libc::ENOSPC,
                ..FinalStatus::default()
            }),
            ..TestLog::default()
        };
        let hostile = log.define(b"a\nb\x1b[2J");
        log.push(100, EventTypeId::THREAD_CREATE, (7, 7), b"");
        log.push(1_500_000_100, hostile, (7, 8), b"12345");
        let shown = text(&Inventory::take(Walk::new(log, WantedEvents::default()), 2).unwrap());

        for line in [
            "stream          made up",
            "clock           monotonic 100 ns at 2001-09-09T01:46:40.000000000Z, resolution 1 ns",
            "stream policy   loop, 262144 bytes",
            "user data       at most 1024 bytes an event",
            "children        not traced",
            "completed       yes; the log was full; a flush had failed: No space left on device (os error 28)",
            "events          2",
            "time span       1.500000000 s",
            "size            2 bytes, 1.0 an event",
            "data            5 bytes before compression",
            "lost            7: 3 late, 4 log_full",
            "damage          none",
            "           1  a\\nb\\u{1b}[2J",
            "           1  thread-create",
            "           1  7               worker",
            "           1  7/8             worker",
        ] {
            assert!(shown.lines().any(|shown| shown == line), "{line}\n{shown}");
        }
        assert!(
            shown
                .bytes()
                .all(|byte| byte == b'\n' || !byte.is_ascii_control())
        );
    }

    #[test]
    fn a_log_without_events_is_reported_too() {
        let log = TestLog::default();
        let shown = text(&Inventory::take(Walk::new(log, WantedEvents::default()), 2).unwrap());
        assert!(shown.contains("events          0\n"), "{shown}");
        assert!(shown.contains("completed       no: "), "{shown}");
    }

    #[test]
    fn many_threads_are_summed_up() {
        let mut log = TestLog::default();
        let name = log.define(b"x");
        for tid in 1..=30 {
            log.push(100, name, (1, tid), b"");
        }
        let shown = text(&Inventory::take(Walk::new(log, WantedEvents::default()), 2).unwrap());
        assert!(
            shown.ends_with("          10  of 10 other threads\n"),
            "{shown}"
        );
    }
}
