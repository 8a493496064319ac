//! Text that ends the data of an event.

use aya_ebpf::helpers::bpf_probe_read_kernel;
use aya_ebpf::helpers::generated::bpf_probe_read_kernel_str;

/// Copies text of the kernel, ended by a null; 1 when it was truncated.
#[inline(always)]
pub fn read<const N: usize>(text: &mut [u8; N], from: *const u8) -> u32 {
    #[expect(clippy::cast_possible_truncation, reason = "some hundred")]
    let size = N as u32;
    // SAFETY: the helper writes at most `size` bytes into `text`, and checks the address.
    let length = unsafe { bpf_probe_read_kernel_str(text.as_mut_ptr().cast(), size, from.cast()) };
    if length < i64::from(size) {
        return 0;
    }
    // The helper has put a null at the end: what is there in the text itself?
    let last = from.wrapping_add(N - 1);
    // SAFETY: the helper checks the address.
    let last = unsafe { bpf_probe_read_kernel(last) }.unwrap_or(0);
    u32::from(last != 0)
}
