//! Spans and events of the `tracing` crate, read back as user events. One test: the subscriber is
//! the process's.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use tracer_engine::{Attributes, EventSet, Filtering};
use tracer_posix::EventTypeId;
use tracer_posix::stream::Stream;
use tracing::{debug_span, event, info, info_span};
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
    let early = debug_span!("early", since = "before the stream");
    let mut stream = Stream::create_for_self(&Attributes::default()).unwrap();
    let mut start = EventSet::EMPTY;
    start.insert(EventTypeId::START);
    stream.set_filter(&start, Filtering::Set);
    stream.start();

    let span = debug_span!("request", count = 7, answer = tracing::field::Empty);
    let inside = span.enter();
    info!(name: "checkpoint", bytes = 12, path = "/a b");
    let line = line!() + 1;
    info!(code = 3, "it {}", "works");
    span.record("answer", "yes");
    drop(inside);
    event!(name: "a name that goes on and on until it is far too long to be an event's",
        tracing::Level::TRACE, text = "x".repeat(1000));

    early.in_scope(|| {});
    drop(early);
    drop(span);

    let found = read(&mut stream);
    let span_id = |name: &str| {
        let (_, data) = found.iter().find(|(found, _)| found == name).unwrap();
        let span = data.split_once("span=").unwrap().1;
        span.split(' ').next().unwrap().to_owned()
    };
    let (request, early) = (span_id("enter request"), span_id("enter early"));
    assert_ne!(request, early);
    let text = "x".repeat(512 - "level=TRACE text=…".len());
    let expected = [
        ("new request", format!("span={request}")),
        (
            "enter request",
            format!("level=DEBUG span={request} count=7"),
        ),
        (
            "checkpoint",
            format!("level=INFO span={request} bytes=12 path=/a b"),
        ),
        (
            &*format!("layer:{line}"),
            format!("level=INFO span={request} it works code=3"),
        ),
        (
            "exit request",
            format!("level=DEBUG span={request} count=7 answer=yes"),
        ),
        // A name beyond the limit is shortened, and still unique.
        (&*found[5].0, format!("level=TRACE text={text}…")),
        (
            "enter early",
            format!("level=DEBUG span={early} since=before the stream"),
        ),
        (
            "exit early",
            format!("level=DEBUG span={early} since=before the stream"),
        ),
        ("close early", format!("span={early}")),
        ("close request", format!("span={request}")),
    ];
    let expected = expected.map(|(name, data)| pair(name, &data));
    assert_eq!(found, expected);
    assert!(
        found[5]
            .0
            .starts_with("a name that goes on and on until it is far too long to")
    );
    assert_eq!(found[5].0.len(), 64);

    // A callsite that many threads reach at once has one type.
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| info!(name: "all at once", "x"));
        }
    });
    assert_eq!(
        read(&mut stream),
        vec![pair("all at once", "level=INFO x"); 8]
    );

    targets_that_differ_beyond_the_longest_name(&mut stream);
    callsites_beyond_the_most_types(&mut stream);
}

fn targets_that_differ_beyond_the_longest_name(stream: &mut Stream) {
    info!(target: "a::module::path::that::is::longer::than::an::event::name::may::be::one", "x");
    info!(target: "a::module::path::that::is::longer::than::an::event::name::may::be::other", "x");

    let names: Vec<_> = read(stream).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names.len(), 2);
    assert_ne!(names[0], names[1]);
}

macro_rules! spans {
    ($($name:ident)*) => {$( spans!(@ten $name 0 1 2 3 4 5 6 7 8 9); )*};
    (@ten $name:ident $($digit:literal)*) => {$(
        info_span!(concat!(stringify!($name), "-", $digit), count = $digit).in_scope(|| {});
    )*};
}

fn callsites_beyond_the_most_types(stream: &mut Stream) {
    spans! {
        a0 a1 a2 a3 a4 a5 a6 a7 a8 a9 b0 b1 b2 b3 b4 b5 b6 b7 b8 b9
        c0 c1 c2 c3 c4 c5 c6 c7 c8 c9 d0 d1 d2 d3 d4 d5 d6 d7 d8 d9
        e0 e1 e2 e3 e4 e5 e6 e7 e8 e9 f0 f1 f2 f3 f4 f5 f6 f7 f8 f9
    }

    let found = read(stream);
    assert_eq!(found.len(), 2400);
    let names: Vec<_> = found.iter().map(|(name, _)| name.as_str()).collect();
    let of_first = ["new a0-0", "enter a0-0", "exit a0-0", "close a0-0"];
    assert_eq!(names[..4], of_first);
    let [.., exit, close] = &found[..] else {
        panic!("{found:?}");
    };
    let unnamed = "posix_trace_unnamed_userevent";
    assert_eq!((exit.0.as_str(), close.0.as_str()), (unnamed, unnamed));
    assert!(
        exit.1.starts_with("name=exit f9-9 level=INFO span="),
        "{exit:?}"
    );
    assert!(exit.1.ends_with("count=9"), "{exit:?}");
    assert!(close.1.starts_with("name=close f9-9 span="), "{close:?}");
}
