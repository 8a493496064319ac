//! Diagnostics of the programs themselves, passed on to `tracing`.

use aya::Ebpf;
use aya_log::EbpfLogger;
use log::{Log, Metadata, Record};

/// The reader of the programs' log.
pub type Diagnostics = EbpfLogger<ToTracing>;

/// Passes log records on to `tracing`.
#[derive(Debug)]
pub struct ToTracing;

impl Log for ToTracing {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        let program = record.target();
        tracing::debug!(target: "tracer_ebpf", program, "{}", record.args());
    }

    fn flush(&self) {}
}

/// Opens the programs' log. Everything else works without it, so a failure is only reported.
pub fn diagnostics(ebpf: &mut Ebpf) -> Option<Diagnostics> {
    match EbpfLogger::init_with_logger(ebpf, ToTracing) {
        Ok(diagnostics) => Some(diagnostics),
        Err(error) => {
            let error: &dyn std::error::Error = &error;
            tracing::warn!(error, "the programs' diagnostics cannot be read");
            None
        }
    }
}
