//! Events of the layer for the `tracing` crate, read back: every field of random spans and events.
//! One test: the subscriber is the process's.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::error::Error;
use std::fmt;

use proptest::collection::{btree_set, vec};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use tracer_common::event_type::TRACE_USER_EVENT_MAX;
use tracer_engine::event::Truncation;
use tracer_engine::fields::{self, Level, Record};
use tracer_engine::{Attributes, EventSet, Filtering, StreamFullPolicy};
use tracer_posix::EventTypeId;
use tracer_posix::stream::Stream;
use tracing::callsite::{Callsite, Identifier};
use tracing::field::FieldSet;
use tracing::metadata::{Kind, Metadata};
use tracing::subscriber::Interest;
use tracing::{Span, Value};
use tracing_subscriber::prelude::*;

/// Fields of a callsite.
const FIELDS: usize = 4;

/// Least number of spans and events.
const LEAST: usize = 10_000;

/// A callsite that was never in a source file.
struct Site(std::sync::OnceLock<&'static Metadata<'static>>);

impl Callsite for Site {
    fn set_interest(&self, _: Interest) {}

    fn metadata(&self) -> &Metadata<'_> {
        self.0.get().unwrap()
    }
}

/// Makes a callsite, for as long as the process lives.
fn callsite(
    kind: Kind,
    (target, name): (&str, &str),
    level: Level,
    fields: &BTreeSet<String>,
) -> &'static Metadata<'static> {
    let leaked = |text: &str| -> &'static str { Box::leak(Box::<str>::from(text)) };
    let names: Vec<&'static str> = fields.iter().map(|name| leaked(name)).collect();
    let site: &'static Site = Box::leak(Box::new(Site(std::sync::OnceLock::new())));
    let metadata = Metadata::new(
        leaked(name),
        leaked(target),
        match level {
            Level::Trace => tracing::Level::TRACE,
            Level::Debug => tracing::Level::DEBUG,
            Level::Info => tracing::Level::INFO,
            Level::Warn => tracing::Level::WARN,
            Level::Error => tracing::Level::ERROR,
        },
        None,
        None,
        None,
        FieldSet::new(Box::leak(names.into_boxed_slice()), Identifier(site)),
        kind,
    );
    let metadata = Box::leak(Box::new(metadata));
    site.0.set(metadata).unwrap();
    metadata
}

/// A value of one of the types that `tracing` knows; none for a field that is empty.
type Recorded = Option<fields::Value<'static>>;

#[derive(Clone, Debug)]
struct Values([Recorded; FIELDS]);

/// Shows itself as this.
#[derive(Clone)]
struct Shown(String);

impl fmt::Debug for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[derive(Debug)]
struct Failed(String, Option<Box<Failed>>);

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for Failed {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        let cause = self.1.as_deref()?;
        Some(cause)
    }
}

fn to_tracing(value: &fields::Value<'static>) -> Box<dyn Value> {
    match value.clone() {
        fields::Value::Signed(value) => Box::new(value),
        fields::Value::Unsigned(value) => Box::new(value),
        fields::Value::LongSigned(value) => Box::new(value),
        fields::Value::LongUnsigned(value) => Box::new(value),
        fields::Value::Float(value) => Box::new(value),
        fields::Value::Flag(value) => Box::new(value),
        fields::Value::Text(text) => Box::new(text.into_owned()),
        fields::Value::Debug(text) => Box::new(tracing::field::debug(Shown(text.into_owned()))),
        fields::Value::Error(texts) => {
            let failed = texts.into_iter().rev().fold(None, |cause, text| {
                Some(Box::new(Failed(text.into_owned(), cause)))
            });
            let failed: Box<dyn Error + Send + Sync + 'static> = failed.unwrap();
            Box::new(failed)
        }
        fields::Value::Bytes(bytes) => Box::new(bytes.into_boxed_slice()),
    }
}

/// Does something with values as `tracing` has them.
fn with_values<R>(
    metadata: &'static Metadata<'static>,
    values: &Values,
    act: impl FnOnce(&tracing::field::ValueSet<'_>) -> R,
) -> R {
    let names: Vec<tracing::field::Field> = metadata.fields().iter().collect();
    let values = values
        .0
        .each_ref()
        .map(|value| value.as_ref().map(to_tracing));
    let pairs: [_; FIELDS] = std::array::from_fn(|index| {
        let value = values[index].as_deref();
        (&names[index], value)
    });
    act(&metadata.fields().value_set(&pairs))
}

/// Step of a program.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "there are few of them")]
enum Step {
    Event(usize, Values),
    Span {
        site: usize,
        values: Values,
        is_root: bool,
        follows: bool,
        recorded: Option<Values>,
        recorded_late: Option<Values>,
        inside: Vec<Step>,
    },
}

/// Text of any characters, those with a meaning more often than others.
fn any_text(most: usize) -> impl Strategy<Value = String> {
    let special: Vec<char> = "\"\\ =\n\r\t\0\u{1b}…?!x@u{}\u{202e}".chars().collect();
    let character = prop_oneof![
        any::<char>(),
        prop::sample::select(special),
        prop::char::range('a', 'z'),
    ];
    vec(character, 0..most).prop_map(String::from_iter)
}

fn any_value() -> BoxedStrategy<fields::Value<'static>> {
    let text = || any_text(8).prop_map(Cow::Owned);
    prop_oneof![
        any::<i64>().prop_map(fields::Value::Signed),
        any::<u64>().prop_map(fields::Value::Unsigned),
        any::<i128>().prop_map(fields::Value::LongSigned),
        any::<u128>().prop_map(fields::Value::LongUnsigned),
        any::<f64>().prop_map(fields::Value::Float),
        any::<bool>().prop_map(fields::Value::Flag),
        text().prop_map(fields::Value::Text),
        text().prop_map(fields::Value::Debug),
        vec(any_text(5).prop_map(Cow::Owned), 1..3).prop_map(fields::Value::Error),
        vec(any::<u8>(), 0..8).prop_map(fields::Value::Bytes),
    ]
    .boxed()
}

fn any_values() -> BoxedStrategy<Values> {
    prop::array::uniform4(prop::option::of(any_value()))
        .prop_map(Values)
        .boxed()
}

fn any_names() -> impl Strategy<Value = BTreeSet<String>> {
    let name = prop_oneof![
        any_text(6),
        "[a-z_][a-z0-9_.]{0,8}",
        prop::sample::select(vec![
            "message", "level", "span", "parent", "name", "follows"
        ])
        .prop_map(str::to_owned),
    ];
    btree_set(name, FIELDS)
}

/// Callsites: as many as have names of their own, and some that have none left.
const SITES: usize = TRACE_USER_EVENT_MAX as usize / 4 + 60;

fn any_sites() -> impl Strategy<Value = Vec<(bool, Level, BTreeSet<String>)>> {
    let level = prop::sample::select(Level::ALL.to_vec());
    vec((any::<bool>(), level, any_names()), SITES)
}

fn any_program() -> impl Strategy<Value = Vec<Step>> {
    let site = || 0..SITES;
    let event = (site(), any_values()).prop_map(|(site, values)| Step::Event(site, values));
    let step = event.prop_recursive(3, 24, 4, move |inside| {
        let recorded = || prop::option::of(any_values());
        let flags = (any::<bool>(), any::<bool>());
        (
            site(),
            any_values(),
            flags,
            recorded(),
            recorded(),
            vec(inside, 0..4),
        )
            .prop_map(
                |(site, values, (is_root, follows), recorded, recorded_late, inside)| Step::Span {
                    site,
                    values,
                    is_root,
                    follows,
                    recorded,
                    recorded_late,
                    inside,
                },
            )
    });
    vec(step, 1..12)
}

/// Runs programs, and notes what a reader has to find.
struct Machine {
    spans: Vec<&'static Metadata<'static>>,
    events: Vec<&'static Metadata<'static>>,
    expected: Vec<(String, Record<'static>)>,
    count: usize,
}

/// Adds values to those of a span: a new one replaces one that was there.
fn record(metadata: &Metadata<'_>, values: &Values, fields: &mut Vec<fields::Field<'static>>) {
    let given: Vec<_> = metadata
        .fields()
        .iter()
        .zip(&values.0)
        .filter_map(|(field, value)| Some((field.name(), value.clone()?)))
        .collect();
    fields.retain(|field| !given.iter().any(|(name, _)| field.name == *name));
    fields.extend(given.into_iter().map(|(name, value)| fields::Field {
        name: Cow::Owned(name.to_owned()),
        value,
    }));
}

fn level_of(metadata: &Metadata<'_>) -> Option<Level> {
    Level::ALL
        .into_iter()
        .find(|level| level.word() == metadata.level().as_str())
}

impl Machine {
    fn run(&mut self, step: &Step, parent: Option<&Span>) {
        self.count += 1;
        let id = |span: &Span| span.id().unwrap().into_u64();
        match step {
            Step::Event(site, values) => {
                let metadata = self.events[*site];
                with_values(metadata, values, |values| {
                    tracing::Event::dispatch(metadata, values);
                });
                let mut found = Record {
                    level: level_of(metadata),
                    span: parent.map(id),
                    ..Record::default()
                };
                record(metadata, values, &mut found.fields);
                let message = found.fields.iter().position(|field| {
                    let is_text = matches!(
                        field.value,
                        fields::Value::Text(_) | fields::Value::Debug(_)
                    );
                    field.name == "message" && is_text
                });
                if let Some(index) = message {
                    let (fields::Value::Text(text) | fields::Value::Debug(text)) =
                        found.fields.remove(index).value
                    else {
                        unreachable!("as it was looked for");
                    };
                    found.message = Some(text);
                }
                self.expect("", metadata, found);
            }
            Step::Span {
                site,
                values,
                is_root,
                follows,
                recorded,
                recorded_late,
                inside,
            } => {
                let metadata = self.spans[*site];
                let span = with_values(metadata, values, |values| {
                    if *is_root {
                        Span::new_root(metadata, values)
                    } else {
                        Span::new(metadata, values)
                    }
                });
                let mut fields = Vec::new();
                record(metadata, values, &mut fields);
                let head = Record {
                    span: Some(id(&span)),
                    ..Record::default()
                };
                let of_border = Record {
                    level: level_of(metadata),
                    ..head.clone()
                };
                let mut of_enter = Record {
                    parent: parent.filter(|_| !is_root).map(id),
                    ..of_border.clone()
                };
                let with = |record: &Record<'static>, fields: &[fields::Field<'static>]| Record {
                    fields: fields.to_vec(),
                    ..record.clone()
                };
                self.expect("new ", metadata, with(&of_enter, &fields));
                if let Some(parent) = parent.filter(|_| *follows) {
                    span.follows_from(parent);
                    of_enter.follows.push(id(parent));
                    let follows = Record {
                        follows: of_enter.follows.clone(),
                        ..head.clone()
                    };
                    self.expected.push(("follows_from".to_owned(), follows));
                }
                span.in_scope(|| {
                    self.expect("enter ", metadata, with(&of_enter, &fields));
                    if let Some(values) = recorded {
                        with_values(metadata, values, |values| span.record_all(values));
                        record(metadata, values, &mut fields);
                    }
                    for step in inside {
                        self.run(step, Some(&span));
                    }
                });
                self.expect("exit ", metadata, with(&of_border, &fields));
                let mut shown_late = Vec::new();
                if let Some(values) = recorded_late {
                    with_values(metadata, values, |values| span.record_all(values));
                    record(metadata, values, &mut fields);
                    if values.0.iter().any(Option::is_some) {
                        shown_late = fields;
                    }
                }
                drop(span);
                self.expect("close ", metadata, with(&head, &shown_late));
            }
        }
    }

    fn expect(&mut self, moment: &str, metadata: &Metadata<'_>, record: Record<'static>) {
        let name = format!("{moment}{}::{}", metadata.target(), metadata.name());
        self.expected.push((name, record));
    }

    /// Compares with what the stream has.
    fn check(&mut self, stream: &mut Stream) -> (usize, usize) {
        let (mut named, mut unnamed) = (0, 0);
        for (name, mut expected) in self.expected.drain(..) {
            let traced = stream.try_next().unwrap();
            let (header, data) = (traced.event.header, traced.event.data.to_vec());
            assert_eq!(header.truncation, Truncation::None);
            let found = stream.event_types().name(header.event_type).unwrap();
            if header.event_type == EventTypeId::UNNAMED_USEREVENT {
                expected.name = Some(Cow::Owned(name));
                unnamed += 1;
            } else {
                assert_eq!(String::from_utf8_lossy(found), name);
                named += 1;
            }
            let text = String::from_utf8_lossy(&data);
            assert_eq!(Record::parse(&data), Some(expected), "{text}");
        }
        assert!(stream.try_next().is_none());
        (named, unnamed)
    }
}

#[test]
fn every_field_of_random_spans_and_events_is_read_back() {
    tracing_subscriber::registry()
        .with(tracer_posix::layer())
        .init();
    let attributes = Attributes::default()
        .with_stream_min_size(16 << 20)
        .with_stream_full_policy(StreamFullPolicy::UntilFull);
    let mut stream = Stream::create_for_self(&attributes).unwrap();
    let mut start = EventSet::EMPTY;
    start.insert(EventTypeId::START);
    stream.set_filter(&start, Filtering::Set);
    stream.start();

    let mut runner = TestRunner::default();
    let sites = any_sites().new_tree(&mut runner).unwrap().current();
    let made = |kind: &Kind| -> Vec<_> {
        let sites = sites.iter().enumerate();
        sites
            .map(|(index, (is_other, level, fields))| {
                let target = if *is_other { "one::module" } else { "other" };
                let names = (target, &*format!("site {}", index / 2));
                callsite(kind.clone(), names, *level, fields)
            })
            .collect()
    };
    let mut machine = Machine {
        spans: made(&Kind::SPAN),
        events: made(&Kind::EVENT),
        expected: Vec::new(),
        count: 0,
    };
    let programs = any_program();
    let (mut named, mut unnamed) = (0, 0);
    while machine.count < LEAST {
        let program = programs.new_tree(&mut runner).unwrap().current();
        for step in &program {
            machine.run(step, None);
        }
        let (more_named, more_unnamed) = machine.check(&mut stream);
        named += more_named;
        unnamed += more_unnamed;
    }
    // The layer's types are as many as there are callsites.
    assert!(named > 1000 && unnamed == 0, "{named} {unnamed}");
}
