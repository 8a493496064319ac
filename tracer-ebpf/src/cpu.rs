//! The CPU.

use aya_ebpf::helpers::bpf_get_smp_processor_id;

/// Returns the CPU that this runs on. A program stays on it.
#[inline(always)]
pub fn this_cpu() -> u32 {
    // SAFETY: the helper takes no argument.
    unsafe { bpf_get_smp_processor_id() }
}
