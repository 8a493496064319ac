//! A static probe (USDT), at which tools that know nothing of trace areas see an event.

/// The text of an instruction that does nothing, and of the note that makes it the static probe
/// `posixtrace:event`. While no tool has set the probe, that instruction is its whole cost.
///
/// The probe's arguments are in the registers in which a function has them: the identifier of the
/// type, the data, how much there is of it, and the address of the trace point. `tracer-user` asks
/// there for stacks of user events.
///
/// The kernel need not execute this instruction elsewhere; its label is 47. It has one byte: Linux
/// 6.18 replaces an instruction of five bytes by a call of a page that a child made by `fork()`
/// does not have, so that the child would end where it emits.
#[cfg(target_arch = "x86_64")]
#[doc(hidden)]
#[macro_export]
macro_rules! trace_point_site {
    () => {
        concat!(
            "47: nop\n",
            $crate::trace_point_note!("4@%edi 8@%rsi 8@%rdx 8@%rcx")
        )
    };
}

/// The instruction and the note of a trace point, on arm64.
#[cfg(target_arch = "aarch64")]
#[doc(hidden)]
#[macro_export]
macro_rules! trace_point_site {
    () => {
        concat!(
            "47: nop\n",
            $crate::trace_point_note!("4@w0 8@x1 8@x2 8@x3")
        )
    };
}

/// The note of a static probe without a semaphore, as `<sys/sdt.h>` makes it.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[doc(hidden)]
#[macro_export]
macro_rules! trace_point_note {
    ($arguments:literal) => {
        concat!(
            ".pushsection .note.stapsdt, \"\", @note\n",
            ".balign 4\n",
            ".4byte 42f - 41f, 45f - 43f, 3\n",
            "41: .asciz \"stapsdt\"\n",
            "42: .balign 4\n",
            "43: .8byte 47b, 0, 0\n",
            ".asciz \"posixtrace\"\n",
            ".asciz \"event\"\n",
            ".asciz \"",
            $arguments,
            "\"\n",
            "45: .balign 4\n",
            ".popsection\n"
        )
    };
}
