//! The eBPF object that is part of this binary.

/// The object as `cargo xtask build-ebpf` built it, aligned as an object file must be.
static OBJECT: &[u8] =
    aya::include_bytes_aligned!(concat!(env!("CARGO_MANIFEST_DIR"), "/ebpf/tracer-ebpf.o"));

/// Returns the object.
pub fn object() -> &'static [u8] {
    OBJECT
}
