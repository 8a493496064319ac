//! A pid or tid of the kernel's first pid namespace, by which maps are asked.

/// A process or thread, by its pid or tid in the first pid namespace. 0: none, or the idle task.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub struct Pid(pub u32);
