//! Detail that a trace asks the service for.

use tracer_agent::are_addresses_public;
use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::{stacks, wanted};
use tracer_posix::agent::protocol::Detail;
use tracer_syscalls::descriptors::DescriptorOptions;

use super::super::setup::DEFAULT_STRING_BYTES;
use crate::Setup;

/// Returns the detail of a trace; `None` where it is the usual one. Functions of the kernel are
/// left out where this user is not given them.
pub fn from_setup(setup: &Setup) -> Option<Detail> {
    let recording = &setup.recording;
    let options = recording.stacks;
    let descriptors = match recording.descriptors {
        DescriptorOptions::None => 0,
        DescriptorOptions::Plain => 1,
        DescriptorOptions::Full => 2,
    };
    let is_usual = [0, DEFAULT_STRING_BYTES].contains(&recording.string_bytes);
    let is_plain = descriptors == 0
        && !options.are_wanted()
        && !recording.calls_at_exit
        && !recording.trace_context
        && recording.most_call_cost.is_none();
    if is_usual && is_plain {
        return None;
    }
    let types = recording.selection.kernel_types();
    let types = types.iter().fold(0, |bits, id| bits | wanted::bit(*id));
    // The look at what is there when the trace begins is this process's.
    let with_stacks = stacks::TYPES | stacks::SAMPLES;
    let with_stacks = with_stacks & !wanted::bit(EventTypeId::THREAD_STATE);
    let calls = wanted::bit(EventTypeId::SYSCALL_ENTER) | wanted::bit(EventTypeId::SYSCALL_EXIT);
    let detail = Detail {
        types,
        calls: if types & calls == 0 {
            Default::default()
        } else {
            *recording.syscalls.words()
        },
        string_bytes: recording.string_bytes,
        descriptors,
        calls_at_exit: recording.calls_at_exit,
        contexts: recording.trace_context,
        releases_calls: recording.most_call_cost.is_some(),
        ..Detail::default()
    };
    if !options.are_wanted() {
        return Some(detail);
    }
    Some(Detail {
        stack_types: options.types & with_stacks,
        kernel_frames: kernel_frames(setup),
        user_frames: options.user_frames,
        python_frames: options.python_frames,
        copied_bytes: options.copied_bytes,
        off_cpu_ns: options
            .off_cpu
            .map(|limit| u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX)),
        samples_per_second: options.samples_per_second,
        ..detail
    })
}

/// Tells whether functions of the kernel are asked for, and are not for this user.
pub fn lacks_kernel_frames(setup: &Setup) -> bool {
    setup.recording.stacks.kernel_frames > 0 && !are_addresses_public()
}

fn kernel_frames(setup: &Setup) -> u32 {
    if lacks_kernel_frames(setup) {
        0
    } else {
        setup.recording.stacks.kernel_frames
    }
}
