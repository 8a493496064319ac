//! Attaches the eBPF program to points of programs.
//!
//! This is done by the kernel's own calls, since the loader cannot name a semaphore or many sites:
//!
//! - `many`: one link for all sites of a file (since 6.6), whose end takes a fraction of a second;
//! - `single`: for each site a perf event and a link from the program to it. The end of one such
//!   link takes a tenth of a second, even where others end at the same time.
//!
//! The cookie of an attachment is the site's index. A site that is the return of a function has a
//! second attachment, at the entry of the function, which reports the returns that the kernel will
//! not see.

pub(super) mod error;
mod many;
mod single;

use std::borrow::Cow;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, OwnedFd};

use aya::Ebpf;
use aya::maps::{Array, MapData};
use aya::programs::{ProgramError, ProgramFd, ProgramType, UProbe};
use aya::sys::{BpfHelper, is_helper_supported};
use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::{
    ENTRY_OF_RETURN, PROBE_ARGUMENTS, PROBE_DATA_BYTES, PROBE_RECORDS, ProbeData, ProbeSite,
};
use tracer_engine::event::EventHeader;
use tracer_engine::source::Batch;
use zerocopy::{FromZeros, IntoBytes};

pub use error::ProbeError;
use error::SITES;

use super::call;
use super::checks::Check;
use super::decode::probed;
use super::perf::EVERY_PROCESS;
use tracer_binary::probes::{Location, ProbeKind, Probes, Signature};

const PROGRAM: &str = "probe";
/// No preferred id: the stream chooses the id of the event type of a probe or a tracepoint.
pub(super) const NO_PREFERENCE: Option<EventTypeId> = None;

const PMU: &str = "/sys/bus/event_source/devices/uprobe/type";

/// The attachments. They end when this is dropped.
#[derive(Default)]
pub struct ProbeAttachments {
    /// The program, for the count of its missed runs.
    pub program: Option<OwnedFd>,
    /// Links, which are only held open.
    links: Vec<OwnedFd>,
}

/// Threads that end attachments.
const ENDERS: usize = 16;

impl Drop for ProbeAttachments {
    /// Ends all attachments at the same time, since the end of each waits for every CPU, and all of
    /// them can wait together.
    fn drop(&mut self) {
        let share = self.links.len().div_ceil(ENDERS).max(1);
        std::thread::scope(|scope| {
            while !self.links.is_empty() {
                let rest = self.links.len().saturating_sub(share);
                let links = self.links.split_off(rest);
                let ender = std::thread::Builder::new();
                // Where no thread is available, these links end in this thread, as the closure is
                // dropped.
                let _ = ender.spawn_scoped(scope, move || drop(links));
            }
        });
    }
}

/// Attachment at a site: one consumer in the kernel.
#[derive(Clone, Copy)]
struct Attachment<'a> {
    site: &'a Location,
    /// Probe of the return of the function that starts there.
    is_return: bool,
    cookie: u64,
}

/// Returns the attachments at the sites; for the return of a function, one at its entry too.
fn attachments(sites: &[Location]) -> Vec<Attachment<'_>> {
    let of_site = |(index, site): (u64, &'_ Location)| {
        let entry = site.is_return.then_some(index | ENTRY_OF_RETURN);
        [
            Some((site.is_return, index)),
            entry.map(|cookie| (false, cookie)),
        ]
    };
    let all = (0..).zip(sites).flat_map(|indexed| {
        let site = indexed.1;
        let both = of_site(indexed).into_iter().flatten();
        both.map(move |(is_return, cookie)| Attachment {
            site,
            is_return,
            cookie,
        })
    });
    all.collect()
}

/// Attaches to every site.
pub fn attach(ebpf: &mut Ebpf, probes: &Probes) -> Result<ProbeAttachments, ProbeError> {
    if probes.locations.is_empty() {
        return Ok(ProbeAttachments::default());
    }
    let pmu = examine()?;
    set_sites(ebpf, &probes.locations)?;
    let attachments = attachments(&probes.locations);
    let scopes = match &probes.only {
        None => &[EVERY_PROCESS][..],
        Some(pids) => pids,
    };
    // Where this way fails, the other one reports what is wrong, site by site.
    if let Some(attached) = many::attach(ebpf, &attachments, scopes) {
        return Ok(attached);
    }
    let program = load(ebpf)?;
    let mut attached = ProbeAttachments::default();
    for attachment in &attachments {
        for pid in scopes {
            let link = single::attach(program.as_fd(), pmu, attachment, *pid)?;
            attached.links.push(link);
        }
    }
    attached.program = program.as_fd().try_clone_to_owned().ok();
    Ok(attached)
}

fn set_sites(ebpf: &mut Ebpf, all: &[Location]) -> Result<(), ProbeError> {
    const BYTES: usize = size_of::<ProbeSite>();
    let failed = |source| ProbeError::Sites {
        source: Box::new(source),
    };
    let map = ebpf.map_mut(SITES);
    let map = map.ok_or(ProbeError::PartMissing { name: SITES })?;
    let mut sites: Array<&mut MapData, [u8; BYTES]> = Array::try_from(map).map_err(failed)?;
    for (index, one) in (0..).zip(all) {
        let mut bytes = [0; BYTES];
        bytes.copy_from_slice(one.site.as_bytes());
        sites.set(index, bytes, 0).map_err(failed)?;
    }
    Ok(())
}

fn load(ebpf: &mut Ebpf) -> Result<ProgramFd, ProbeError> {
    let program = ebpf.program_mut(PROGRAM);
    let program = program.ok_or(ProbeError::PartMissing { name: PROGRAM })?;
    let mut load = || -> Result<ProgramFd, ProgramError> {
        let program: &mut UProbe = program.try_into()?;
        call::load(|| program.load())?;
        Ok(program.fd()?.try_clone()?)
    };
    load().map_err(|source| ProbeError::Program {
        source: Box::new(source),
    })
}

/// Checks that the kernel has what probes need. Returns the number by which the kernel knows this
/// kind of perf event.
fn examine() -> Result<u32, ProbeError> {
    let cookies = is_helper_supported(ProgramType::KProbe, BpfHelper::BPF_FUNC_get_attach_cookie);
    // Without rights the kernel does not even let us ask.
    if let Ok(false) = cookies {
        return Err(ProbeError::NoCookies);
    }
    let pmu = std::fs::read_to_string(PMU);
    let code = pmu.and_then(|text| text.trim().parse().map_err(io::Error::other));
    code.map_err(|source| ProbeError::NoUprobes { source })
}

/// Checks the probes, for `tracer-user doctor`.
#[must_use]
pub fn probe_check() -> Check {
    let result = examine();
    Check {
        what: "probes of programs",
        holds: result.is_ok(),
        found: match &result {
            Ok(_) => "there".to_owned(),
            Err(error) => error.to_string(),
        },
        remedy: None,
    }
}

/// Kinds of the probes, with their names.
#[derive(Debug, Default)]
pub struct ProbeNames {
    /// Kinds, by the index of the probe.
    pub kinds: Vec<ProbeKind>,
    /// Index of the probe of trace points, which are probed for their stacks alone.
    pub trace_points: Option<u16>,
}

impl ProbeNames {
    /// Returns the header with the id that the stream has given to the probe's type; `None` for a
    /// probe that is not one of these. Headers of other events stay as they are.
    pub fn identified(&self, header: EventHeader, batch: &mut Batch<'_>) -> Option<EventHeader> {
        let Some(index) = index_of(&header) else {
            return Some(header);
        };
        let kind = self.kinds.get(index)?;
        let id = batch.user_event_type(kind.name.as_bytes(), NO_PREFERENCE);
        Some(with_type(header, id))
    }

    /// Tells whether this is the record of a trace point.
    pub fn is_trace_point(&self, header: &EventHeader) -> bool {
        let wanted = self.trace_points.map(usize::from);
        wanted.is_some() && index_of(header) == wanted
    }

    /// Returns the data of an event, whose header is as it was decoded. Where the values of a probe
    /// have types, this is typed data.
    pub fn data<'a>(&self, header: &EventHeader, untrusted: &'a [u8]) -> Cow<'a, [u8]> {
        let kind = index_of(header).and_then(|index| self.kinds.get(index));
        match kind.and_then(|kind| kind.signature.as_ref()) {
            Some(signature) => Cow::Owned(typed(signature, untrusted)),
            None => Cow::Borrowed(untrusted),
        }
    }
}

/// Returns the address of a trace point: the last of the values that its probe has recorded.
pub fn address_of_trace_point(untrusted: &[u8]) -> Option<u64> {
    const INDEX: usize = 3;
    let mut data = ProbeData::new_zeroed();
    let bytes = data.as_mut_bytes();
    let given = untrusted.get(..untrusted.len().min(bytes.len()))?;
    bytes.get_mut(..given.len())?.copy_from_slice(given);
    let is_read = usize::from(data.count) > INDEX && data.unread >> INDEX & 1 == 0;
    is_read.then_some(data.args[INDEX])
}

fn index_of(header: &EventHeader) -> Option<usize> {
    let index = header.event_type.0.checked_sub(u32::from(PROBE_RECORDS))?;
    usize::try_from(index).ok()
}

/// Returns the values of a probe as typed data, by its signature.
fn typed(signature: &Signature, untrusted: &[u8]) -> Vec<u8> {
    let mut data = ProbeData::new_zeroed();
    let front = untrusted.get(..PROBE_DATA_BYTES).unwrap_or_default();
    let to = data.as_mut_bytes().get_mut(..front.len());
    to.unwrap_or_default().copy_from_slice(front);
    let mut rest = untrusted.get(front.len()..).unwrap_or_default();
    let mut values = [None; PROBE_ARGUMENTS];
    for (nth, value) in values.iter_mut().enumerate().take(usize::from(data.count)) {
        let Some((word, behind)) = rest.split_first_chunk() else {
            break;
        };
        rest = behind;
        *value = (data.unread >> nth & 1 == 0).then(|| u64::from_ne_bytes(*word));
    }
    let mut texts = [None; PROBE_ARGUMENTS];
    for text in &mut texts {
        let Some((head, behind)) = rest.split_first_chunk() else {
            break;
        };
        rest = behind;
        let head = u32::from_ne_bytes(*head);
        if head == probed::NONE {
            continue;
        }
        let length = usize::try_from(head & !probed::MORE).unwrap_or(usize::MAX);
        let (bytes, behind) = rest.split_at(length.min(rest.len()));
        rest = behind;
        *text = Some((bytes, head & probed::MORE != 0));
    }
    signature.data(data.kind, &values, |nth| texts.get(nth).copied().flatten())
}

/// Returns the header with this type.
pub(super) fn with_type(header: EventHeader, event_type: EventTypeId) -> EventHeader {
    EventHeader {
        event_type,
        ..header
    }
}
