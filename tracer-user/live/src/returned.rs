//! Tracing anew where the service goes and comes back: it knows the processes alone that were named
//! to it, and not the children that they have made since.

use super::access::KernelAccess;
use super::descendants::find_descendants;
use super::tracer::Tracer;
use tracer_area::monotonic_now;

/// Names the processes that are traced, and with inheritance their descendants, where the service
/// has gone or come back.
pub fn trace_anew(kernel: &mut KernelAccess, tracer: &mut Tracer) {
    if !kernel.asks_anew() {
        return;
    }
    let mut named = tracer.live();
    name(kernel, &named);
    // A process that is named has its children traced from then on, so that the last walk finds
    // nothing new.
    while kernel.inherits() {
        let mut new = find_descendants(&named);
        new.retain(|pid| !named.contains(pid));
        if new.is_empty() {
            return;
        }
        for pid in name(kernel, &new) {
            tracer.add_found(pid, monotonic_now());
        }
        named.extend(new);
    }
}

/// Names processes to the service. Returns those that are traced.
fn name(kernel: &mut KernelAccess, pids: &[i32]) -> Vec<i32> {
    let inherit = kernel.inherits();
    kernel.trace_found(pids, inherit).unwrap_or_else(|error| {
        // It has gone again: once it is back, this begins anew.
        tracing::debug!("not traced anew: {error:#}");
        Vec::new()
    })
}
