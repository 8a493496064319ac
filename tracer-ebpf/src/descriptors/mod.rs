//! Descriptors that system calls are given and return, as the kernel knows them at that moment: so
//! they are right whichever process opened them, and when, and whichever thread closes them
//! meanwhile.
//!
//! Programs of their own, which are attached before those of the calls' events and only where this
//! is asked for. Each call with descriptors has a record, right before that of its event; the agent
//! joins both.
//!
//! Functions that the verifier walks once are `extern "C"`: they are given integers alone, so
//! addresses in the kernel are read by the helper that checks them.

mod file;
mod lists;
mod path;
mod socket;
pub mod space;

use aya_ebpf::helpers::generated::bpf_get_current_task;

use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::descriptors::{
    ARGUMENT_BITS, PAIR_AT, POLLED_AT, RECEIVES, RETURNED, RETURNS, RETURNS_COPY, SENDS, SETS,
    WHICH, WITHOUT_FLAGS,
};
use tracer_common::kernel::globals::NO_CALL;

use crate::context::{Tracepoint, at_tracepoint};
use crate::maps;
use crate::offsets::{
    FILE_DENTRY, FILE_MOUNT, FILES_TABLE, FS_FOLDER_DENTRY, FS_FOLDER_MOUNT, TABLE_FILES,
    TABLE_SIZE, TASK_FILES, TASK_FS,
};
use crate::socketcall::called;
use crate::syscall::{caller_of, early};
use crate::user::Registers;

use space::{Space, word_at};

at_tracepoint!("sys_enter": sys_enter_descriptors, sys_enter_descriptors_raw => enter);
at_tracepoint!("sys_exit": sys_exit_descriptors, sys_exit_descriptors_raw => exit);

/// Where what is relative begins, instead of a descriptor.
const AT_FDCWD: i32 = -100;

/// Bytes of a `struct pollfd`, which begins with its descriptor.
const POLLED_BYTES: u64 = 8;

/// Runs in the thread that calls, before the call.
#[inline(always)]
fn enter<C: Tracepoint>(ctx: &C) {
    let Some(early) = early::<C>() else {
        return;
    };
    #[expect(clippy::cast_possible_truncation, reason = "the argument is an int")]
    let call = ctx.argument::<1>() as u32;
    // SAFETY: the arguments are the registers and the system call number.
    let registers = unsafe { Registers::argument::<0>(ctx) };
    let called = called(call, &registers);
    let call = called.nr;
    let wanted = maps::call_wanted(EventTypeId::SYSCALL_ENTER, call);
    let Some((task, is_compat)) = caller_of::<C>(wanted, NO_CALL, 0, early) else {
        return;
    };
    let bits = maps::call_descriptors(call, is_compat);
    let polled = bits >> POLLED_AT & WHICH;
    if bits & (ARGUMENT_BITS | SETS | SENDS) == 0 && polled == 0 {
        return;
    }
    let arguments = called.arguments(&registers, is_compat);
    let Some(space) = Space::begin() else {
        return;
    };
    describe_argument(bits, 0, arguments[0]);
    describe_argument(bits, 1, arguments[1]);
    describe_argument(bits, 2, arguments[2]);
    describe_argument(bits, 3, arguments[3]);
    describe_argument(bits, 4, arguments[4]);
    describe_argument(bits, 5, arguments[5]);
    if polled == 1 {
        lists::describe_list(arguments[0], POLLED_BYTES, arguments[1]);
    }
    if bits & SETS != 0 {
        lists::describe_sets(arguments[0], arguments[1], arguments[2], arguments[3]);
    }
    if bits & SENDS != 0 {
        lists::describe_sent(arguments[1], u32::from(is_compat));
    }
    space.record(&task, EventTypeId::SYSCALL_ENTER, call);
}

/// Runs in the thread that called, after the call.
#[inline(always)]
fn exit<C: Tracepoint>(ctx: &C) {
    let returned = ctx.argument::<1>();
    if returned.cast_signed() < 0 {
        return;
    }
    let Some(early) = early::<C>() else {
        return;
    };
    // SAFETY: the arguments are `struct pt_regs *, long result`.
    let registers = unsafe { Registers::argument::<0>(ctx) };
    let called = called(registers.call(), &registers);
    let call = called.nr;
    let wanted = maps::call_wanted(EventTypeId::SYSCALL_EXIT, call);
    let Some((task, is_compat)) = caller_of::<C>(wanted, NO_CALL, 0, early) else {
        return;
    };
    let bits = maps::call_descriptors(call, is_compat);
    let pair = bits >> PAIR_AT & WHICH;
    if bits & (RETURNS | RETURNS_COPY | RECEIVES) == 0 && pair == 0 {
        return;
    }
    let arguments = called.arguments(&registers, is_compat);
    let is_copy = bits & RETURNS_COPY != 0 && asks_for_copy(arguments[1]);
    let Some(space) = Space::begin() else {
        return;
    };
    let has_flags = arguments[2] & 0xffff_ffff != 0;
    let is_other = bits & WITHOUT_FLAGS != 0 && has_flags;
    if bits & RETURNS != 0 && !is_other || is_copy {
        #[expect(clippy::cast_possible_truncation, reason = "descriptors are ints")]
        describe(u32::from(RETURNED), returned as u32);
    }
    match pair {
        1 => lists::describe_list(arguments[0], 4, 2),
        4 => lists::describe_list(arguments[3], 4, 2),
        _ => 0,
    };
    if bits & RECEIVES != 0 {
        lists::describe_sent(arguments[1], u32::from(is_compat));
    }
    space.record(&task, EventTypeId::SYSCALL_EXIT, call);
}

/// Tells whether a command of `fcntl` returns a descriptor.
#[inline(always)]
fn asks_for_copy(command: u64) -> bool {
    const F_DUPFD: u64 = 0;
    const F_DUPFD_CLOEXEC: u64 = 1030;
    matches!(command & 0xffff_ffff, F_DUPFD | F_DUPFD_CLOEXEC)
}

#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "descriptors are ints")]
fn describe_argument(bits: u32, index: u32, value: u64) {
    if bits >> index & 1 != 0 {
        describe(index, value as u32);
    }
}

/// Adds what a descriptor of the running thread is; nothing where that cannot be said.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn describe(at: u32, descriptor: u32) -> i32 {
    let Some(space) = Space::current() else {
        return 0;
    };
    // SAFETY: the helper takes no argument.
    let task = unsafe { bpf_get_current_task() };
    let entry = space.begin_entry();
    let (is_descriptor, holder) = if descriptor.cast_signed() == AT_FDCWD {
        (false, word_at(task, TASK_FS.load()))
    } else {
        (true, file_of(task, descriptor))
    };
    if holder == 0 {
        space.drop_entry(entry);
        return 0;
    }
    let (mount_at, dentry_at) = if is_descriptor {
        (FILE_MOUNT.load(), FILE_DENTRY.load())
    } else {
        (FS_FOLDER_MOUNT.load(), FS_FOLDER_DENTRY.load())
    };
    let mount = word_at(holder, mount_at);
    let dentry = word_at(holder, dentry_at);
    let kind = if is_descriptor {
        file::add(holder, dentry, mount)
    } else {
        path::add(dentry, mount)
    };
    // Another thread may have closed it meanwhile, and its memory is used again; or changed its
    // folder.
    let is_still = word_at(holder, dentry_at) == dentry
        && word_at(holder, mount_at) == mount
        && (!is_descriptor || file_of(task, descriptor) == holder);
    if kind > 0 && is_still {
        space.end_entry(entry, at, kind, descriptor);
    } else {
        space.drop_entry(entry);
    }
    0
}

/// Returns the file that a descriptor of a thread is; 0: none.
#[inline(always)]
fn file_of(task: u64, descriptor: u32) -> u64 {
    let files = word_at(task, TASK_FILES.load());
    let table = word_at(files, FILES_TABLE.load());
    if descriptor >= space::half_at(table, TABLE_SIZE.load()) {
        return 0;
    }
    let entries = word_at(table, TABLE_FILES.load());
    space::read::<u64>(entries + u64::from(descriptor) * 8)
}
