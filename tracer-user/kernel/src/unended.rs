//! Finds requests to block devices whose end the kernel did not report, before they are reused.
//!
//! The programs note each request when it starts and forget it when it ends. So a request that is
//! noted, was handed to the device and is idle has ended, but its end was not reported. Idle is a
//! state in the kernel's own structure of a request. A small eBPF program reads it: this process
//! runs that program on request, in the calling thread.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::thread;
use std::time::Duration;

use aya::Ebpf;
use aya::maps::{HashMap, MapData};
use tracer_common::kernel::{Issuer, NOT_TRACED};

use super::assembled::{self, ADD, Assembly, Instruction, READ, READ_HALF, register};
use super::call;
use super::error::LoadError;
use super::loading::{MOST_REQUESTS, usize_of};

/// Map of the programs' notes.
const ISSUERS: &str = "ISSUERS";

/// Words of a note.
const WORDS: usize = size_of::<Issuer>() / size_of::<u64>();

/// Result of the program for a request that is idle: `MQ_RQ_IDLE` (0) plus 1, since the state could
/// be read.
const IDLE: u32 = 1;

/// Interval between two looks at a request.
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

/// Number of looks in a row in which a request must be idle to count as ended. A request is also
/// idle for a moment after it is noted as handed over, until the kernel has done that. The thread
/// may lose its CPU in between: on a busy machine for longer than the interval between two looks.
const LOOKS: usize = 6;

/// Number of tries to look at all requests while none is reused whose end was not reported.
const TRIES: usize = 2;

/// Reader of the requests that are noted.
#[derive(Debug)]
pub struct UnendedRequests {
    issuers: HashMap<MapData, u64, [u64; WORDS]>,
    /// Program that reads the state of a request.
    program: OwnedFd,
}

impl UnendedRequests {
    /// Takes the map of the notes, and loads the program. `state` is the offset of a request's
    /// state.
    ///
    /// # Errors
    ///
    /// The object has no such map, or the kernel does not take the program.
    pub fn take(ebpf: &mut Ebpf, state: u32) -> Result<Self, LoadError> {
        let map = ebpf.take_map(ISSUERS);
        let map = map.ok_or(LoadError::PartMissing { name: ISSUERS })?;
        let issuers = HashMap::try_from(map).map_err(|source| LoadError::Map {
            name: ISSUERS,
            source: Box::new(source),
        })?;
        let program = assembled::load("request_state", &assemble(state)).map_err(|source| {
            LoadError::MapCall {
                call: "bpf(BPF_PROG_LOAD)",
                name: ISSUERS,
                source,
            }
        })?;
        Ok(Self { issuers, program })
    }

    /// Returns the number of ends of requests of traced processes that were not reported. The
    /// programs count those of requests that were reused since (`reused`); to them are added those
    /// of requests that are idle.
    pub fn with_reused(&self, reused: impl Fn() -> u64) -> u64 {
        let mut count = 0;
        for _ in 0..TRIES {
            let before = reused();
            let idle = self.count();
            let after = reused();
            count = count.max(before.saturating_add(idle)).max(after);
            // A request that is reused during the look may be in neither `before` nor `idle`.
            if after == before {
                break;
            }
        }
        count
    }

    /// Returns the number of requests of traced processes that have ended, and whose end was not
    /// reported. A kernel before 5.10 runs no program on request: there the number is 0.
    fn count(&self) -> u64 {
        let mut idle = self.idle();
        for _ in 1..LOOKS {
            if idle.is_empty() {
                break;
            }
            thread::sleep(BETWEEN_LOOKS);
            idle.retain(|(request, note)| self.note_of_idle(*request) == Some(*note));
        }
        u64::try_from(idle.len()).unwrap_or(u64::MAX)
    }

    /// Returns the addresses of the requests that are idle at this moment, with their notes.
    fn idle(&self) -> BTreeSet<(u64, [u64; WORDS])> {
        // If a key is removed while the walk is at it, the kernel begins the walk anew: so there is
        // a limit.
        let most = 2 * usize_of(MOST_REQUESTS);
        let requests = self.issuers.keys().take(most).filter_map(Result::ok);
        let idle = requests.filter_map(|request| Some((request, self.note_of_idle(request)?)));
        idle.collect()
    }

    /// Returns the note of a request that was handed over and is idle; `None` of all others.
    fn note_of_idle(&self, request: u64) -> Option<[u64; WORDS]> {
        let words = self.issuers.get(&request, 0).ok()?;
        let issuer: Issuer = zerocopy::transmute!(words);
        let is_idle = issuer.issued != 0
            && issuer.pid != NOT_TRACED
            && self.state(request).is_ok_and(|state| state == IDLE);
        is_idle.then_some(words)
    }

    fn state(&self, request: u64) -> io::Result<u32> {
        call::run(self.program.as_fd(), &[request])
    }
}

/// Returns a program that is given the address of a request. Its result is the request's state plus
/// 1, or 0 where the state cannot be read.
fn assemble(state: u32) -> Vec<Instruction> {
    let mut program = Assembly::default();
    program.put_at(READ, register::THIRD, register::FIRST, 0, 0);
    program.put(ADD, register::THIRD, 0, i32::try_from(state).unwrap_or(0));
    program.read_word(size_of::<u32>());
    program.leave_unless(register::RESULT, 0);
    program.put_at(
        READ_HALF,
        register::RESULT,
        register::FRAME,
        Assembly::WORD,
        0,
    );
    program.put(ADD, register::RESULT, 0, 1);
    program.finish()
}

#[cfg(test)]
mod tests {
    use std::alloc::{Layout, alloc_zeroed, dealloc};
    use std::fs::{self, File, OpenOptions};
    use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
    use std::path::Path;
    use std::sync::atomic::Ordering;

    use tracer_common::event_type::EventTypeId;
    use tracer_common::kernel::{traced, wanted};

    use super::*;
    use crate::loading::{Maps, Plan};
    use crate::options::KernelOptions;
    use crate::programs::unload;
    use crate::requirements;
    use crate::traced::TracedMap;

    /// Bytes of a request.
    const BLOCK: usize = 64 * 1024;

    /// Reads a file past the page cache, a request at a time.
    fn read_directly(path: &Path, blocks: usize) {
        let file = OpenOptions::new();
        let file = { file }
            .read(true)
            .custom_flags(libc::O_DIRECT)
            .open(path)
            .unwrap();
        let layout = Layout::from_size_align(BLOCK, 4096).unwrap();
        // SAFETY: the layout has a size.
        let memory = unsafe { alloc_zeroed(layout) };
        // SAFETY: it is that long, and nothing else has it.
        let buffer = unsafe { std::slice::from_raw_parts_mut(memory, BLOCK) };
        for block in 0..blocks {
            let at = u64::try_from(block * BLOCK).unwrap();
            file.read_exact_at(buffer, at).unwrap();
        }
        // SAFETY: it is from there, by this layout.
        unsafe { dealloc(memory, layout) };
    }

    /// Returns the number of missing ends: those that a reuse of the request has shown, and those
    /// of requests that are idle.
    fn missing(maps: &Maps, requests: &UnendedRequests) -> u64 {
        requests.with_reused(|| maps.untold_ends.word(0).unwrap().load(Ordering::Relaxed))
    }

    #[test]
    #[ignore = "loads eBPF: run by cargo xtask test"]
    fn ends_that_are_not_reported_are_counted_before_their_requests_are_reused() {
        const BLOCKS: usize = 40;
        const READERS: usize = 16;
        const ROUNDS: usize = 10;
        if let Err(lacking) = requirements::capabilities() {
            let is_required = std::env::var_os("TRACER_REQUIRE_PRIVILEGED");
            assert!(is_required.is_none_or(|value| value != "1"), "{lacking}");
            return;
        }
        // The folder for temporary files need not be on a disk.
        let folder = tempfile::tempdir_in(".").unwrap();
        let path = folder.path().join("file");
        fs::write(&path, vec![0x5a; BLOCKS * BLOCK]).unwrap();
        File::open(&path).unwrap().sync_all().unwrap();
        let options = KernelOptions {
            wanted: vec![EventTypeId::BLOCK_ISSUE, EventTypeId::BLOCK_COMPLETE],
            ..KernelOptions::default()
        };
        let kernel = requirements::examine(None).unwrap();
        let plan = Plan::new(&options, &kernel, options.rounded_ring_bytes().unwrap());
        let mut ebpf = plan.load(crate::loading::object()).unwrap();
        let maps = plan.map(&mut ebpf).unwrap();
        let attached = plan.attach(&mut ebpf).unwrap();
        let types =
            wanted::bit(EventTypeId::BLOCK_ISSUE) | wanted::bit(EventTypeId::BLOCK_COMPLETE);
        assert_eq!(attached.recorded & types, types);
        maps.wanted.set_recorded(types);
        maps.wanted.set_types(types);
        let requests = UnendedRequests::take(&mut ebpf, kernel.request_state.unwrap()).unwrap();
        let own = usize::try_from(std::process::id()).unwrap();
        let all_traced = TracedMap::from_object(&ebpf).unwrap();
        all_traced.set(own, traced::TRACED).unwrap();

        // No request that is under way counts as ended. With so many readers, some requests are
        // always under way.
        let mut most = 0;
        thread::scope(|scope| {
            let read = || (0..ROUNDS).for_each(|_| read_directly(&path, BLOCKS));
            let readers = [(); READERS].map(|()| scope.spawn(read));
            while !readers.iter().all(|reader| reader.is_finished()) {
                most = most.max(requests.count());
            }
        });
        // On a virtual machine, the kernel leaves up to one end in twenty unreported by itself.
        let before = missing(&maps, &requests);
        unload(&mut ebpf, ["block_rq_complete", "block_rq_complete_raw"]);
        read_directly(&path, BLOCKS);
        let after = missing(&maps, &requests);
        assert_eq!(after - before, u64::try_from(BLOCKS).unwrap(), "{before}");
        assert!(most <= before, "{most} {before}");
        let all = u64::try_from(READERS * ROUNDS * BLOCKS).unwrap();
        assert!(before < all / 4, "{before} of {all}");
    }
}
