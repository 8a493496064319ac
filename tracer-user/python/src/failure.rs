//! Errors as exceptions of Python, with a cause and a remedy.

use std::io::{self, ErrorKind};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use tracer_log::OpenError;

/// Returns the exception for an error: `tracer.TracerError(cause, remedy)`.
pub fn exception(error: &anyhow::Error) -> PyErr {
    let (cause, remedy) = (format!("{error:#}"), remedy(error));
    Python::attach(|py| {
        let made = py
            .import("tracer._errors")
            .and_then(|module| module.getattr("TracerError"))
            .and_then(|class| class.call1((cause.as_str(), remedy)));
        match made {
            Ok(error) => PyErr::from_value(error),
            Err(_) => PyRuntimeError::new_err(cause),
        }
    })
}

/// Returns what to do about an error; empty where its text says so.
fn remedy(error: &anyhow::Error) -> &'static str {
    let is_io = |of: ErrorKind| {
        let mut causes = error.chain();
        causes.any(|cause| {
            cause
                .downcast_ref::<io::Error>()
                .is_some_and(|error| error.kind() == of)
        })
    };
    let mut logs = error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<OpenError>());
    match logs.next() {
        Some(OpenError::NotALog) => {
            "give a log as `tracer-user run --log x.log …` or posix_trace_create_withlog() writes it"
        }
        Some(OpenError::TooNew { .. }) => "install a newer version: pip install -U tracer-user",
        Some(OpenError::HeaderDamaged) => "record it again: without its header nothing can be read",
        _ if is_io(ErrorKind::NotFound) => {
            "check the path; `tracer-user run --log FILE` makes a log"
        }
        _ if is_io(ErrorKind::PermissionDenied) => {
            "read it as its owner, or have its owner allow it: chmod a+r FILE"
        }
        _ if is_io(ErrorKind::IsADirectory) => "give the path of a log, which is a file",
        _ => "",
    }
}
