//! JSON that is cut by whole entries of lists.

use serde_json::{Map, Value, json};

/// Writes an object.
pub type JsonWriter = fn(&Value) -> String;

/// Entries of lists beyond which no more is tried: a list that is longer is cut to it.
const MOST_ENTRIES: usize = 1 << 20;

/// Returns the object with lists that are short enough for all of it to fit into `bytes`. A member
/// `truncated` counts the entries that are left out of each list, and says what shows them.
pub fn cut(value: &Value, bytes: usize, rest: &str, written: JsonWriter) -> String {
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
        None => bare(value, bytes, rest, written),
    }
}

fn with_lists_of(value: &Value, most: usize, rest: &str, written: JsonWriter) -> String {
    let mut left_out = Map::new();
    let mut short = shortened(value, most, "", &mut left_out);
    if let Value::Object(members) = &mut short {
        members.insert(
            "truncated".to_owned(),
            json!({ "left_out": left_out, "rest": rest }),
        );
    }
    written(&short)
}

/// Returns the value with lists of at most so many entries; those that are left out are counted by
/// the names of the members that lead to their lists.
fn shortened(value: &Value, most: usize, path: &str, left_out: &mut Map<String, Value>) -> Value {
    match value {
        Value::Array(entries) => {
            let beyond = entries.len().saturating_sub(most);
            if beyond > 0 {
                let before = left_out.get(path).and_then(Value::as_u64).unwrap_or(0);
                left_out.insert(path.to_owned(), (before + beyond as u64).into());
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

/// Returns the numbers of the object, as far as they fit, without its lists.
fn bare(value: &Value, bytes: usize, rest: &str, written: JsonWriter) -> String {
    let numbers = value.as_object().into_iter().flatten();
    let numbers = numbers.filter(|(_, member)| member.is_number() || member.is_boolean());
    let mut kept = Map::new();
    let with = |kept: &Map<String, Value>, truncated: Value| {
        let mut members = kept.clone();
        members.insert("truncated".to_owned(), truncated);
        written(&Value::Object(members))
    };
    let all = json!({ "left_out": "all lists", "rest": rest });
    let whole = if with(&kept, all.clone()).len() <= bytes {
        all
    } else {
        true.into()
    };
    for (name, number) in numbers {
        let mut more = kept.clone();
        more.insert(name.clone(), number.clone());
        if with(&more, whole.clone()).len() <= bytes {
            kept = more;
        }
    }
    let shown = with(&kept, whole);
    if shown.len() <= bytes {
        shown
    } else {
        "{}\n".get(..bytes.min(3)).unwrap_or_default().to_owned()
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
        let short = cut(&whole, 1000, "tracer-user stat log", lines);
        assert!(short.len() <= 1000);
        let value: Value = serde_json::from_str(&short).unwrap();
        assert_eq!(value["sum"], 100);
        let kept = value["rows"].as_array().unwrap().len();
        assert!(kept > 3, "{short}");
        assert_eq!(value["truncated"]["left_out"]["rows"], 100 - kept);
        assert_eq!(value["truncated"]["rest"], "tracer-user stat log");
        // One entry more would not fit.
        assert!(with_lists_of(&whole, kept + 1, "tracer-user stat log", lines).len() > 1000);
    }

    proptest! {
        #[test]
        fn no_object_is_longer_than_its_budget(
            count in 0_usize..60,
            rest in ".{0,400}",
            bytes in 0_usize..5000,
        ) {
            let short = cut(&rows(count), bytes, &rest, lines);
            prop_assert!(short.len() <= bytes, "{} {}", short.len(), bytes);
            if bytes >= 3 {
                serde_json::from_str::<Value>(&short).unwrap();
            }
        }
    }
}
