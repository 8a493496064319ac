//! Objects of the format, one after the other.

use tracer_engine::event::MonotonicNs;

use crate::carried::{Carried, Item};
use crate::names::LogThread;
use tracer_syscalls::shown::push_address;
use tracer_text::digits::{push_decimal, push_filled};
use tracer_text::escape::push_json_string;

/// Objects to be written next.
#[derive(Debug)]
pub struct Objects {
    bytes: Vec<u8>,
    is_first: bool,
}

impl Default for Objects {
    fn default() -> Self {
        Self {
            bytes: Vec::new(),
            is_first: true,
        }
    }
}

impl Objects {
    /// Takes the bytes added since the last call.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }

    /// Begins an object: its phase, and the thread that it is shown with.
    pub fn begin(&mut self, phase: &str, thread: LogThread) -> &mut Self {
        let start: &[u8] = if self.is_first { b"\n" } else { b",\n" };
        self.is_first = false;
        self.bytes.extend_from_slice(start);
        self.raw("{\"ph\":\"").raw(phase).raw("\",\"pid\":");
        push_decimal(&mut self.bytes, thread.pid);
        self.raw(",\"tid\":");
        push_decimal(&mut self.bytes, thread.tid);
        self
    }

    /// Adds text as it is.
    pub fn raw(&mut self, text: &str) -> &mut Self {
        self.bytes.extend_from_slice(text.as_bytes());
        self
    }

    /// Adds what `add` appends.
    pub fn with(&mut self, add: impl FnOnce(&mut Vec<u8>)) -> &mut Self {
        add(&mut self.bytes);
        self
    }

    /// Adds a member that is text: any bytes.
    pub fn text(&mut self, name: &str, text: &[u8]) -> &mut Self {
        self.raw(",\"").raw(name).raw("\":");
        push_json_string(&mut self.bytes, text);
        self
    }

    /// Adds a time, in microseconds.
    pub fn time(&mut self, name: &str, ns: u64) -> &mut Self {
        self.raw(",\"").raw(name).raw("\":");
        push_decimal(&mut self.bytes, ns / 1000);
        self.bytes.push(b'.');
        push_filled(&mut self.bytes, ns % 1000, 3, b'0');
        self
    }

    /// Adds an integer.
    pub fn integer(&mut self, name: &str, value: u64) -> &mut Self {
        self.raw(",\"").raw(name).raw("\":");
        push_decimal(&mut self.bytes, value);
        self
    }

    /// Adds the data of events.
    pub fn carried<'a>(&mut self, parts: impl IntoIterator<Item = &'a Carried>) -> &mut Self {
        self.raw(",\"args\":{");
        let items = parts.into_iter().flat_map(|part| &part.0);
        for (index, (name, item)) in items.enumerate() {
            self.raw(if index == 0 { "\"" } else { ",\"" });
            self.raw(name).raw("\":");
            push_item(&mut self.bytes, item);
        }
        self.raw("}")
    }

    /// Adds an address to the object that was written last.
    pub fn and_address(&mut self, name: &str, address: u64) -> &mut Self {
        self.bytes.pop_if(|last| *last == b'}');
        if self.bytes.last() != Some(&b'{') {
            self.bytes.push(b',');
        }
        self.raw("\"").raw(name).raw("\":");
        push_item(&mut self.bytes, &Item::Pointer(address));
        self.raw("}")
    }

    /// Ends the object.
    pub fn end(&mut self) {
        self.bytes.push(b'}');
    }

    /// Adds the name of a process or thread.
    pub fn name(&mut self, what: &str, thread: LogThread, name: &[u8]) {
        self.begin("M", thread).text("name", what.as_bytes());
        self.raw(",\"args\":{\"name\":");
        push_json_string(&mut self.bytes, name);
        self.raw("}").end();
    }

    /// Adds a flow's beginning or end, which belongs to the slice of its thread at that time.
    pub fn flow(&mut self, phase: &str, thread: LogThread, at: MonotonicNs, id: u64) {
        self.begin(phase, thread).text("cat", b"wakeup");
        self.text("name", b"wake-up").integer("id", id);
        self.time("ts", at.0).text("bp", b"e").end();
    }
}

fn push_item(out: &mut Vec<u8>, item: &Item) {
    match item {
        Item::Signed(value) => push_decimal(out, *value),
        Item::Unsigned(value) => push_decimal(out, *value),
        Item::Truth(truth) => out.extend_from_slice(truth.to_string().as_bytes()),
        Item::Pointer(address) => {
            out.push(b'"');
            push_address(out, *address);
            out.push(b'"');
        }
        Item::Text(text) => push_json_string(out, text),
        Item::Words(words) => push_json_string(out, words.as_bytes()),
        Item::Integers(values) => {
            out.push(b'[');
            for (index, value) in values.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                push_decimal(out, *value);
            }
            out.push(b']');
        }
    }
}
