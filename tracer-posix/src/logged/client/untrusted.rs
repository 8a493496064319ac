//! Both sides of the conversation between controller and recorder, with a peer that says anything:
//! for fuzzers.

use std::fs::File;
use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::Arc;

use super::super::LogRecording;
use super::super::lending::Lending;
use super::super::protocol::MESSAGE_BYTES;
use super::super::serve::{answer, begun};
use super::{
    Activity, Attributes, Conversation, EventSet, EventTypeId, LogHeader, LoggedStream,
    RealtimeClock, RealtimeNs, Request,
};
use crate::logged::protocol::{pair, send};
use tracer_area::descriptor::Guarded;
use tracer_area::monotonic_now;
use tracer_engine::ClockPair;
use tracer_engine::StreamFullPolicy;
use tracer_engine::event::MonotonicNs;
use tracer_log::{LogOptions, LogWriter};

/// Most messages of one run: a socket takes no more without a reader.
const MOST_MESSAGES: usize = 64;

/// Splits bytes into messages. Each begins with its length, in two bytes.
fn messages(mut untrusted: &[u8]) -> Vec<&[u8]> {
    let mut messages = Vec::new();
    while let Some((&[low, high], rest)) = untrusted.split_first_chunk()
        && messages.len() < MOST_MESSAGES
    {
        let length = usize::from(u16::from_le_bytes([low, high])) % 1024;
        let (message, rest) = rest.split_at(length.min(rest.len()));
        messages.push(message);
        untrusted = rest;
    }
    messages
}

/// Runs a recorder that is asked `untrusted`.
#[doc(hidden)]
pub fn ask_recorder(untrusted: &[u8]) {
    // SAFETY: the name ends with a null.
    let descriptor = unsafe { libc::memfd_create(c"log".as_ptr(), libc::MFD_CLOEXEC) };
    if descriptor < 0 {
        return;
    }
    // SAFETY: just opened, and no other value owns it.
    let file = unsafe { File::from_raw_fd(descriptor) };
    let header = LogHeader {
        attributes: Attributes::default().with_max_data_size(64),
        anchor: ClockPair {
            monotonic: MonotonicNs(0),
            realtime: RealtimeNs(1),
        },
    };
    let options = LogOptions {
        policy: header.attributes.log_full_policy(),
        max_size: 1 << 20,
    };
    let Ok(log) = LogWriter::create(file, &header, options) else {
        return;
    };
    let mut recording = LogRecording::new(StreamFullPolicy::Flush, 1 << 16, monotonic_now, log);
    for message in messages(untrusted) {
        match postcard::from_bytes(message) {
            Ok(Request::Shutdown(call)) => {
                let caller = begun(&mut recording, call);
                let _ = recording.complete(caller);
                return;
            }
            Ok(request) => {
                let reply = answer(&mut recording, request);
                assert!(postcard::to_stdvec(&reply).is_ok_and(|said| said.len() <= MESSAGE_BYTES));
                recording.tick();
            }
            // The recorder hangs up on a client that says that.
            Err(_nonsense) => break,
        }
    }
    let _ = recording.complete(super::Origin::NONE);
}

/// Runs a controller whose recorder answers `untrusted`, whatever it is asked.
#[doc(hidden)]
pub fn hear_recorder(untrusted: &[u8]) {
    let (Ok((ours, theirs)), Ok(activity)) = (pair(), Activity::new()) else {
        return;
    };
    let Ok(socket) = Guarded::<OwnedFd>::new(ours) else {
        return;
    };
    let mut heard = 0;
    for message in messages(untrusted) {
        // An empty message would be the end of the conversation.
        if message.is_empty() || send(&theirs, message).is_err() {
            break;
        }
        heard += 1;
    }
    drop(theirs);
    let activity = Arc::new(activity);
    let lending = Lending::to(0, Arc::clone(&activity));
    let mut stream = LoggedStream {
        names: std::collections::HashMap::new(),
        conversation: Conversation::new(socket, lending),
        attributes: Attributes::default(),
        is_shut_down: true,
        recorder: 0,
        clock: RealtimeClock::new(),
        filter: EventSet::EMPTY,
        activity,
        own_types: super::OwnTypes {
            is_traced: false,
            told: super::EventSet::EMPTY,
        },
    };
    for turn in 0..=heard {
        let caller = super::Origin::NONE;
        let _ = match turn % 6 {
            0 => stream.status().map(drop),
            1 => stream.show_next().map(drop),
            2 => stream.event_type_name(EventTypeId(300)).map(drop),
            3 => stream.event_type_from(EventTypeId(0)).map(drop),
            4 => stream.define_event_type(b"name").map(drop),
            _ => stream.start_for(caller),
        };
        let _ = stream.flush_for(caller);
    }
}
