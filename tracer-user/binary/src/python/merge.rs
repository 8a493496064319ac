//! Frames of Python among the functions of the program.
//!
//! The interpreter runs functions of Python in one function of its own, which is once in the stack
//! for each time that C has called Python; since 3.11, functions of Python that call each other do
//! not come through C. So the frames up to one that C has called stand in its place.

use tracer_common::kernel::{
    MOST_PYTHON_FRAMES, NO_FIELD, PythonFrame, PythonRecord, RecordHeader, USUAL_PYTHON_FRAMES,
};
use zerocopy::FromBytes as _;

use super::Codes;
use super::layout::layout_of;

/// The Python frames of a thread, as they were recorded.
#[derive(Clone, Debug)]
pub struct Frames {
    /// The header of the record.
    pub header: RecordHeader,
    /// The type of the record of the event that their stack belongs to.
    pub event_type: u32,
    /// Why they end where they do: one of
    /// [`stack_ends`](tracer_common::kernel::stack_ends).
    pub ends: u32,
    /// The interpreter that they were found by: see
    /// [`PythonProcess::number`](tracer_common::kernel::PythonProcess::number).
    pub interpreter: u32,
    minor: u32,
    frames: Vec<PythonFrame>,
}

impl Frames {
    /// Reads the record of frames; `None` where our programs do not write such a record.
    #[must_use]
    pub fn parse(untrusted: &[u8]) -> Option<Self> {
        if untrusted.len() == size_of::<PythonRecord<USUAL_PYTHON_FRAMES>>() {
            Self::parse_as::<USUAL_PYTHON_FRAMES>(untrusted)
        } else {
            Self::parse_as::<MOST_PYTHON_FRAMES>(untrusted)
        }
    }

    fn parse_as<const N: usize>(untrusted: &[u8]) -> Option<Self> {
        let record = PythonRecord::<N>::ref_from_bytes(untrusted).ok()?;
        let count = usize::try_from(record.count).ok()?;
        Some(Self {
            header: record.header,
            event_type: record.event_type,
            ends: record.ends,
            interpreter: record.number,
            minor: record.minor,
            frames: record.frames.get(..count)?.to_vec(),
        })
    }

    /// Returns the frames of functions, the innermost first, each with whether C has called it.
    fn functions(&self) -> impl Iterator<Item = (&PythonFrame, bool)> {
        let frames = self.frames.iter().enumerate();
        let frames = frames.filter(|(_, frame)| frame.mark != 0);
        frames.map(|(index, frame)| {
            let next = self.frames.get(index + 1);
            (frame, self.is_called_by_c(frame, next))
        })
    }

    fn is_called_by_c(&self, frame: &PythonFrame, next: Option<&PythonFrame>) -> bool {
        let layout = layout_of(self.minor);
        let has_owner = layout.is_none_or(|layout| layout.frame_owner != NO_FIELD);
        match self.minor {
            // Each comes through C.
            _ if !has_owner => true,
            // `is_entry`.
            11 => frame.owner & 0xff != 0,
            // A frame between says so.
            _ => next.is_none_or(|next| next.mark == 0),
        }
    }
}

/// Returns the addresses of a stack of process `pid` with its Python frames: in the place of the
/// functions that run them, by what `runs` says of an address; those beyond come last.
#[must_use]
pub fn merged(
    codes: &mut Codes,
    frames: &Frames,
    pid: i32,
    native: &[u64],
    runs: impl Fn(u64) -> bool,
) -> Vec<u64> {
    let mut merged = Vec::with_capacity(native.len() + frames.frames.len());
    let mut functions = frames.functions().peekable();
    for address in native {
        if !runs(*address) || functions.peek().is_none() {
            merged.push(*address);
            continue;
        }
        for (frame, is_called_by_c) in functions.by_ref() {
            merged.push(codes.place(pid, frame));
            if is_called_by_c {
                break;
            }
        }
    }
    merged.extend(functions.map(|(frame, _)| codes.place(pid, frame)));
    merged
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::python::is_place;

    const RUNS: u64 = 7;

    fn frames(minor: u32, of: &[(u64, u32)]) -> Frames {
        let frames = of.iter().map(|(mark, owner)| PythonFrame {
            mark: *mark,
            owner: *owner,
            ..PythonFrame::default()
        });
        Frames {
            header: zerocopy::FromZeros::new_zeroed(),
            event_type: 0,
            ends: 0,
            interpreter: 1,
            minor,
            frames: frames.collect(),
        }
    }

    /// Returns what is in the stack, with `p` in place of Python frames.
    fn shown(frames: &Frames, native: &[u64]) -> String {
        let found = merged(&mut Codes::default(), frames, 1, native, |at| at == RUNS);
        let words = found.iter().map(|address| {
            if is_place(*address) {
                "p".to_owned()
            } else {
                address.to_string()
            }
        });
        words.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn frames_take_the_place_of_what_runs_them() {
        let native = [1, RUNS, 2, RUNS, 3];
        // Each comes through C.
        assert_eq!(shown(&frames(8, &[(1, 0), (1, 0)]), &native), "1 p 2 p 3");
        // The second one is called by C, and so is the third.
        let of_3_11 = frames(11, &[(1, 0), (1, 0x101), (1, 1)]);
        assert_eq!(shown(&of_3_11, &native), "1 p p 2 p 3");
        let of_3_12 = frames(12, &[(1, 0), (1, 0), (0, 0), (1, 0), (0, 0)]);
        assert_eq!(shown(&of_3_12, &native), "1 p p 2 p 3");
        assert_eq!(shown(&of_3_12, &[]), "p p p");
        // The rest of the stack was not copied.
        assert_eq!(shown(&of_3_12, &native[..2]), "1 p p p");
        // More are run than were recorded.
        assert_eq!(shown(&frames(12, &[(1, 0)]), &native), "1 p 2 7 3");
        assert_eq!(shown(&frames(12, &[]), &native), "1 7 2 7 3");
    }

    #[test]
    fn a_record_of_any_length_is_refused_or_read_within_it() {
        const BYTES: usize = size_of::<PythonRecord<USUAL_PYTHON_FRAMES>>();
        let mut record = vec![0; BYTES];
        record[44..48].copy_from_slice(&24_u32.to_ne_bytes());
        assert_eq!(Frames::parse(&record).unwrap().frames.len(), 24);
        record[44..48].copy_from_slice(&25_u32.to_ne_bytes());
        assert!(Frames::parse(&record).is_none());
        for length in 0..BYTES {
            assert!(Frames::parse(&record[..length]).is_none());
        }
    }
}
