//! The common part of the functions that programs call at trace points.

/// Declares `$name(id, data, length)`. The function returns at once if no stream traces the
/// process. Otherwise it goes on in `$at`, with the address of the trace point as fourth argument:
/// on x86-64 and arm64 the return address, else 0. On these two machines the function is a static
/// probe too (`trace_point_site`).
macro_rules! trace_point {
    ($(#[$doc:meta])* $name:ident => $at:ident) => {
        $(#[$doc])*
        ///
        /// # Safety
        ///
        /// `data` is readable for `length` bytes, or null, which records no data.
        #[cfg(target_arch = "x86_64")]
        #[unsafe(naked)]
        // SAFETY: no other symbol of this name is linked; `trace.h` declares this signature.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(
            id: u32,
            data: *const ::std::ffi::c_void,
            length: usize,
        ) {
            // `$at` makes its frame only where there is something to do. Until then, an unwinder
            // finds the caller as at the start of this function.
            std::arch::naked_asm!(
                ".cfi_startproc",
                "mov rax, qword ptr [rip + {enabled}]",
                "cmp dword ptr [rax], 0",
                "jne 2f",
                "ret",
                "2:",
                "mov rcx, qword ptr [rsp]",
                ::tracer_area::trace_point_site!(),
                "jmp {at}",
                ".cfi_endproc",
                enabled = sym ::tracer_area::enabled::OWN,
                at = sym $at,
            )
        }

        $(#[$doc])*
        ///
        /// # Safety
        ///
        /// `data` is readable for `length` bytes, or null, which records no data.
        #[cfg(target_arch = "aarch64")]
        #[unsafe(naked)]
        // SAFETY: no other symbol of this name is linked; `trace.h` declares this signature.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(
            id: u32,
            data: *const ::std::ffi::c_void,
            length: usize,
        ) {
            std::arch::naked_asm!(
                ".cfi_startproc",
                "adrp x8, {enabled}",
                "ldr x8, [x8, :lo12:{enabled}]",
                "ldr w8, [x8]",
                "cbnz w8, 2f",
                "ret",
                "2:",
                "mov x3, x30",
                ::tracer_area::trace_point_site!(),
                "b {at}",
                ".cfi_endproc",
                enabled = sym ::tracer_area::enabled::OWN,
                at = sym $at,
            )
        }

        $(#[$doc])*
        ///
        /// # Safety
        ///
        /// `data` is readable for `length` bytes, or null, which records no data.
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        // SAFETY: no other symbol of this name is linked; `trace.h` declares this signature.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(
            id: u32,
            data: *const ::std::ffi::c_void,
            length: usize,
        ) {
            if ::tracer_area::enabled::is_set() {
                // SAFETY: the caller vouches for the data.
                unsafe { $at(id, data, length, 0) }
            }
        }
    };
}
pub(crate) use trace_point;
