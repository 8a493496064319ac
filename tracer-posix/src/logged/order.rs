//! The order to a recorder, and the message that carries it to the program that records.

use std::os::fd::RawFd;

use serde::{Deserialize, Serialize};

use tracer_engine::ClockPair;
use tracer_engine::event::{MonotonicNs, RealtimeNs};
use tracer_engine::{Attributes, Inheritance, LogFullPolicy, StreamFullPolicy, TraceName};
use tracer_log::LogHeader;

use super::rights::Rights;

/// An order to record a process for a controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Order {
    /// The process to trace.
    pub target: i32,
    /// The controller of the stream.
    pub controller: i32,
    /// The controller's end of the conversation: its descriptor, and the inode of the socket.
    pub end: (RawFd, u64),
    /// The log's description of the stream.
    pub header: LogHeader,
}

/// Mark of the sources that this was built from: only a program that was built from equal sources
/// can decode the messages.
const SOURCES: &str = env!("TRACER_SOURCES");

/// The first message to the recorder's program. Files come with it, in this order: the log, the
/// shared memory of the status, and those of `has_area` and `has_agent`.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Start {
    sources: String,
    target: i32,
    controller: i32,
    end: (RawFd, u64),
    attributes: SentAttributes,
    anchor: (u64, u64),
    /// Rights of the controller, which the recorder has to have.
    pub rights: Rights,
    /// Whether the controller's own area comes as a file.
    pub has_area: bool,
    /// Whether a connection to the agent comes as a file.
    pub has_agent: bool,
}

/// [`Attributes`] as sent.
#[derive(Debug, Serialize, Deserialize)]
struct SentAttributes {
    generation_version: Vec<u8>,
    name: Vec<u8>,
    creation_time: u64,
    clock_resolution_ns: u64,
    stream_min_size: usize,
    stream_full_policy: Option<StreamFullPolicy>,
    max_data_size: usize,
    inheritance: Inheritance,
    log_max_size: usize,
    log_full_policy: LogFullPolicy,
    kernel_events: Option<bool>,
}

impl Start {
    pub fn new(order: &Order, rights: Rights, has_area: bool, has_agent: bool) -> Self {
        let anchor = order.header.anchor;
        Self {
            sources: SOURCES.to_owned(),
            target: order.target,
            controller: order.controller,
            end: order.end,
            attributes: SentAttributes::new(&order.header.attributes),
            anchor: (anchor.monotonic.0, anchor.realtime.0),
            rights,
            has_area,
            has_agent,
        }
    }

    /// Tells whether controller and program are of the same version.
    pub fn is_same_version(&self) -> bool {
        // `black_box` keeps the text whole: the build script looks for it in the program's file.
        self.sources == std::hint::black_box(SOURCES)
    }

    pub fn order(&self) -> Order {
        let (monotonic, realtime) = self.anchor;
        Order {
            target: self.target,
            controller: self.controller,
            end: self.end,
            header: LogHeader {
                attributes: self.attributes.received(),
                anchor: ClockPair {
                    monotonic: MonotonicNs(monotonic),
                    realtime: RealtimeNs(realtime),
                },
            },
        }
    }
}

impl SentAttributes {
    fn new(attributes: &Attributes) -> Self {
        // No `..` here: a new attribute cannot be forgotten.
        let Attributes {
            generation_version,
            name,
            creation_time,
            clock_resolution_ns,
            stream_min_size,
            stream_full_policy,
            max_data_size,
            inheritance,
            log_max_size,
            log_full_policy,
            kernel_events,
        } = attributes;
        Self {
            generation_version: generation_version.as_bytes().to_vec(),
            name: name.as_bytes().to_vec(),
            creation_time: creation_time.0,
            clock_resolution_ns: *clock_resolution_ns,
            stream_min_size: *stream_min_size,
            stream_full_policy: *stream_full_policy,
            max_data_size: *max_data_size,
            inheritance: *inheritance,
            log_max_size: *log_max_size,
            log_full_policy: *log_full_policy,
            kernel_events: *kernel_events,
        }
    }

    fn received(&self) -> Attributes {
        Attributes {
            generation_version: TraceName::truncated_from(&self.generation_version),
            name: TraceName::truncated_from(&self.name),
            creation_time: RealtimeNs(self.creation_time),
            clock_resolution_ns: self.clock_resolution_ns,
            stream_min_size: self.stream_min_size,
            stream_full_policy: self.stream_full_policy,
            max_data_size: self.max_data_size,
            inheritance: self.inheritance,
            log_max_size: self.log_max_size,
            log_full_policy: self.log_full_policy,
            kernel_events: self.kernel_events,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no capabilities")]
    fn an_order_arrives_as_it_was_given() {
        let attributes = Attributes::default()
            .with_name("traced")
            .with_stream_min_size(12_345)
            .with_stream_full_policy(StreamFullPolicy::UntilFull)
            .with_max_data_size(77)
            .with_inheritance(Inheritance::Inherited)
            .with_log_max_size(1 << 21)
            .with_log_full_policy(LogFullPolicy::Append)
            .with_kernel_events(true)
            .with_creation_time(RealtimeNs(99));
        let order = Order {
            target: 5,
            controller: 4,
            end: (17, 1 << 40),
            header: LogHeader {
                attributes,
                anchor: ClockPair {
                    monotonic: MonotonicNs(1),
                    realtime: RealtimeNs(2),
                },
            },
        };
        let sent = Start::new(&order, Rights::read_own(), true, false);
        let bytes = postcard::to_stdvec(&sent).unwrap();
        let received: Start = postcard::from_bytes(&bytes).unwrap();

        assert!(received.is_same_version());
        assert_eq!(received.order(), order);
        assert_eq!(received.rights, Rights::read_own());
        assert_eq!((received.has_area, received.has_agent), (true, false));
    }
}
