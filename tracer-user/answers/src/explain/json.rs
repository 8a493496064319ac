//! An explanation for programs.

use serde_json::{Value, json};

use super::overview::USES;
use super::{Explanation, RuleFinding};

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
        "cost": explanation.cost,
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
        "longest_ns": found.longest,
        "sure": found.sure.word(),
        "signs": found.sure.signs(),
        "sampled": found.sampled,
    })
}
