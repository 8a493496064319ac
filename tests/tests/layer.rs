//! Spans and events of the `tracing` crate, read back as user events. One test: the subscriber is
//! the process's.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use tracer_posix::EventTypeId;
use tracer_posix::engine::{Attributes, EventSet, Filtering};
use tracer_posix::stream::Stream;
use tracing::{debug_span, event, info};
use tracing_subscriber::prelude::*;

/// Names and data of what is there.
fn read(stream: &mut Stream) -> Vec<(String, String)> {
    let mut found = Vec::new();
    while let Some(traced) = stream.try_next() {
        let id = traced.event.header.event_type;
        let data = String::from_utf8(traced.event.data.to_vec()).unwrap();
        let name = stream.event_types().name(id).unwrap().to_vec();
        found.push((String::from_utf8(name).unwrap(), data));
    }
    found
}

fn pair(name: &str, data: &str) -> (String, String) {
    (name.to_owned(), data.to_owned())
}

#[test]
fn spans_and_events_come_back_as_user_events() {
    tracing_subscriber::registry()
        .with(tracer_posix::layer())
        .init();
    info!("nobody traces yet");
    let mut stream = Stream::create_for_self(&Attributes::default()).unwrap();
    let mut start = EventSet::EMPTY;
    start.insert(EventTypeId::START);
    stream.set_filter(&start, Filtering::Set);
    stream.start();

    let span = debug_span!("request", number = 7, answer = tracing::field::Empty);
    let inside = span.enter();
    info!(name: "checkpoint", bytes = 12, path = "/a b");
    let line = line!() + 1;
    info!(code = 3, "it {}", "works");
    span.record("answer", "yes");
    drop(inside);
    event!(name: "a name that goes on and on until it is far too long to be an event's",
        tracing::Level::TRACE, text = "x".repeat(1000));

    let long = "a name that goes on and on until it is far too long to be an eve";
    let expected = [
        pair("enter request", "number=7"),
        pair("checkpoint", "bytes=12 path=/a b"),
        pair(&format!("layer:{line}"), "it works code=3"),
        pair("exit request", "number=7 answer=yes"),
        pair(long, &format!("text={}", "x".repeat(512 - 5))),
    ];
    assert_eq!(read(&mut stream), expected);
    // A callsite that many threads meet at once has one type.
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| info!(name: "all at once", "x"));
        }
    });
    assert_eq!(read(&mut stream), vec![pair("all at once", "x"); 8]);
}
