//! JSON Schema of what a command writes.

use serde_json::{Map, Value, json};

use crate::definition::{Definitions, Object, Type};
use crate::{FAILURE, VERSION};

/// Returns the JSON Schema (2020-12) of what a command writes, or each line of it; `None` where it
/// writes no JSON. Members that it does not have may be there in a later edition of the version.
/// `$defs` has each object that is part of it, and `failure`, the object of the standard error.
#[must_use]
pub fn schema(definitions: &Definitions, command: &str) -> Option<Value> {
    let answer = definitions.answer(command)?;
    let mut needed: Vec<&str> = vec![FAILURE];
    needed.extend(answer.objects.iter().map(String::as_str));
    let roots = needed.clone();
    let mut at = 0;
    while let Some(name) = needed.get(at) {
        at += 1;
        let object = definitions.object(name)?;
        let members = definitions.members_of(object).into_iter();
        for name in members.filter_map(|member| member.of.object()) {
            if !needed.contains(&name) {
                needed.push(name);
            }
        }
    }
    let defs = needed.iter().filter_map(|name| {
        let object = definitions.object(name)?;
        let has_version = roots.contains(name);
        Some((
            (*name).to_owned(),
            object_schema(definitions, object, has_version),
        ))
    });
    let mut defs: Map<String, Value> = defs.collect();
    let mut one_of: Vec<Value> = answer.objects.iter().map(|name| reference(name)).collect();
    for name in &answer.objects {
        if let Some(short) = defs.get(name).and_then(cut) {
            let name = format!("{name}_cut");
            one_of.push(reference(&name));
            defs.insert(name, short);
        }
    }
    Some(json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": format!("urn:tracer-user:json:{VERSION}:{command}"),
        "title": format!("tracer-user {command} --format json, version {VERSION}"),
        "anyOf": one_of,
        "$defs": defs,
    }))
}

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/$defs/{name}") })
}

/// Returns the schema of an object of which a budget has left some members alone; `None` where it
/// is never cut.
fn cut(whole: &Value) -> Option<Value> {
    whole.get("properties")?.get("truncated")?;
    let mut short = whole.clone();
    let members = short.as_object_mut()?;
    members.insert("required".to_owned(), json!(["schema", "truncated"]));
    let about = "What is left where a budget has no room for lists";
    members.insert("description".to_owned(), about.into());
    let properties = members.get_mut("properties")?.as_object_mut()?;
    let about = "`true`, or what is left out";
    properties.insert("truncated".to_owned(), json!({ "description": about }));
    Some(short)
}

fn object_schema(definitions: &Definitions, object: &Object, has_version: bool) -> Value {
    let mut properties = Map::new();
    let mut required = Vec::new();
    if has_version {
        properties.insert("schema".to_owned(), json!({ "const": VERSION }));
        required.push("schema");
    }
    for member in definitions.members_of(object) {
        let mut of = type_schema(&member.of);
        if let Value::Object(of) = &mut of {
            of.insert("description".to_owned(), member.about.clone().into());
        }
        properties.insert(member.name.clone(), of);
        if member.is_always {
            required.push(&member.name);
        }
    }
    json!({
        "description": object.about,
        "type": "object",
        "properties": properties,
        "required": required,
    })
}

fn type_schema(of: &Type) -> Value {
    match of {
        Type::Text => json!({ "type": "string" }),
        Type::Bool => json!({ "type": "boolean" }),
        Type::Any => json!({}),
        Type::Integer => json!({ "type": "integer" }),
        Type::Count | Type::Ns => json!({ "type": "integer", "minimum": 0 }),
        Type::Number => json!({ "type": "number" }),
        Type::OneOf(words) => json!({ "enum": words }),
        Type::Object(name) => reference(name),
        Type::List(of) => json!({ "type": "array", "items": type_schema(of) }),
        Type::Map(of) => json!({ "type": "object", "additionalProperties": type_schema(of) }),
        Type::OrNull(of) => json!({ "anyOf": [type_schema(of), { "type": "null" }] }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_has_all_that_it_refers_to() {
        let all = crate::definitions().unwrap();
        for answer in &all.answers {
            let schema = schema(&all, &answer.command).unwrap();
            let text = schema.to_string();
            for (before, _) in text.match_indices("#/$defs/") {
                let name = text[before + 8..].split('"').next().unwrap();
                assert!(schema["$defs"][name].is_object(), "{name}");
            }
            assert!(schema["$defs"]["failure"].is_object());
        }
        assert!(schema(&all, "serve").is_none());
    }

    #[test]
    fn the_version_is_on_each_object_that_is_written_by_itself() {
        let all = crate::definitions().unwrap();
        let info = schema(&all, "info").unwrap();
        assert_eq!(
            info["$defs"]["log"]["properties"]["schema"],
            json!({"const": VERSION})
        );
        let cut = &info["$defs"]["log_cut"]["required"];
        assert_eq!(*cut, json!(["schema", "truncated"]));
        assert!(info["$defs"]["damage"]["properties"]["schema"].is_null());
        let span = &info["$defs"]["log"]["properties"]["span_ns"];
        assert_eq!(
            span["anyOf"],
            json!([{"type": "integer", "minimum": 0}, {"type": "null"}])
        );
    }
}
