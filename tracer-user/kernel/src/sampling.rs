//! Samples of what runs: a program at a clock of each CPU. The clock is the kernel's own, which
//! every machine has.

use aya::Ebpf;
use aya::programs::PerfEvent;
use aya::programs::perf_event::{PerfEventConfig, PerfEventScope, SamplePolicy, SoftwareEvent};
use aya::util::online_cpus;

use super::error::LoadError;

/// The program.
const PROGRAM: &str = "sample_cpu";

/// Attaches the program to each CPU, so often a second; nothing where that is 0. It stays attached
/// as long as what was loaded.
pub fn attach(ebpf: &mut Ebpf, per_second: u32) -> Result<(), LoadError> {
    if per_second == 0 {
        return Ok(());
    }
    let missing = LoadError::PartMissing { name: PROGRAM };
    let program = ebpf.program_mut(PROGRAM).ok_or(missing)?;
    let failed = |source| LoadError::Sampling {
        per_second,
        source: Box::new(source),
    };
    let program: &mut PerfEvent = program.try_into().map_err(failed)?;
    program.load().map_err(failed)?;
    let cpus = online_cpus().map_err(|(_, source)| failed(source.into()))?;
    for cpu in cpus {
        let clock = PerfEventConfig::Software(SoftwareEvent::CpuClock);
        let scope = PerfEventScope::AllProcessesOneCpu { cpu };
        let often = SamplePolicy::Frequency(per_second.into());
        program.attach(clock, scope, often, false).map_err(failed)?;
    }
    Ok(())
}
