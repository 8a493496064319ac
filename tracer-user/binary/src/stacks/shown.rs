//! Stack as it is shown with its event.

use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::stack_ends;
use tracer_engine::event::MonotonicNs;

use super::names::{Frame, SymbolNames};
use super::{Mapping, RecordedStack};
use crate::python::{is_place, parts_of_name};
use tracer_text::digits::{push_decimal, push_hex};
use tracer_text::escape::{push_for_people, push_json_string};

/// The stack of an event.
#[derive(Clone, Copy, Debug)]
pub struct Stack<'a> {
    /// The process.
    pub pid: i32,
    /// The thread, which is not that of the event where it is a waker's.
    pub tid: i32,
    /// Time at which it was recorded: its addresses mean what they meant then.
    pub at: MonotonicNs,
    /// The data of the stack's event.
    pub data: &'a [u8],
    /// Resolver of its addresses.
    pub names: &'a SymbolNames,
}

impl Stack<'_> {
    /// Tells whether it is that of an event of this type.
    #[must_use]
    pub fn is_of(&self, id: EventTypeId) -> bool {
        RecordedStack::parse(self.data).is_some_and(|taken| taken.head.event_type == id.0)
    }

    /// Returns how many addresses it has of the kernel, and how many of the program.
    #[must_use]
    pub fn frame_counts(&self) -> (u16, u16) {
        RecordedStack::parse(self.data).map_or((0, 0), |taken| {
            (taken.head.kernel_frames, taken.head.user_frames)
        })
    }

    /// Returns a number that differs where addresses of the process mean something else.
    #[must_use]
    pub fn space(&self) -> u64 {
        let taken = RecordedStack::parse(self.data);
        let (_, at) = taken.map_or((0, self.at.0), |taken| taken.taken_between(self.at.0));
        self.names.space(self.pid, at)
    }

    /// Returns its functions, the innermost first.
    #[must_use]
    pub fn frames(&self) -> Vec<Frame> {
        RecordedStack::parse(self.data).map_or_else(Vec::new, |taken| {
            self.names.frames(self.pid, self.at.0, &taken)
        })
    }

    /// Appends a line for each function.
    pub fn push_lines(&self, out: &mut Vec<u8>) {
        push_frame_lines(out, &self.frames());
        if let Some(why) = self.why_it_ends().and_then(StackEnd::in_words) {
            out.extend_from_slice(format!("        ... {why}\n").as_bytes());
        }
    }

    /// Returns the reason why the functions of the program end where they do; `None` where it is
    /// unknown.
    #[must_use]
    pub fn why_it_ends(&self) -> Option<StackEnd> {
        StackEnd::from_number(RecordedStack::parse(self.data)?.head.ends)
    }

    /// Appends a JSON list of the functions.
    pub fn push_json(&self, out: &mut Vec<u8>) {
        push_frames_json(out, &self.frames());
    }
}

/// Appends a line for each function.
pub fn push_frame_lines(out: &mut Vec<u8>, frames: &[Frame]) {
    for frame in frames {
        out.extend_from_slice(b"        ");
        push_frame(out, frame);
        out.push(b'\n');
    }
}

/// Appends a JSON list of functions.
pub fn push_frames_json(out: &mut Vec<u8>, frames: &[Frame]) {
    out.push(b'[');
    for (index, frame) in frames.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        out.extend_from_slice(b"{\"ip\":");
        push_decimal(out, frame.address);
        if is_place(frame.address) {
            push_place_json(out, frame);
        } else if let Some((name, offset)) = &frame.function {
            out.extend_from_slice(b",\"symbol\":");
            push_json_string(out, name.as_bytes());
            if frame.is_inlined {
                out.extend_from_slice(b",\"inlined\":true");
            } else {
                out.extend_from_slice(b",\"offset\":");
                push_decimal(out, *offset);
            }
        }
        if let Some((file, line)) = &frame.line {
            out.extend_from_slice(b",\"file\":");
            push_json_string(out, file.as_bytes());
            out.extend_from_slice(b",\"line\":");
            push_decimal(out, u64::from(*line));
        }
        if frame.is_kernel {
            out.extend_from_slice(b",\"module\":\"[kernel]\"");
        } else if let Some(mapping) = &frame.mapping {
            out.extend_from_slice(b",\"module\":");
            push_json_string(out, module(mapping));
            if !mapping.build_id.is_empty() {
                out.extend_from_slice(b",\"build_id\":\"");
                push_hex(out, &mapping.build_id);
                out.push(b'"');
            }
        }
        out.push(b'}');
    }
    out.push(b']');
}

/// Returns the path of a mapping, or a word for code without a file.
fn module(mapping: &Mapping) -> &[u8] {
    if mapping.path.is_empty() {
        b"[anon]"
    } else {
        &mapping.path
    }
}

/// Appends the fields of a place in a function of Python.
fn push_place_json(out: &mut Vec<u8>, frame: &Frame) {
    if let Some((name, line)) = &frame.function {
        let (function, file) = parts_of_name(name);
        out.extend_from_slice(b",\"symbol\":");
        push_json_string(out, function.as_bytes());
        if let Some(file) = file {
            out.extend_from_slice(b",\"file\":");
            push_json_string(out, file.as_bytes());
        }
        if *line != 0 {
            out.extend_from_slice(b",\"line\":");
            push_decimal(out, *line);
        }
    }
    out.extend_from_slice(b",\"module\":\"[python]\"");
}

/// Appends a place in a function of Python as people read it.
fn push_place(out: &mut Vec<u8>, frame: &Frame) {
    let Some((name, line)) = &frame.function else {
        out.extend_from_slice(b"[python]");
        return;
    };
    let (function, file) = parts_of_name(name);
    push_for_people(out, function.as_bytes());
    let Some(file) = file else { return };
    out.extend_from_slice(b" (");
    push_for_people(out, file.as_bytes());
    if *line != 0 {
        out.push(b':');
        push_decimal(out, *line);
    }
    out.push(b')');
}

fn push_frame(out: &mut Vec<u8>, frame: &Frame) {
    if is_place(frame.address) {
        return push_place(out, frame);
    }
    match &frame.function {
        Some((name, offset)) => {
            push_for_people(out, name.as_bytes());
            if frame.is_inlined {
                out.extend_from_slice(b" (inlined)");
            } else {
                out.extend_from_slice(format!("+{offset:#x}").as_bytes());
            }
        }
        None => out.extend_from_slice(format!("{:#x}", frame.address).as_bytes()),
    }
    if frame.is_kernel {
        out.extend_from_slice(b" ([kernel])");
    } else if let Some(mapping) = &frame.mapping {
        let path = module(mapping);
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
        out.extend_from_slice(b" (");
        push_for_people(out, name);
        if frame.function.is_none() && path.starts_with(b"/") {
            let inside = frame.address.wrapping_sub(mapping.start);
            let offset = inside.wrapping_add(mapping.file_offset);
            out.extend_from_slice(format!("+{offset:#x}").as_bytes());
        }
        out.push(b')');
    }
    if let Some((file, line)) = &frame.line {
        let name = file.rsplit('/').next().unwrap_or(file);
        out.extend_from_slice(b" at ");
        push_for_people(out, name.as_bytes());
        out.extend_from_slice(format!(":{line}").as_bytes());
    }
}

/// Reason why the functions of the program end where they do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StackEnd {
    /// Beginning of the program, or of the thread.
    Beginning,
    /// Memory that was not copied.
    Memory,
    /// Code whose unwind rules are not known.
    Code,
    /// Limit on the number of functions that was asked for.
    Count,
    /// Memory that is no stack.
    Damaged,
    /// Interpreter of which it is not known where its frames are.
    Interpreter,
}

impl StackEnd {
    /// Returns the reason in an event's data; `None` where it has none.
    #[must_use]
    pub fn from_number(ends: u32) -> Option<Self> {
        Some(match ends {
            stack_ends::BEGINNING => Self::Beginning,
            stack_ends::MEMORY => Self::Memory,
            stack_ends::CODE => Self::Code,
            stack_ends::COUNT => Self::Count,
            stack_ends::DAMAGED => Self::Damaged,
            stack_ends::INTERPRETER => Self::Interpreter,
            _ => return None,
        })
    }

    /// Returns its name in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Beginning => "beginning",
            Self::Memory => "memory",
            Self::Code => "code",
            Self::Count => "count",
            Self::Damaged => "damaged",
            Self::Interpreter => "interpreter",
        }
    }

    /// Describes the missing part; `None` where nothing is missing.
    #[must_use]
    pub fn in_words(self) -> Option<&'static str> {
        match self {
            Self::Beginning => None,
            Self::Memory => Some("the rest of the stack was not copied"),
            Self::Code => Some("its file does not say how it calls"),
            Self::Count => Some("more than were asked for"),
            Self::Damaged => Some("what follows is no stack"),
            Self::Interpreter => {
                Some("it is not known, or not known yet, where the interpreter has its frames")
            }
        }
    }
}
