//! Progress of a conversion, for people who wait at a terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// Progress bar on the standard error, when that is a terminal.
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// Starts an empty bar.
    pub fn start() -> Self {
        let bar = ProgressBar::new(0);
        let template = "{wide_bar} {percent:>3} %  {bytes}/{total_bytes}  {bytes_per_sec}  {eta}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(200));
        Self { bar }
    }

    /// Shows that `done` of `whole` bytes are converted. The log may grow meanwhile.
    pub fn show(&self, (done, whole): (u64, u64)) {
        if self.bar.is_hidden() {
            return;
        }
        if self.bar.length() != Some(whole) {
            self.bar.set_length(whole);
        }
        self.bar.set_position(done);
    }

    /// Removes the bar.
    pub fn end(&self) {
        self.bar.finish_and_clear();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        // A failure is reported in one line, not behind half a bar.
        self.bar.finish_and_clear();
    }
}
