//! The eBPF object that is part of this binary.

/// The object as `build.rs` found it, aligned as an object file must be.
static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/tracer-ebpf.o"));

/// The object, or `None` when it was not there when this binary was built.
pub fn object() -> Option<&'static [u8]> {
    (!OBJECT.is_empty()).then_some(OBJECT)
}
