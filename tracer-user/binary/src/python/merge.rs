//! Frames of Python among the functions of the program.
//!
//! The interpreter runs functions of Python in one function of its own, which is once in the stack
//! for each time that C has called Python; since 3.11, functions of Python that call each other do
//! not come through C. So the frames up to one that C has called stand in its place.

use std::borrow::Cow;
use std::mem::offset_of;

use tracer_common::kernel::{
    MOST_PYTHON_FRAMES, NO_FIELD, PythonFrame, PythonRecord, RecordHeader, StackData,
    USUAL_PYTHON_FRAMES, stack_ends,
};
use zerocopy::{FromBytes as _, FromZeros as _, IntoBytes as _};

use super::Codes;
use super::layout::layout_of;

/// Where data of a stack says why it ends.
const ENDS: usize = offset_of!(StackData, ends);

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

    /// Appends the frames to the data of their stack, for another process that finds the functions:
    /// each frame, and then how many there are, why they end, the version of the interpreter and
    /// its number.
    pub fn push_to(&self, data: &mut Vec<u8>) {
        let Some(ends) = data.get_mut(ENDS..).and_then(|at| at.first_chunk_mut()) else {
            return;
        };
        *ends = (u32::from_ne_bytes(*ends) | stack_ends::WITH_PYTHON).to_ne_bytes();
        data.extend_from_slice(self.frames.as_bytes());
        // 64 at most.
        let count = u32::try_from(self.frames.len()).unwrap_or(0);
        let tail = [count, self.ends, self.minor, self.interpreter];
        data.extend_from_slice(tail.as_bytes());
    }

    /// Splits such data of a stack into that of the stack alone and its Python frames, where it has
    /// some that are not damaged.
    #[must_use]
    pub fn split(untrusted: &[u8]) -> (Cow<'_, [u8]>, Option<Self>) {
        let ends = untrusted.get(ENDS..).and_then(|at| at.first_chunk());
        let ends = ends.map_or(0, |ends| u32::from_ne_bytes(*ends));
        if ends & stack_ends::WITH_PYTHON == 0 {
            return (untrusted.into(), None);
        }
        let (stack, frames) = match Self::split_tail(untrusted) {
            Some((stack, frames)) => (stack, Some(frames)),
            None => (untrusted, None),
        };
        let mut stack = stack.to_vec();
        if let Some(to) = stack.get_mut(ENDS..).and_then(|at| at.first_chunk_mut()) {
            *to = (ends & !stack_ends::WITH_PYTHON).to_ne_bytes();
        }
        (stack.into(), frames)
    }

    fn split_tail(untrusted: &[u8]) -> Option<(&[u8], Self)> {
        let (rest, tail) = <[u32; 4]>::read_from_suffix(untrusted).ok()?;
        let [count, ends, minor, interpreter] = tail;
        let count = usize::try_from(count)
            .ok()
            .filter(|count| *count <= MOST_PYTHON_FRAMES)?;
        let at = rest.len().checked_sub(count * size_of::<PythonFrame>())?;
        let (stack, frames) = rest.split_at_checked(at)?;
        let frames = frames.chunks_exact(size_of::<PythonFrame>());
        let frames = frames.filter_map(|frame| PythonFrame::read_from_bytes(frame).ok());
        Some((
            stack,
            Self {
                header: RecordHeader::new_zeroed(),
                event_type: 0,
                ends,
                interpreter,
                minor,
                frames: frames.collect(),
            },
        ))
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
    fn frames_come_out_of_a_stack_as_they_went_in() {
        let head = StackData {
            ends: stack_ends::COPIED,
            ..StackData::new_zeroed()
        };
        let stack = [head.as_bytes(), &[7; 13]].concat();
        for of in [&[][..], &[(1, 0), (0, 3), (9, 0x101)], &[(5, 0); 64]] {
            let mut frames = frames(12, of);
            (frames.ends, frames.interpreter) = (stack_ends::COUNT, 77);
            let mut data = stack.clone();
            frames.push_to(&mut data);
            let (found, back) = Frames::split(&data);
            assert_eq!(found, stack);
            let back = back.unwrap();
            assert_eq!(back.frames.as_bytes(), frames.frames.as_bytes());
            let words = |of: &Frames| (of.ends, of.minor, of.interpreter);
            assert_eq!(words(&back), words(&frames));
        }
        // A stack without frames is what it was.
        let (found, none) = Frames::split(&stack);
        assert!(*found == *stack && none.is_none());
    }

    #[test]
    fn frames_that_are_damaged_leave_the_stack() {
        let mut data = StackData::new_zeroed().as_bytes().to_vec();
        let bare = data.clone();
        frames(12, &[(1, 0)]).push_to(&mut data);
        let at = data.len() - 16;
        for count in [5_u32, 64, 65, u32::MAX] {
            data[at..at + 4].copy_from_slice(&count.to_ne_bytes());
            let (found, none) = Frames::split(&data);
            assert!(found.starts_with(&bare) && none.is_none(), "{count}");
        }
        for length in 0..data.len() {
            let _ = Frames::split(&data[..length]);
        }
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
