//! The Common Trace Format, 1.8 and 2: a folder with a description and one stream of packets.
//!
//! - `metadata` is the description, in the format's own language (TSDL), and writes the data of
//!   events as that declares it;
//! - `second` is the description of version 2, in JSON;
//! - `packet` is the container of events: times, sizes, and how many events were lost so far;
//! - `typed` does both for events that say themselves what their fields are.
//!
//! The description lists the event types that came, so it is written at the end.

mod metadata;
mod packet;
mod second;
mod typed;

use std::collections::{BTreeMap, HashMap};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use tracer_common::event_type::SystemEventType;
use tracer_engine::ClockPair;
use tracer_engine::event::Truncation;

use super::TraceOrigin;
use packet::{Packet, PacketHeader};
use tracer_event::consumer::{Consumer, TraceLosses};
use tracer_event::event_view::EventView;
use tracer_event::summary::Summary;
use tracer_output::output_file;
use tracer_text::escape::push_name;
use tracer_text::self_describing::Typed;
use typed::TypedShape;

/// Version of the format, which is that of the description: packets are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// 1.8.
    First,
    /// 2.
    Second,
}

/// Files of the folder.
pub const FILES: [&str; 2] = ["metadata", "stream"];

/// Bytes after which a packet is closed.
const PACKET_BYTES: usize = 64 * 1024;

/// Number added to that of a system event type for events whose data does not fit the type: they
/// have bytes instead of fields.
const RAW: u32 = 1 << 16;

/// Number of the first class whose fields its events say themselves. Programs' types have lower
/// ones.
const TYPED: u32 = 1 << 20;

/// Class of one type of event in the description.
#[derive(Clone, Debug)]
enum Class {
    /// Fields of the table of event types.
    System(&'static SystemEventType),
    /// Bytes, or text where they are text.
    Bytes,
    /// Fields of which the events themselves say what they are.
    Typed(TypedShape),
}

/// Exporter that writes a folder.
pub struct Ctf {
    folder: PathBuf,
    version: Version,
    stream: Box<dyn Write + Send>,
    origin: TraceOrigin,
    header: PacketHeader,
    packet: Packet,
    /// Names and classes by id in the stream.
    classes: BTreeMap<u32, (Vec<u8>, Class)>,
    /// Classes of events that say themselves what their fields are, by their event types.
    shapes: HashMap<u32, Vec<u32>>,
    fields: Vec<u8>,
}

impl Ctf {
    /// Makes the files in `folder`.
    ///
    /// # Errors
    ///
    /// They cannot be made.
    pub fn new(folder: &Path, origin: TraceOrigin, version: Version) -> anyhow::Result<Self> {
        let mut stream = tracer_output::destination::writer(&folder.join("stream"))?;
        let header = PacketHeader {
            uuid: uuid(origin.anchor),
        };
        // What was lost is written as a difference between packets: the first one says where it
        // starts.
        let mut first = Packet::default();
        first.begin(origin.anchor.monotonic);
        first.write(&header, &mut stream).context(CANNOT_WRITE)?;
        Ok(Self {
            folder: folder.to_owned(),
            version,
            stream,
            origin,
            header,
            packet: first.next(),
            classes: BTreeMap::new(),
            shapes: HashMap::new(),
            fields: Vec::new(),
        })
    }

    /// Notes the class of an event, and returns its number.
    fn class(&mut self, entry: &EventView<'_>, id: u32, class: Class) -> u32 {
        let known = self.classes.entry(id);
        known.or_insert_with(|| (entry.name.to_vec(), class));
        id
    }

    /// Writes the fields of an event that says itself what they are, and returns its class. `None`,
    /// with nothing written, for any other event.
    fn push_typed(&mut self, entry: &EventView<'_>) -> Option<u32> {
        let event_type = entry.event.header.event_type;
        let typed = Typed::parse_event(entry.name, entry.event.data)?;
        let known = self.shapes.entry(event_type.0).or_default();
        let is_of = |id: &u32| match self.classes.get(id) {
            Some((name, Class::Typed(shape))) => name == entry.name && shape.is_of(typed),
            _ => false,
        };
        let id = match known.iter().copied().find(is_of) {
            Some(id) => id,
            None => {
                let shape = TypedShape::from_event(entry.name, typed)?;
                let shapes = self.classes.range(TYPED..).count();
                let id = TYPED.saturating_add(u32::try_from(shapes).ok()?);
                if shapes >= typed::MOST_SHAPES || known.len() >= typed::MOST_OF_TYPE {
                    return None;
                }
                let class = (entry.name.to_vec(), Class::Typed(shape));
                self.classes.insert(id, class);
                known.push(id);
                id
            }
        };
        if let Some((_, Class::Typed(shape))) = self.classes.get(&id) {
            shape.push(&mut self.fields, entry, typed);
        }
        Some(id)
    }

    fn close_packet(&mut self) -> anyhow::Result<()> {
        self.packet
            .write(&self.header, &mut self.stream)
            .context(CANNOT_WRITE)?;
        self.packet = std::mem::take(&mut self.packet).next();
        Ok(())
    }
}

const CANNOT_WRITE: &str = "cannot write the stream";

impl Consumer for Ctf {
    fn event(&mut self, entry: &EventView<'_>) -> anyhow::Result<()> {
        let header = &entry.event.header;
        self.fields.clear();
        let system = entry.entry.filter(|system| {
            metadata::push_system(&mut self.fields, system, entry.event.data).is_some()
        });
        let id = match (system, entry.entry) {
            (Some(system), _) => self.class(entry, header.event_type.0, Class::System(system)),
            (None, in_table) => {
                self.fields.clear();
                match self.push_typed(entry) {
                    Some(id) => id,
                    None => {
                        metadata::push_bytes(&mut self.fields, entry.event.data);
                        let raw = if in_table.is_some() { RAW } else { 0 };
                        let id = header.event_type.0.saturating_add(raw);
                        self.class(entry, id, Class::Bytes)
                    }
                }
            }
        };
        let out = self.packet.event(id, entry.at());
        out.extend_from_slice(&header.pid.to_ne_bytes());
        out.extend_from_slice(&header.tid.to_ne_bytes());
        let cpu = header.cpu.and_then(|cpu| i32::try_from(cpu).ok());
        out.extend_from_slice(&cpu.unwrap_or(-1).to_ne_bytes());
        out.push(u8::from(header.truncation != Truncation::None));
        out.extend_from_slice(&header.program_address.to_ne_bytes());
        out.extend_from_slice(&header.thread_id.to_ne_bytes());
        // Some readers show an empty text as what was there before.
        let unknown: &[u8] = if header.pid == 0 { b"-" } else { b"?" };
        push_name(out, entry.comm.unwrap_or(unknown));
        out.push(0);
        out.extend_from_slice(&self.fields);
        if self.packet.bytes() >= PACKET_BYTES {
            self.close_packet()?;
        }
        Ok(())
    }

    fn count_losses(&mut self, losses: &TraceLosses) -> anyhow::Result<()> {
        let total = losses.total();
        if self.packet.lost == total {
            return Ok(());
        }
        // Lost between the last packet and the end of this one.
        self.packet.lost = total;
        self.close_packet()
    }

    fn finish(mut self: Box<Self>, summary: &Summary) -> anyhow::Result<()> {
        self.packet.end_at(summary.last);
        self.close_packet()?;
        self.stream.flush().context(CANNOT_WRITE)?;
        let describe = match self.version {
            Version::First => metadata::text,
            Version::Second => second::text,
        };
        let text = describe(&self.origin, &self.header.uuid, &self.classes);
        let path = self.folder.join("metadata");
        let written =
            output_file::create_new(&path).and_then(|mut file| file.write_all(text.as_bytes()));
        written.with_context(|| format!("cannot write to {}", path.display()))
    }
}

/// Returns an identifier of the trace: the same for every export of one log.
fn uuid(anchor: ClockPair) -> [u8; 16] {
    /// Version 8 of RFC 9562, whose content is free: the bits of version and variant, and their
    /// values.
    const VERSION: (u128, u128) = (0xf << 76, 0x8 << 76);
    const VARIANT: (u128, u128) = (0x3 << 62, 0x2 << 62);
    let mut uuid = u128::from(anchor.realtime.0) << 64 | u128::from(anchor.monotonic.0);
    for (bits, value) in [VERSION, VARIANT] {
        uuid = uuid & !bits | value;
    }
    uuid.to_be_bytes()
}

#[cfg(test)]
mod tests {
    use tracer_engine::event::MonotonicNs;

    use std::fs;

    use super::*;
    use tracer_common::event_type::EventTypeId;
    use tracer_log_view::test_log::TestLog;
    use tracer_log_view::{Log, Pause, Walk, WantedEvents};

    fn exported(log: TestLog) -> (String, Vec<u8>) {
        let folder = tempfile::tempdir().unwrap();
        let origin = TraceOrigin {
            attributes: log.header().attributes.clone(),
            anchor: log.header().anchor,
            system: tracer_log::System::default(),
            is_wanted: std::rc::Rc::new(|_, _| true),
            table: crate::TableChoice::default(),
        };
        let mut ctf = Box::new(Ctf::new(folder.path(), origin, Version::First).unwrap());
        let mut walk = Walk::new(log, WantedEvents::default());
        while walk.go_on(3, |entry| ctf.event(entry)).unwrap() == Pause::Midway {
            ctf.count_losses(&walk.losses()).unwrap();
        }
        let summary = Summary {
            last: MonotonicNs(1_000),
            ..walk.summary()
        };
        ctf.finish(&summary).unwrap();
        let metadata = fs::read_to_string(folder.path().join("metadata")).unwrap();
        (metadata, fs::read(folder.path().join("stream")).unwrap())
    }

    #[test]
    fn data_that_is_not_as_its_type_says_is_written_as_bytes() {
        let mut log = TestLog::default();
        log.push(200, EventTypeId::FORK, (1, 1), b"\xffshort");
        let (metadata, stream) = exported(log);

        assert!(metadata.contains("id = 65568;"), "{metadata}");
        assert!(!metadata.contains("_child_pid"), "{metadata}");
        assert!(stream.windows(6).any(|bytes| bytes == b"\xffshort"));
    }

    #[test]
    fn losses_are_reported_by_packets() {
        let mut log = TestLog {
            late: 9,
            ..TestLog::default()
        };
        let name = log.define(b"x");
        for ns in 200..210 {
            log.push(ns, name, (1, 1), b"");
        }
        let (_, stream) = exported(log);

        let packets = packet::tests::packets(&stream);
        let lost: Vec<u64> = packets.iter().map(|packet| packet.lost).collect();
        assert_eq!(lost, [0, 9, 9]);
    }

    #[test]
    fn no_text_is_empty() {
        let mut log = TestLog::default();
        let name = log.define(b"x");
        log.push(200, name, (7, 8), b"");
        log.push(300, EventTypeId::START, (0, 0), b"");
        for event in &mut log.events {
            event.forget_name();
        }
        let (_, stream) = exported(log);
        // The thread's id and the name, and then that bytes follow, of which there are none.
        let unknown = [&[0; 8][..], b"?\0", &[metadata::BYTES, 0, 0, 0, 0]].concat();
        let no_thread = [&[0; 8][..], b"-\0"].concat();
        for expected in [unknown, no_thread] {
            let mut windows = stream.windows(expected.len());
            assert!(windows.any(|part| part == expected), "{stream:?}");
        }
    }
}
