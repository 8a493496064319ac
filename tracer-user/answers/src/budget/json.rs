//! JSON that is cut by whole entries of lists.

use serde_json::{Map, Value, json};

use super::bare;
use super::missing::MissingEvents;

/// Writes an object.
pub type JsonWriter = fn(&Value) -> String;

/// Entries of lists beyond which no more is tried: a list that is longer is cut to it.
const MOST_ENTRIES: usize = 1 << 20;

/// Returns the object with lists that are short enough for all of it to fit into `bytes`. A member
/// `truncated` counts the entries that are left out of each list, says what shows them, and sums up
/// what is missing by what they say.
pub fn cut(value: &Value, bytes: usize, rest: Option<&str>, written: JsonWriter) -> String {
    // The longest lists that fit, by halving. An entry takes two bytes at least.
    let (mut fits, mut too_many) = (None, MOST_ENTRIES.min(bytes / 2 + 1));
    let mut most = too_many / 2;
    loop {
        let shown = with_lists_of(value, most, rest, written);
        if shown.len() <= bytes {
            fits = Some((most, shown));
        } else {
            too_many = most;
        }
        let least = fits.as_ref().map_or(0, |(most, _)| most + 1);
        if least >= too_many {
            break;
        }
        most = least + (too_many - least) / 2;
    }
    match fits {
        Some((_, shown)) => shown,
        None => bare::cut(value, bytes, rest, written),
    }
}

fn with_lists_of(value: &Value, most: usize, rest: Option<&str>, written: JsonWriter) -> String {
    let mut left_out = LeftOut::default();
    let mut short = shortened(value, most, "", &mut left_out);
    if let Value::Object(members) = &mut short {
        let LeftOut { entries, missing } = left_out;
        members.insert(
            "truncated".to_owned(),
            truncated(entries.into(), Some(rest.unwrap_or_default()), missing),
        );
    }
    written(&short)
}

/// Renders what was left out.
pub fn truncated(left_out: Value, rest: Option<&str>, missing: MissingEvents) -> Value {
    let mut all = json!({ "left_out": left_out });
    if let (Some(rest), Value::Object(members)) = (rest, &mut all) {
        members.insert("rest".to_owned(), rest.into());
    }
    missing.put_into(&mut all);
    all
}

/// Parts of lists that an object lacks.
#[derive(Default)]
struct LeftOut {
    /// Entries, by the names of the members that lead to their lists.
    entries: Map<String, Value>,
    /// Events that are missing by what they say.
    missing: MissingEvents,
}

/// Returns the value with lists of at most so many entries; those that are left out are counted.
fn shortened(value: &Value, most: usize, path: &str, left_out: &mut LeftOut) -> Value {
    match value {
        Value::Array(entries) => {
            let beyond = entries.len().saturating_sub(most);
            if beyond > 0 {
                let of_list = &mut left_out.entries;
                let before = of_list.get(path).and_then(Value::as_u64).unwrap_or(0);
                of_list.insert(path.to_owned(), (before + beyond as u64).into());
                let beyond = entries.iter().skip(most);
                beyond.for_each(|entry| left_out.missing.add(entry));
            }
            let kept = entries.iter().take(most);
            kept.map(|entry| shortened(entry, most, path, left_out))
                .collect()
        }
        Value::Object(members) => {
            let members = members.iter().map(|(name, member)| {
                let within = match path {
                    "" => name.clone(),
                    path => format!("{path}.{name}"),
                };
                (name.clone(), shortened(member, most, &within, left_out))
            });
            Value::Object(members.collect())
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tracer_event::document::document;

    fn lines(value: &Value) -> String {
        document(value)
    }

    fn rows(count: usize) -> Value {
        let rows = (0..count).map(|row| json!({ "row": row, "in": [1, 2, 3] }));
        json!({ "sum": count, "rows": rows.collect::<Vec<_>>() })
    }

    #[test]
    fn entries_are_left_out_whole_and_counted_and_sums_stay() {
        let whole = rows(100);
        let short = cut(&whole, 1000, Some("tracer-user stat log"), lines);
        assert!(short.len() <= 1000);
        let value: Value = serde_json::from_str(&short).unwrap();
        assert_eq!(value["sum"], 100);
        let kept = value["rows"].as_array().unwrap().len();
        assert!(kept > 3, "{short}");
        assert_eq!(value["truncated"]["left_out"]["rows"], 100 - kept);
        assert_eq!(value["truncated"]["rest"], "tracer-user stat log");
        // One entry more would not fit.
        assert!(with_lists_of(&whole, kept + 1, Some("tracer-user stat log"), lines).len() > 1000);
    }

    fn cut_to(whole: &Value, bytes: usize) -> Value {
        let short = cut(whole, bytes, Some("tracer-user info log"), lines);
        assert!(short.len() <= bytes, "{short}");
        serde_json::from_str(&short).unwrap()
    }

    #[test]
    fn what_is_missing_stays_where_lists_and_numbers_go() {
        let numbers: Map<String, Value> = (0..60)
            .map(|number| (format!("a_{number}"), json!(number)))
            .collect();
        let mut whole = json!({
            "lost": { "late": 7, "damaged": 0 },
            "damage": { "places": 1, "bytes": 30, "packets_missing": 0 },
            "completed": false,
            "other": null,
        });
        whole.as_object_mut().unwrap().extend(numbers);
        let short = cut_to(&whole, 400);
        assert_eq!(short["lost"], json!({ "late": 7 }));
        assert_eq!(short["damage"], whole["damage"]);
        assert_eq!(short["completed"], false);
        assert_eq!(short["truncated"]["rest"], "tracer-user info log");
        assert!(short["a_0"].is_number(), "{short}");
        let within = cut_to(&json!({ "answer": whole }), 400);
        assert_eq!(within["answer"]["lost"]["late"], 7);
        assert_eq!(within["answer"]["damage"]["bytes"], 30);
    }

    #[test]
    fn what_does_not_fit_of_it_is_summed_up() {
        let causes: Map<String, Value> = (1..20)
            .map(|cause| (format!("a_cause_of_loss_{cause}"), json!(1000)))
            .collect();
        let damage = json!({ "places": 1, "bytes": 30, "packets_missing": 2 });
        let whole =
            json!({ "lost": causes, "lost_in_log": 5, "damage": damage, "completed": true });
        let short = cut_to(&whole, 256);
        assert_eq!(short["truncated"]["lost"], 19_005);
        assert_eq!(short["truncated"]["damage"], damage);
    }

    #[test]
    fn what_entries_say_that_are_left_out_is_summed_up() {
        let damage = json!({ "places": 1, "bytes": 30, "packets_missing": 2 });
        let runs: Vec<Value> = (0..9)
            .map(|run| json!({ "file": "x".repeat(40), "lost": run, "damage": damage }))
            .collect();
        for (bytes, what) in [(800, "some"), (256, "all")] {
            let whole = json!({ "a": runs, "b": [] });
            let short = cut_to(&whole, bytes);
            let kept = short["a"].as_array().map_or(0, Vec::len) as u64;
            assert_eq!(kept > 0, what == "some", "{short}");
            let lost: u64 = (kept..9).sum();
            assert_eq!(short["truncated"]["lost"], lost);
            assert_eq!(short["truncated"]["damage"]["bytes"], 30 * (9 - kept));
        }
    }

    proptest! {
        #[test]
        fn no_object_is_longer_than_its_budget(
            count in 0_usize..60,
            rest in ".{0,400}",
            bytes in 0_usize..5000,
        ) {
            let short = cut(&rows(count), bytes, Some(&rest), lines);
            prop_assert!(short.len() <= bytes, "{} {}", short.len(), bytes);
            if bytes >= 3 {
                serde_json::from_str::<Value>(&short).unwrap();
            }
        }
    }
}
