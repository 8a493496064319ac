//! Start of a recorder, whether it is the program or a fork.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;

use crate::agent::{AgentSource, Request};
use crate::stream::CreateError;
use crate::stream_limit::Counted;
use tracer_area::reserve::{NoMemory, Share};
use tracer_area::{DeferredSource, RingMode, StreamRequest, monotonic_now};
use tracer_engine::{Inheritance, StreamFullPolicy};
use tracer_log::{LogOptions, LogWriter};

use super::lending::Borrowing;
use super::order::{Order, Start};
use super::protocol::{MESSAGE_BYTES, Reply};
use super::serve::{Asker, Controller, send, serve, settle_down};
use super::{Activity, LogRecording, program, protocol};

/// The least that a stream's pool has under `POSIX_TRACE_FLUSH`: what a fast thread emits until the
/// recorder collects again.
const LEAST_POOL: usize = 2 << 20;

/// Bytes allocated to make a recording: a message with the most data, and little else.
const BEGINNING_BYTES: usize = 1 << 20;

/// A recording that is ready, its memory, and its entry in the count of streams.
pub(super) type Begun = (LogRecording, Share, Counted);

/// Runs the recorder's program (crate `tracer-recorder`). The program has one end of a
/// conversation, and receives its order there.
#[doc(hidden)]
pub fn be_the_recorder() {
    // SAFETY: the controller gave it to this program, and no other value owns it; the next call
    // fails if it is no open descriptor.
    let given = unsafe { OwnedFd::from_raw_fd(program::SOCKET) };
    // The kernel closes descriptors in the order of their numbers. This copy comes after the log,
    // which takes the number of the original: a controller that sees the conversation end may open
    // the log.
    let Ok(conversation) = protocol::duplicate(given.as_fd()) else {
        return;
    };
    drop(given);
    // Memory for what is allocated before there is a stream.
    let Ok(_beginning) = Share::take(BEGINNING_BYTES) else {
        return;
    };
    let mut message = vec![0; MESSAGE_BYTES];
    let Ok((bytes, files)) = protocol::receive_with_files(&conversation, &mut message) else {
        return;
    };
    let Ok(start) = postcard::from_bytes::<Start>(bytes) else {
        return;
    };
    drop(message);
    if !start.is_same_version() || !start.rights.take_on() {
        // The controller forks instead. If it is gone, the reply has no reader.
        let _ = send(&conversation, &Reply::Unfit);
        return;
    }
    let mut open: Vec<_> = files.iter().map(AsRawFd::as_raw_fd).collect();
    open.push(conversation.as_raw_fd());
    settle_down(&open);
    let mut files = files.into_iter();
    let (Some(log), Some(shared)) = (files.next(), files.next()) else {
        return;
    };
    let area = start.has_area.then(|| files.next()).flatten();
    let agent = start.has_agent.then(|| files.next()).flatten();
    let order = start.order();
    let wanted = Request::for_stream(order.target, &order.header.attributes);
    let kernel = agent.map(|agent| AgentSource::taken_over(agent, wanted));
    let (Ok(activity), Ok(kernel)) = (Activity::map_file(&shared), kernel.transpose()) else {
        return;
    };
    drop(shared);
    let made = record(&order, area, (File::from(log), kernel));
    record_for(&order, made, &conversation, Arc::new(activity));
}

/// Tells the controller whether the stream could be made. If so, serves the controller until it
/// ends.
pub(super) fn record_for(
    order: &Order,
    made: Result<Begun, CreateError>,
    conversation: &OwnedFd,
    activity: Arc<Activity>,
) {
    let controller = Controller::new(order.controller, order.end);
    let first = match &made {
        Ok(_) => Reply::Ready(std::process::id().cast_signed()),
        Err(error) => Reply::Failed(error.error_number()),
    };
    let sent = send(conversation, &first);
    if let Ok((mut recording, mut memory, _counted)) = made
        && sent.is_ok()
    {
        let borrowing = Borrowing::new(Arc::clone(&activity));
        recording.set_activity(activity);
        let asker = Asker::new(conversation, controller, borrowing);
        serve(recording, &mut memory, asker);
    }
}

/// Makes the stream and its log. `area` is the file of the controller's area, unless this process
/// is a fork of the controller.
pub(super) fn record(
    order: &Order,
    area: Option<OwnedFd>,
    (log, kernel): (File, Option<AgentSource>),
) -> Result<Begun, CreateError> {
    let no_memory = |NoMemory| CreateError::Refused(libc::ENOMEM);
    let mut memory = Share::take(BEGINNING_BYTES).map_err(no_memory)?;
    let counted = Counted::new()?;
    let pid = order.target;
    let attributes = &order.header.attributes;
    let policy = attributes.stream_full_policy();
    let pool_bytes = match policy {
        StreamFullPolicy::Flush => attributes.stream_min_size().max(LEAST_POOL),
        StreamFullPolicy::Loop | StreamFullPolicy::UntilFull => attributes.stream_min_size(),
    };
    let request = StreamRequest {
        target: Some(pid),
        inherit: attributes.inheritance() == Inheritance::Inherited,
        is_only_source: kernel.is_none(),
        bytes: pool_bytes,
        mode: RingMode::for_policy(policy),
        max_data: attributes.max_data_size(),
        lease: None,
    };
    // The recorder maps the controller's own area in any case, whatever the kernel lets other
    // processes see of it.
    let source = match area {
        Some(file) => DeferredSource::open_file(file, pid, request)?,
        None if pid == order.controller => DeferredSource::open_own(pid, request)?,
        None => DeferredSource::open(pid, request)?,
    };
    let options = LogOptions {
        policy: attributes.log_full_policy(),
        max_size: attributes.log_max_size() as u64,
    };
    let log = LogWriter::create(log, &order.header, options)?;
    let mut recording = LogRecording::new(policy, attributes.stream_min_size(), monotonic_now, log);
    recording.register(pid);
    recording.add_source(Box::new(source));
    if let Some(kernel) = kernel {
        recording.add_source(Box::new(kernel));
    }
    let needed = recording.memory_needed();
    memory.enlarge_to(needed).map_err(no_memory)?;
    Ok((recording, memory, counted))
}
