//! Common parts of the tests of the formats.

use std::io::{self, Write};
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use super::TraceOrigin;
use tracer_log_view::Log;
use tracer_log_view::test_log::TestLog;

/// File in memory.
#[derive(Clone, Debug, Default)]
pub struct MemoryFile(Arc<Mutex<Vec<u8>>>);

impl MemoryFile {
    /// Returns the content.
    pub fn bytes(&self) -> Vec<u8> {
        self.0.lock().unwrap().clone()
    }
}

impl Write for MemoryFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns the origin of a made-up log, from its start.
pub fn origin_of(log: &TestLog) -> TraceOrigin {
    TraceOrigin {
        attributes: log.header().attributes.clone(),
        anchor: log.header().anchor,
        system: log.system().clone(),
        is_wanted: Rc::new(|_, _| true),
        table: crate::TableChoice::default(),
    }
}
