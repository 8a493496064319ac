//! `--report`: a page of the trace, which is made when the trace has ended.

use tracer_engine::{LogFullPolicy, StreamFullPolicy};

use tracer_answers::html_report::PageSetup;
use tracer_live::Setup;
use tracer_log_view::log_output::{Existing, LogSetup};
use tracer_output::terminal::Outcome;

/// Traces as `setup` says, and makes the page of the trace, if one is requested. Returns how the
/// trace ended, and whether all of it is in the page.
///
/// # Errors
///
/// `trace` fails, or the page cannot be made.
pub fn with_page<T>(
    page: Option<&PageSetup>,
    setup: &Setup,
    trace: impl FnOnce(&Setup) -> anyhow::Result<T>,
) -> anyhow::Result<(T, Outcome)> {
    let Some(page) = page else {
        return Ok((trace(setup)?, Outcome::Complete));
    };
    let log = setup.log.as_ref().map(|log| log.path.as_path());
    let page = page.begin(log)?;
    let mut setup = setup.clone();
    let (stream_bytes, inherit) = (setup.buffers.stream_bytes, setup.followed.children);
    setup.log.get_or_insert_with(|| LogSetup {
        path: page.log().to_owned(),
        existing: Existing::Stays,
        max_size: 0,
        policy: LogFullPolicy::Append,
        stream_policy: StreamFullPolicy::Flush,
        stream_bytes,
        inherit,
        snapshots: None,
    });
    let traced = trace(&setup)?;
    Ok((traced, page.make()?))
}
