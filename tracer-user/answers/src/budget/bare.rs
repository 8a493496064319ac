//! JSON of which a budget leaves no list: what is missing, and numbers, as far as they fit.

use serde_json::{Map, Value};

use super::json::{JsonWriter, truncated};
use super::missing::{MissingEvents, members_of_missing};

/// Returns what says that events are missing, and the numbers of the object, as far as they fit.
/// Where not all members fit that say what is missing, `truncated` has the sums of them.
pub fn cut(value: &Value, bytes: usize, rest: Option<&str>, written: JsonWriter) -> String {
    let Value::Object(whole) = value else {
        return empty(bytes);
    };
    let mut in_lists = MissingEvents::default();
    add_lists(whole, &mut in_lists);
    let of_missing = members_of_missing(whole, false);
    let fits = |members: &Map<String, Value>| written(&members.clone().into()).len() <= bytes;

    let mut kept = of_missing.clone();
    put_truncated(&mut kept, None, in_lists);
    let mut all = in_lists;
    if !fits(&kept) {
        all.add_all(value);
        kept.clear();
        put_truncated(&mut kept, None, all);
    }
    if !fits(&kept) {
        return empty(bytes);
    }
    let mut with_rest = kept.clone();
    put_truncated(&mut with_rest, Some(rest.unwrap_or_default()), all);
    if fits(&with_rest) {
        kept = with_rest;
    }
    let numbers = whole.iter();
    let numbers = numbers.filter(|(_, member)| member.is_number() || member.is_boolean());
    let none_missing = members_of_missing(whole, true);
    for (name, member) in of_missing.iter().chain(&none_missing).chain(numbers) {
        let mut more = kept.clone();
        more.insert(name.clone(), member.clone());
        if fits(&more) {
            kept = more;
        }
    }
    written(&kept.into())
}

fn put_truncated(members: &mut Map<String, Value>, rest: Option<&str>, missing: MissingEvents) {
    let value = truncated("all lists".into(), rest, missing);
    members.insert("truncated".to_owned(), value);
}

/// Adds what entries of the lists say, also of lists of objects within it.
fn add_lists(members: &Map<String, Value>, missing: &mut MissingEvents) {
    for member in members.values() {
        match member {
            Value::Array(entries) => entries.iter().for_each(|entry| missing.add(entry)),
            Value::Object(within) => add_lists(within, missing),
            _ => {}
        }
    }
}

/// Returns an object without members, where that has room.
fn empty(bytes: usize) -> String {
    "{}\n".get(..bytes.min(3)).unwrap_or_default().to_owned()
}
