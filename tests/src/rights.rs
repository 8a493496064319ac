//! Rights that tests need.

/// Returns why a test that loads eBPF may not run here, or `None` where it may.
///
/// # Panics
///
/// With `TRACER_REQUIRE_PRIVILEGED=1`, as in CI, when a right is missing: a skipped test must not
/// look like a passed one.
#[must_use]
pub fn missing_right() -> Option<&'static str> {
    let missing = (!is_root()).then_some("needs root");
    if let Some(right) = missing {
        let required = std::env::var_os("TRACER_REQUIRE_PRIVILEGED").is_some_and(|v| v == "1");
        assert!(!required, "privileged test cannot run: {right}");
        eprintln!("skipped: {right}");
    }
    missing
}

/// Tells whether this process is root.
#[must_use]
pub fn is_root() -> bool {
    // SAFETY: `geteuid` has no preconditions and cannot fail.
    unsafe { libc::geteuid() == 0 }
}
