//! Attaches the eBPF program to tracepoints that the user names.
//!
//! This is done by the kernel's own calls: there is a perf event for each tracepoint, which is
//! never read, and a link from the program to it, whose cookie identifies the tracepoint. The
//! program runs on every CPU. It sees the fields as the kernel would write them into its own trace.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, OwnedFd};

use aya::Ebpf;
use aya::maps::{Array, MapData};
use aya::programs::{ProgramError, ProgramFd, TracePoint};
use tracer_common::kernel::TracepointSite;
use zerocopy::IntoBytes;

use super::call;
use super::perf::{self, EVERY_PROCESS, EventAttributes};
use crate::named_tracepoints::{Tracepoint, TracepointLayout};

const PROGRAM: &str = "named_tracepoint";

/// Map of the sites that are recorded.
pub(super) const SITES: &str = "TRACEPOINT_SITES";

/// `PERF_TYPE_TRACEPOINT`.
const PERF_TYPE: u32 = 2;

/// The attachments. They end when this is dropped.
#[derive(Default)]
pub struct TracepointAttachments {
    /// The program, for the count of its missed runs.
    pub program: Option<OwnedFd>,
    /// Links, which are only held open.
    _links: Vec<OwnedFd>,
}

/// Reason why tracepoints cannot be recorded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TracepointError {
    /// Program that the kernel refused.
    #[error(
        "the eBPF program for tracepoints was not taken by the kernel; use Linux 5.15 or later"
    )]
    Program {
        /// Error of the loader.
        source: Box<ProgramError>,
    },
    /// Part that the object lacks: it was built from other sources.
    #[error("the eBPF object has no {name}; run: cargo xtask build-ebpf")]
    PartMissing {
        /// The program or map.
        name: &'static str,
    },
    /// Sites that cannot be given to the kernel.
    #[error("the eBPF map {SITES} cannot be written")]
    Sites {
        /// Error of the loader.
        source: Box<aya::maps::MapError>,
    },
    /// Tracepoint that programs cannot be attached to.
    #[error("{call} failed for the tracepoint {name}; programs cannot be attached to all of them")]
    One {
        /// The call.
        call: &'static str,
        /// The tracepoint.
        name: String,
        /// Cause.
        source: io::Error,
    },
}

/// Attaches the program to each of the tracepoints.
pub fn attach(
    ebpf: &mut Ebpf,
    all: &[Tracepoint],
) -> Result<TracepointAttachments, TracepointError> {
    if all.is_empty() {
        return Ok(TracepointAttachments::default());
    }
    set_sites(ebpf, all)?;
    let program = load(ebpf)?;
    let mut links = Vec::new();
    for (cookie, tracepoint) in (0..).zip(all) {
        let failed = |call| {
            let name = format!("{}:{}", tracepoint.category, tracepoint.name);
            move |source| TracepointError::One { call, name, source }
        };
        let attributes = EventAttributes {
            kind: PERF_TYPE,
            config: tracepoint.format.id,
            ..EventAttributes::default()
        };
        let event = perf::open(attributes, EVERY_PROCESS).map_err(failed("perf_event_open"))?;
        let link = perf::link(program.as_fd(), event.as_fd(), cookie);
        links.push(link.map_err(failed("bpf(BPF_LINK_CREATE)"))?);
    }
    Ok(TracepointAttachments {
        program: program.as_fd().try_clone_to_owned().ok(),
        _links: links,
    })
}

fn set_sites(ebpf: &mut Ebpf, all: &[Tracepoint]) -> Result<(), TracepointError> {
    const BYTES: usize = size_of::<TracepointSite>();
    let failed = |source| TracepointError::Sites {
        source: Box::new(source),
    };
    let map = ebpf.map_mut(SITES);
    let map = map.ok_or(TracepointError::PartMissing { name: SITES })?;
    let mut sites: Array<&mut MapData, [u8; BYTES]> = Array::try_from(map).map_err(failed)?;
    for (index, tracepoint) in (0..).zip(all) {
        let mut bytes = [0; BYTES];
        bytes.copy_from_slice(tracepoint.layout().site().as_bytes());
        sites.set(index, bytes, 0).map_err(failed)?;
    }
    Ok(())
}

fn load(ebpf: &mut Ebpf) -> Result<ProgramFd, TracepointError> {
    let program = ebpf.program_mut(PROGRAM);
    let program = program.ok_or(TracepointError::PartMissing { name: PROGRAM })?;
    let mut load = || -> Result<ProgramFd, ProgramError> {
        let program: &mut TracePoint = program.try_into()?;
        call::load(|| program.load())?;
        Ok(program.fd()?.try_clone()?)
    };
    load().map_err(|source| TracepointError::Program {
        source: Box::new(source),
    })
}

/// Layouts of the data recorded at tracepoints, by the index of each: the name of its event type,
/// and how its fields are stored.
#[derive(Debug, Default)]
pub struct Layouts(Vec<(String, TracepointLayout)>);

impl Layouts {
    /// Returns the layouts of these tracepoints.
    pub fn from_tracepoints(all: &[Tracepoint]) -> Self {
        let each = all.iter();
        Self(each.map(|one| (one.event_name(), one.layout())).collect())
    }

    /// Returns the name of the event type of the tracepoint with this index, and the data of the
    /// event; `None` where there is no such tracepoint.
    pub fn event(&self, index: u32, untrusted: &[u8]) -> Option<(&str, Vec<u8>)> {
        let (name, layout) = self.0.get(usize::try_from(index).ok()?)?;
        Some((name, layout.data(untrusted)))
    }
}
