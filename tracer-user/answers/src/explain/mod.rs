//! Explanation of a program's slowness, on one screen: what it did with its time, what explains
//! most of that, what does not, what could not be seen, and what to type next.
//!
//! `facts` are gathered event by event; `rules` judge them and look at nothing else, so that
//! the same log gives the same bytes.

mod facts;
mod finding;
mod machine;
mod overview;
mod rules;
mod subject;
mod text;
mod unseen;

use facts::{Gatherer, TraceFacts};
use overview::{Overview, USES};
use rules::{Judged, judge};
use serde_json::{Value, json};
use tracer_event::consumer::{Consumer, Lines};
use tracer_event::summary::Summary;
use tracer_log_view::{Log, Walk, outcome};
use tracer_output::terminal::Outcome;

use crate::budget::Budget;
use crate::damage::damage;
use crate::queries::{Answering, follow};

pub use finding::{RuleFinding, Sure};
pub use machine::{MachineCounters, MachineUse};
pub use rules::{Needs, RULES, Rule};
pub use subject::ExplainSubject;
pub use text::text;

/// Explanation.
#[derive(Debug)]
pub struct Explanation {
    facts: TraceFacts,
    overview: Overview,
    judged: Judged,
    unseen: Vec<String>,
    /// The longest waits of threads of one name, in words, where there are any.
    longest: Option<String>,
    next: Vec<String>,
    trace: TraceUse,
}

/// Facts of a running trace, which a log does not have.
#[derive(Clone, Debug, Default)]
pub struct TraceUse {
    /// Cost of the trace, in words, where that is known.
    pub cost: Option<String>,
    /// Use of the machine meanwhile.
    pub machine: Option<MachineUse>,
}

/// Commands to type next.
const MOST_NEXT: usize = 2;

impl Explanation {
    /// Explains the events of `walk`: by the path of the thread `tid`, or of the first one.
    ///
    /// # Errors
    ///
    /// The log cannot be read.
    pub fn of_log<L: Log>(
        mut walk: Walk<L>,
        tid: Option<i32>,
        subject: &ExplainSubject,
    ) -> anyhow::Result<Self> {
        let mut gatherer = Gatherer::new(tid);
        follow(&mut walk, &mut gatherer)?;
        Ok(Self::finish(gatherer, &walk.summary(), subject))
    }

    fn finish(gatherer: Gatherer, summary: &Summary, subject: &ExplainSubject) -> Self {
        let facts = gatherer.finish(summary);
        let mut judged = judge(&facts);
        for found in &mut judged.findings {
            let line = found.spot.and_then(|spot| facts.places.line(spot));
            found.line = line.as_ref().map(rules::support::source_line);
        }
        Self {
            overview: Overview::new(&facts),
            unseen: unseen::unseen(&facts, &judged),
            longest: rules::longest_waits(&facts),
            next: next(&judged, subject),
            judged,
            facts,
            trace: TraceUse::default(),
        }
    }

    /// Returns what explains most of the time, the most first.
    #[must_use]
    pub fn findings(&self) -> &[RuleFinding] {
        &self.judged.findings
    }

    /// Tells whether anything is missing.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        outcome(&self.facts.statistics.summary, false)
    }
}

/// Returns the commands to type next.
fn next(judged: &Judged, subject: &ExplainSubject) -> Vec<String> {
    let of_findings = judged.findings.iter().map(|found| found.next.as_str());
    let mut next: Vec<String> = Vec::new();
    for words in of_findings.chain(["why --whole --brief", "stat"]) {
        let command = subject.command(words);
        if !next.contains(&command) && next.len() < MOST_NEXT {
            next.push(command);
        }
    }
    next
}

/// Returns the consumer that explains a trace at its end; the text, or JSON, is appended to
/// `lines`. `of_trace` says what the trace cost, and how the machine was used, once it is over.
#[must_use]
pub fn consumer(
    tid: Option<i32>,
    subject: ExplainSubject,
    (is_json, budget): (bool, Budget),
    of_trace: impl FnOnce(&Summary) -> TraceUse + 'static,
    lines: Lines,
) -> Box<dyn Consumer> {
    Box::new(Answering::new(
        Gatherer::new(tid).of_this_trace(),
        move |gatherer, summary| {
            let mut explanation = Explanation::finish(gatherer, summary, &subject);
            explanation.trace = of_trace(summary);
            let shown = if is_json {
                budget.document(&json(&explanation))
            } else {
                budget.text_before_closing(text(&explanation), summary)
            };
            lines.bytes().extend_from_slice(shown.as_bytes());
            Ok(())
        },
    ))
}

/// Renders the explanation as one object. Times are in nanoseconds, shares in thousandths; what is
/// not known is `null`.
#[must_use]
pub fn json(explanation: &Explanation) -> Value {
    let (facts, overview) = (&explanation.facts, &explanation.overview);
    let time = USES.iter().zip(overview.ns);
    let time: serde_json::Map<String, Value> = time
        .map(|((_, _, key), ns)| ((*key).to_owned(), ns.into()))
        .collect();
    let not = explanation.judged.not.iter();
    let not: Vec<Value> = not
        .map(|(rule, share)| json!({ "rule": rule.name, "share": share }))
        .collect();
    let blind = explanation.judged.blind.iter().map(|rule| rule.name);
    let events = facts.statistics.summary.events.iter();
    json!({
        "wall_ns": facts.wall(),
        "events": events.map(|(_, count)| *count).sum::<u64>(),
        "lost": facts.statistics.lost,
        "damage": facts.statistics.summary.damage().map(damage),
        "unrecorded": facts.statistics.summary.unrecorded.json(),
        "calls_sampled": facts.windows.share_of_all(),
        "not_reported": facts.statistics.summary.not_reported(),
        "path_of": facts.path.as_ref().map(|path| String::from_utf8_lossy(&path.comm)),
        "time": time,
        "findings": explanation.findings().iter().map(finding).collect::<Vec<_>>(),
        "findings_in_all": explanation.judged.in_all,
        "longest_waits": explanation.longest,
        "not_the_reason": not,
        "blind": blind.collect::<Vec<_>>(),
        "not_seen": explanation.unseen,
        "machine": explanation.trace.machine.map(|used| json!({
            "idle": used.idle,
            "swapped_in_pages": used.swapped_in,
            "swapped_out_pages": used.swapped_out,
        })),
        "cost": explanation.trace.cost,
        "next": explanation.next,
    })
}

fn finding(found: &RuleFinding) -> Value {
    json!({
        "rule": found.rule,
        "share": found.share,
        "who": found.who,
        "what": found.what,
        "where": found.place,
        "line": found.line,
        "object": found.object,
        "by": found.by,
        "ns": found.ns,
        "count": found.count,
        "count_least": found.count_between.map(|(least, _)| least),
        "count_most": found.count_between.map(|(_, most)| most),
        "longest_ns": found.longest,
        "sure": found.sure.word(),
        "signs": found.sure.signs(),
        "sampled": found.sampled,
    })
}

#[cfg(test)]
#[cfg(target_arch = "x86_64")]
mod tests;
