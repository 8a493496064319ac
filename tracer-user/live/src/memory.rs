//! Memory left over from loading.

pub use tracer_kernel::give_back_what_is_free;
