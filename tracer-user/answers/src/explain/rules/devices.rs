//! Rules of waits for devices and networks.

use tracer_analysis::{EndedBy, Inside, PathPart, Waker};

use super::super::facts::{Leaf, TraceFacts, WaitClass};
use super::super::finding::{RuleFinding, Sure};
use super::support::{by_crew, is_wait_of, of_waits, reason_of, share, share_on_path};

/// Threads of the kernel that do what io_uring asks for have names that begin so.
const WORKER: &[u8] = b"iou-wrk-";

/// Finds waits for disks: of what is written until it is there, and of what is read.
pub fn disk(facts: &TraceFacts) -> Vec<RuleFinding> {
    let crews = by_crew(facts, |key, detail| {
        let is_fault = key.reason.inside == Inside::Fault;
        (key.reason.is_io && !is_fault) || detail.class == WaitClass::Sync
    });
    let direct = crews.into_iter().map(|(crew, waits)| {
        let mut found = of_waits(facts, "disk", crew, &waits);
        found.share = share(facts, crew, waits.total.ns, |leaf| is_disk(facts, leaf));
        let call = waits.call().unwrap_or_else(|| "the kernel".to_owned());
        found.what = format!("waited for a disk in {call}");
        if crew.comm.starts_with(WORKER) {
            found.what =
                "waited for a disk, for requests of io_uring that a program has made".to_owned();
        }
        if let Some(option) = waits.call_option() {
            found.next = format!("stat --syscalls {option}");
        }
        found
    });
    direct.chain(requests(facts)).collect()
}

/// Finds waits for requests that a disk ends itself, without a thread of the kernel.
fn requests(facts: &TraceFacts) -> Vec<RuleFinding> {
    let crews = by_crew(facts, |key, detail| {
        let is_device = matches!(
            key.by,
            EndedBy::Waker(Waker::Interrupt | Waker::SoftInterrupt)
        );
        detail.class == WaitClass::Requests && !key.reason.is_io && is_device
    });
    let found = crews.into_iter().map(|(crew, waits)| {
        let mut found = of_waits(facts, "disk", crew, &waits);
        found.share = share(facts, crew, waits.total.ns, |leaf| {
            is_wait_of(facts, leaf, &[WaitClass::Requests]) && is_by_interrupt(leaf)
        });
        found.sure = Sure::Inferred("an interrupt ended it: a disk, or a network");
        let call = waits.call().unwrap_or_default();
        found.what = format!("waited in {call} for requests to a device");
        found
    });
    found.collect()
}

fn is_by_interrupt(leaf: &Leaf) -> bool {
    matches!(
        leaf.part,
        PathPart::Blocked(_, Waker::Interrupt | Waker::SoftInterrupt)
    )
}

fn is_disk(facts: &TraceFacts, leaf: &Leaf) -> bool {
    let is_io = reason_of(leaf).is_some_and(|why| why.is_io && why.inside != Inside::Fault);
    is_io || is_wait_of(facts, leaf, &[WaitClass::Sync])
}

/// Finds page faults that wait for a device.
pub fn major_faults(facts: &TraceFacts) -> Vec<RuleFinding> {
    let is_meant = |why: tracer_analysis::Reason| why.is_io && why.inside == Inside::Fault;
    let crews = by_crew(facts, |key, _| is_meant(key.reason));
    let found = crews.into_iter().map(|(crew, waits)| {
        let mut found = of_waits(facts, "faults", crew, &waits);
        found.share = share(facts, crew, waits.total.ns, |leaf| {
            reason_of(leaf).is_some_and(is_meant)
        });
        found.what =
            "waited in page faults for a device: its memory was on a disk (a file that it \
                      has mapped, or swap)"
                .to_owned();
        found.next = "stat --add-events fault,block".to_owned();
        found
    });
    found.collect()
}

/// Finds waits for name servers.
pub fn names(facts: &TraceFacts) -> Vec<RuleFinding> {
    network(facts, WaitClass::Dns, "dns", |object| {
        let name = object.map_or_else(String::new, |name| format!(" ({name})"));
        format!("waited for a name server{name}")
    })
}

/// Finds waits for connections.
pub fn connections(facts: &TraceFacts) -> Vec<RuleFinding> {
    network(facts, WaitClass::Connect, "connect", |object| {
        let to = object.map_or_else(String::new, |to| format!(" to {to}"));
        format!("waited for a connection{to}")
    })
}

fn network(
    facts: &TraceFacts,
    class: WaitClass,
    rule: &'static str,
    words: impl Fn(Option<&str>) -> String,
) -> Vec<RuleFinding> {
    let crews = by_crew(facts, |_, detail| detail.class == class);
    let found = crews.into_iter().map(|(crew, waits)| {
        let mut found = of_waits(facts, rule, crew, &waits);
        found.share = share(facts, crew, waits.total.ns, |leaf| {
            is_wait_of(facts, leaf, &[class])
        });
        let call = waits.call().unwrap_or_default();
        found.what = format!("{} in {call}", words(found.object.as_deref()));
        let timeouts = waits
            .by
            .iter()
            .filter(|(by, _)| matches!(by, EndedBy::Waker(Waker::Timer)));
        let timeouts: u64 = timeouts.map(|(_, ns)| *ns).sum();
        if timeouts * 2 > waits.total.ns {
            found.what = format!("{}, until its time limit: no answer came", found.what);
        }
        found.next = "why --whole --syscalls %network".to_owned();
        if class == WaitClass::Dns && found.object.is_none() {
            found.sure = Sure::Inferred("the port of name servers");
        }
        found
    });
    found.collect()
}

/// Finds sleeps that the program asks for itself.
pub fn sleeps(facts: &TraceFacts) -> Vec<RuleFinding> {
    let crews = by_crew(facts, |key, detail| {
        // One that a thread ends, by a signal, does not take as long as the program asked for.
        let by_others = matches!(key.by, EndedBy::Nothing | EndedBy::Waker(Waker::Thread(_)));
        detail.class == WaitClass::Sleep && !by_others
    });
    let found = crews.into_iter().map(|(crew, waits)| {
        let mut found = of_waits(facts, "sleep", crew, &waits);
        let is_within_another = |leaf: &Leaf| {
            let path = facts.path.as_ref();
            let outer = path.and_then(|path| path.parts.get(leaf.within?));
            const CLASSES: [WaitClass; 4] = [
                WaitClass::Lock,
                WaitClass::TimedLock,
                WaitClass::FileLock,
                WaitClass::Child,
            ];
            outer.is_some_and(|outer| is_wait_of(facts, outer, &CLASSES))
        };
        found.share = share_on_path(facts, crew, waits.total.ns, |leaf| {
            is_wait_of(facts, leaf, &[WaitClass::Sleep]) && !is_within_another(leaf)
        });
        let call = waits.call().unwrap_or_default();
        let mean = waits.total.ns.checked_div(waits.total.count).unwrap_or(0);
        let mean = crate::queries::words::duration(mean);
        found.what = format!("slept in {call} until a timer ended that, {mean} each time");
        if let Some(option) = waits.call_option() {
            found.next = format!("stat --syscalls {option}");
        }
        found
    });
    found.collect()
}
