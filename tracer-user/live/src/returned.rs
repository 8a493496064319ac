//! Tracing anew where the service goes and comes back: it knows the processes alone that were named
//! to it, and not the children that they have made since.

use super::access::KernelAccess;
use super::descendants::{find_descendants, trace_all};
use super::tracer::Tracer;
use tracer_area::monotonic_now;

/// Names the processes that are traced, and with inheritance their descendants, where the service
/// has gone or come back.
pub fn trace_anew(kernel: &mut KernelAccess, tracer: &mut Tracer) {
    if !kernel.asks_anew() {
        return;
    }
    let named = tracer.live();
    let found = name(kernel, &named).unwrap_or_else(|error| {
        // It has gone again: once it is back, this begins anew.
        tracing::debug!("not traced anew: {error:#}");
        Vec::new()
    });
    for pid in found {
        tracer.add_found(pid, monotonic_now());
    }
}

/// Names processes to the service, and with inheritance their descendants. Returns these.
fn name(kernel: &mut KernelAccess, named: &[i32]) -> anyhow::Result<Vec<i32>> {
    let inherits = kernel.inherits();
    kernel.trace_found(named, inherits)?;
    if !inherits {
        return Ok(Vec::new());
    }
    let mut traced = named.iter().copied().collect();
    if kernel.is_gone() {
        // No process has its children traced: what this walk misses is found by the next one, or
        // once the service is back.
        return kernel.trace_untraced(&find_descendants(named), &mut traced);
    }
    trace_all(named, |found| kernel.trace_untraced(found, &mut traced))
}
