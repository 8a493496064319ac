//! C functions that want to know where they were called from.

/// Defines a C function that passes its arguments on to another one, with the address that the call
/// returns to as one more: that is where the call is in the program. The address is 0 on
/// machines for which nobody has written this down.
///
/// `$register` is the one that carries the added argument by the C calling convention of x86-64.
macro_rules! with_call_address {
    ($(#[$doc:meta])* $name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)? = $target:ident, $register:literal) => {
        $(#[$doc])*
        #[cfg(target_arch = "x86_64")]
        #[unsafe(naked)]
        // SAFETY: no other symbol of this name is linked; `trace.h` declares this signature.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) $(-> $result)? {
            std::arch::naked_asm!(
                concat!("mov ", $register, ", qword ptr [rsp]"),
                "jmp {}",
                sym $target
            )
        }

        $(#[$doc])*
        #[cfg(not(target_arch = "x86_64"))]
        // SAFETY: no other symbol of this name is linked; `trace.h` declares this signature.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) $(-> $result)? {
            // SAFETY: the caller's promises are those of the target.
            unsafe { $target($($argument,)* 0) }
        }
    };
}

pub(super) use with_call_address;
