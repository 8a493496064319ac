//! Spans and events of the `tracing` crate, read back as user events. One test: the subscriber is
//! the process's.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;

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
    info!("not traced yet");
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
        tracing::Level::TRACE, text = "x".repeat(2000));

    early.in_scope(|| {});
    drop(early);
    drop(span);

    let found = read(&mut stream);
    let span_id = |name: &str| {
        let (_, data) = found.iter().find(|(found, _)| found == name).unwrap();
        let span = data.split_once("span=").unwrap().1;
        span.split(' ').next().unwrap().to_owned()
    };
    let (request, early) = (
        span_id("enter layer::request"),
        span_id("enter layer::early"),
    );
    assert_ne!(request, early);
    let text = "x".repeat(1024 - "level=TRACE text=\"\"…".len());
    let since = r#"since="before the stream""#;
    let expected = [
        (
            "new layer::request",
            format!("level=DEBUG span={request} count=7"),
        ),
        (
            "enter layer::request",
            format!("level=DEBUG span={request} count=7"),
        ),
        (
            "layer::checkpoint",
            format!(r#"level=INFO span={request} bytes=12 path="/a b""#),
        ),
        (
            &*format!("layer:{line}"),
            format!(r#"level=INFO span={request} "it works" code=3"#),
        ),
        (
            "exit layer::request",
            format!(r#"level=DEBUG span={request} count=7 answer="yes""#),
        ),
        // A name beyond the limit is shortened, and still unique.
        (&*found[5].0, format!(r#"level=TRACE text="{text}"…"#)),
        (
            "enter layer::early",
            format!("level=DEBUG span={early} {since}"),
        ),
        (
            "exit layer::early",
            format!("level=DEBUG span={early} {since}"),
        ),
        ("close layer::early", format!("span={early}")),
        ("close layer::request", format!("span={request}")),
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
        vec![pair("layer::all at once", "level=INFO \"x\""); 8]
    );

    no_value_becomes_fields_or_a_line(&mut stream);
    spans_of_two_modules_are_of_two_types(&mut stream);
    parents_and_what_spans_follow_from(&mut stream);
    what_was_recorded_last_is_shown(&mut stream);
    targets_that_differ_beyond_the_longest_name(&mut stream);
    callsites_beyond_the_most_types(&mut stream);
}

fn no_value_becomes_fields_or_a_line(stream: &mut Stream) {
    let user = "bob admin=true\nlevel=ERROR";
    info!(name: "login", user, "user {user}");
    assert_eq!(
        read(stream),
        [pair(
            "layer::login",
            r#"level=INFO "user bob admin=true\nlevel=ERROR" user="bob admin=true\nlevel=ERROR""#
        )]
    );
}

mod one {
    pub fn span() -> tracing::Span {
        tracing::info_span!("same")
    }
}

mod other {
    pub fn span() -> tracing::Span {
        tracing::info_span!("same")
    }
}

fn names(found: &[(String, String)]) -> Vec<&str> {
    found.iter().map(|(name, _)| name.as_str()).collect()
}

fn spans_of_two_modules_are_of_two_types(stream: &mut Stream) {
    one::span().in_scope(|| {});
    other::span().in_scope(|| {});
    let found = read(stream);
    let expected = ["one", "other"].map(|module| {
        ["new", "enter", "exit", "close"].map(|moment| format!("{moment} layer::{module}::same"))
    });
    assert_eq!(names(&found), expected.concat());
}

fn parents_and_what_spans_follow_from(stream: &mut Stream) {
    let outer = info_span!("outer");
    let cause = info_span!(parent: None, "cause");
    let inner = outer.in_scope(|| info_span!("inner", x = 1));
    inner.follows_from(&cause);
    inner.in_scope(|| {});
    let id = |span: &tracing::Span| span.id().unwrap().into_u64();
    let (outer_id, cause_id, inner_id) = (id(&outer), id(&cause), id(&inner));
    drop((inner, cause, outer));

    let found = read(stream);
    let of = |name: &str| {
        let mut found = found.iter().filter(|(found, _)| found == name);
        found.next().unwrap().1.as_str()
    };
    let head = format!("level=INFO span={inner_id} parent={outer_id}");
    assert_eq!(of("new layer::inner"), format!("{head} x=1"));
    assert_eq!(
        of("enter layer::inner"),
        format!("{head} follows={cause_id} x=1")
    );
    assert_eq!(
        of("follows_from"),
        format!("span={inner_id} follows={cause_id}")
    );
    assert_eq!(
        of("new layer::cause"),
        format!("level=INFO span={cause_id}")
    );
}

fn what_was_recorded_last_is_shown(stream: &mut Stream) {
    let span = info_span!("counts", count = 0, end = tracing::field::Empty);
    let inside = span.enter();
    for count in 0..10_000 {
        span.record("count", count);
    }
    drop(inside);
    span.record("end", "late");
    drop(span);

    let found = read(stream);
    let [.., exit, close] = &found[..] else {
        panic!("{found:?}");
    };
    assert!(exit.1.ends_with(" count=9999"), "{exit:?}");
    assert!(close.1.ends_with(r#" count=9999 end="late""#), "{close:?}");
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
    let of_first = ["new", "enter", "exit", "close"].map(|moment| format!("{moment} layer::a0-0"));
    assert_eq!(names[..4], of_first);
    let [.., exit, close] = &found[..] else {
        panic!("{found:?}");
    };
    let of_last = ("exit layer::f9-9", "close layer::f9-9");
    assert_eq!((exit.0.as_str(), close.0.as_str()), of_last);
    assert!(exit.1.starts_with("level=INFO span="), "{exit:?}");
    assert!(exit.1.ends_with("count=9"), "{exit:?}");
    assert!(close.1.starts_with("span="), "{close:?}");
    // None of them is one of the types that the process may open.
    let open = |name: &str| tracer_posix::emit::UserEvent::open(name).unwrap().id();
    let opened: BTreeSet<_> = (0..1000)
        .map(|nth| open(&format!("the process's own, {nth}")))
        .collect();
    assert_eq!(opened.len(), 1000);
    assert!(!opened.contains(&EventTypeId::UNNAMED_USEREVENT));
}
