//! The search for what dead threads have left: the library's files, beside doubles of what
//! surrounds them.

#[path = "../../area/src/read/abandoned.rs"]
pub(crate) mod abandoned;
#[path = "../../area/src/read/stranded.rs"]
pub(crate) mod stranded;

// Where the library has what the model has doubles of.
pub(crate) mod slice {
    pub(crate) use crate::area::doubles::Slice;
}
