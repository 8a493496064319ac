//! The controller's side: taking a slot, reading its chunks, and giving their memory back.

pub(crate) mod abandoned;
pub(crate) mod allowance;
pub(crate) mod bell;
pub(crate) mod bounds;
pub(crate) mod chains;
pub(crate) mod chunk_reader;
pub(crate) mod deferred;
pub(crate) mod effort;
pub(crate) mod look;
pub(crate) mod newest;
pub(crate) mod reading;
pub(crate) mod retire;
pub(crate) mod round;
pub(crate) mod slice;
pub(crate) mod slot;
pub(crate) mod source;
pub(crate) mod stranded;
pub(crate) mod type_ids;
pub(crate) mod unread;
