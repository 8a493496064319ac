//! Options of a recorder that waits for a condition.

use anyhow::{Context, ensure};
use tracer_engine::StreamFullPolicy;

use tracer_answers::trigger::{TriggerRule, TriggerSetup};
use tracer_log_view::log_output::{Existing, LogSetup};
use tracer_text::quantity::time;

/// Conditions that a recorder waits for, as typed.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Recorder that waits for something")]
pub struct TriggerArgs {
    /// Hold the newest events in memory, and write them when this happens to a log of their own,
    /// which is called as --log says, and .1, .2 and so on: 'span NAME > 5ms', 'runnable > 2ms',
    /// 'blocked > 100ms', 'event NAME', 'signal SIGSEGV', 'exit != 0'; of some threads alone with
    /// && comm == "NAME", && pid == NUMBER or && tid == NUMBER behind it. Says why, and goes on.
    /// May be given again
    #[arg(long, value_name = "CONDITION", requires = "log")]
    when: Vec<String>,
    /// How much of what happened before is written
    #[arg(long, value_name = "TIME", default_value = "2s", requires = "when")]
    keep: String,
    /// At most so many logs, up to 1000
    #[arg(
        long,
        value_name = "COUNT",
        default_value = "10",
        requires = "when",
        value_parser = clap::value_parser!(u32).range(1..=1000)
    )]
    most_logs: u32,
}

impl TriggerArgs {
    /// Parses the conditions that the recorder waits for.
    ///
    /// # Errors
    ///
    /// A word is no valid condition.
    pub fn rules(&self) -> anyhow::Result<Vec<TriggerRule>> {
        let rules = self.when.iter().map(|typed| TriggerRule::parse(typed));
        rules.collect()
    }

    /// Returns the log of all events, or, when the recorder waits for conditions, the setup of logs
    /// named after it.
    ///
    /// # Errors
    ///
    /// An option makes no sense, or one of these logs exists already.
    pub fn setup(
        &self,
        rules: Vec<TriggerRule>,
        log: Option<LogSetup>,
    ) -> anyhow::Result<(Option<LogSetup>, Option<TriggerSetup>)> {
        if rules.is_empty() {
            return Ok((log, None));
        }
        let log = log.context("--when needs --log: the name of the logs")?;
        ensure!(
            log.stream_policy == StreamFullPolicy::Flush && log.existing != Existing::Continued,
            "--when makes logs of its own; leave --full-policy and --append out"
        );
        let setup = TriggerSetup {
            rules,
            keep: time("--keep", &self.keep)?,
            most_logs: self.most_logs,
            log,
        };
        for index in 1..=setup.most_logs {
            let path = setup.path(index);
            ensure!(
                setup.log.existing == Existing::Replaced || !path.exists(),
                "{} is there already; give --force to replace such logs, or --log another name",
                path.display()
            );
        }
        Ok((None, Some(setup)))
    }
}
