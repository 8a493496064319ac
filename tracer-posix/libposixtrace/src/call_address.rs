//! C functions that want to know where they were called from.

/// Defines a C function that passes its arguments on to another one, with the address that the call
/// returns to as one more: that is where the call is in the program. The address is 0 on machines
/// for which this was not written yet.
///
/// `$x86_64` and `$aarch64` are the registers that carry the added argument by the C calling
/// conventions of these machines.
macro_rules! with_call_address {
    ($(#[$doc:meta])* $name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)? = $target:ident, $x86_64:literal, $aarch64:literal) => {
        $(#[$doc])*
        #[cfg(target_arch = "x86_64")]
        #[unsafe(naked)]
        // SAFETY: no other symbol of this name is linked; `trace.h` declares this signature.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) $(-> $result)? {
            std::arch::naked_asm!(
                concat!("mov ", $x86_64, ", qword ptr [rsp]"),
                "jmp {}",
                sym $target
            )
        }

        $(#[$doc])*
        #[cfg(target_arch = "aarch64")]
        #[unsafe(naked)]
        // SAFETY: no other symbol of this name is linked; `trace.h` declares this signature.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) $(-> $result)? {
            std::arch::naked_asm!(
                concat!("mov ", $aarch64, ", x30"),
                "b {}",
                sym $target
            )
        }

        $(#[$doc])*
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        // SAFETY: no other symbol of this name is linked; `trace.h` declares this signature.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) $(-> $result)? {
            // SAFETY: the caller's promises are those of the target.
            unsafe { $target($($argument,)* 0) }
        }
    };
}

pub(super) use with_call_address;
