//! Missing events, by what an answer in JSON says of them: the last that a budget leaves out.

use serde_json::{Map, Value};
use tracer_engine::source::LossCause;

/// Members that say what is missing: of answers, and of the last line of events.
const MEMBERS: [&str; 10] = [
    "lost",
    "damage",
    "lost_in_log",
    "lost_for_other_causes",
    "unwritten",
    "damaged_places",
    "damaged_bytes",
    "packets_missing",
    "completed",
    "not_reported",
];

/// Members in which such members are: an answer within another one, and that line.
const WITHIN: [&str; 2] = ["answer", "summary"];

/// Events that are missing, and damage of logs: sums of what objects say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MissingEvents {
    lost: u64,
    /// Places, bytes and packets.
    damage: [u64; 3],
}

/// Names of the counts of damage.
const DAMAGE: [&str; 3] = ["places", "bytes", "packets_missing"];

impl MissingEvents {
    /// Adds what an object says of itself.
    pub fn add(&mut self, object: &Value) {
        let lost = ["lost", "lost_in_log", "lost_for_other_causes", "unwritten"];
        for member in lost.iter().filter_map(|name| object.get(name)) {
            self.lost = self.lost.saturating_add(sum(member));
        }
        let damage = object.get("damage");
        let of_line = ["damaged_places", "damaged_bytes", "packets_missing"];
        for ((sum, name), of_line) in self.damage.iter_mut().zip(DAMAGE).zip(of_line) {
            let count = damage.and_then(|damage| damage.get(name));
            let count = count.or_else(|| object.get(of_line));
            *sum = sum.saturating_add(count.and_then(Value::as_u64).unwrap_or(0));
        }
    }

    /// Adds what an object and those within it say of themselves.
    pub fn add_all(&mut self, object: &Value) {
        self.add(object);
        for within in WITHIN.iter().filter_map(|name| object.get(name)) {
            self.add(within);
        }
    }

    /// Puts what there is into an object.
    pub fn put_into(self, object: &mut Value) {
        let Value::Object(members) = object else {
            return;
        };
        if self.lost > 0 {
            members.insert("lost".to_owned(), self.lost.into());
        }
        if self.damage != [0; 3] {
            let damage = DAMAGE.iter().zip(self.damage);
            let damage = damage.map(|(name, count)| ((*name).to_owned(), count.into()));
            members.insert("damage".to_owned(), Value::Object(damage.collect()));
        }
    }
}

/// Returns a count, or the sum of those by cause, without what the kernel did not report: that is
/// no loss.
fn sum(lost: &Value) -> u64 {
    let unreported = LossCause::KernelNotReported.name();
    match lost {
        Value::Object(causes) => {
            let lost = causes.iter().filter(|(cause, _)| *cause != unreported);
            let counts = lost.filter_map(|(_, count)| count.as_u64());
            counts.fold(0, u64::saturating_add)
        }
        count => count.as_u64().unwrap_or(0),
    }
}

/// Returns the members that say that something is missing, and those of objects within it; with
/// `all`, those too that say that nothing is. Causes of which there is none are left out.
pub fn members_of_missing(members: &Map<String, Value>, all: bool) -> Map<String, Value> {
    let of_missing = MEMBERS.iter().filter_map(|name| {
        let member = members.get(*name).filter(|member| !member.is_null())?;
        let is_wanted = all || says_that_some_is(name, member);
        is_wanted.then(|| ((*name).to_owned(), without_zeros(name, member)))
    });
    let within = WITHIN.iter().filter_map(|name| {
        let within = members_of_missing(members.get(*name)?.as_object()?, all);
        (!within.is_empty()).then(|| ((*name).to_owned(), Value::Object(within)))
    });
    of_missing.chain(within).collect()
}

fn says_that_some_is(name: &str, member: &Value) -> bool {
    match member {
        Value::Bool(is_completed) => name == "completed" && !is_completed,
        Value::Object(counts) => counts.values().any(|count| count.as_u64() > Some(0)),
        count => count.as_u64() > Some(0),
    }
}

fn without_zeros(name: &str, member: &Value) -> Value {
    match member {
        Value::Object(causes) if name == "lost" => {
            let causes = causes.iter().filter(|(_, count)| count.as_u64() != Some(0));
            causes
                .map(|(cause, count)| (cause.clone(), count.clone()))
                .collect()
        }
        other => other.clone(),
    }
}
