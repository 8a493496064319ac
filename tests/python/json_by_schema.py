"""Says which answers are not as their schema says. A line of the standard input is a list: what the
answer is of, its schema, and the answer. No member is allowed that the schema does not have."""

import json
import sys

from jsonschema import Draft202012Validator


def closed(schema):
    """Returns the schema without room for other members."""
    if isinstance(schema, list):
        return [closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    made = {name: closed(part) for name, part in schema.items()}
    # A member may be called `properties`; its schema has a type, and no members of its own.
    if made.get("type") == "object" and "properties" in made:
        made["additionalProperties"] = False
    return made


def complaint(error):
    """Returns the innermost reasons, where none of several schemas fits."""
    deepest = max(error.context or [error], key=lambda one: len(one.absolute_path))
    if deepest is not error:
        return complaint(deepest)
    path = ".".join(str(step) for step in error.absolute_path)
    return f"{path}: {error.message[:300]}"


validators = {}
count = 0
for line in sys.stdin:
    what, schema, answer = json.loads(line)
    key = schema["$id"]
    if key not in validators:
        Draft202012Validator.check_schema(schema)
        failure = {"$schema": schema["$schema"], "$ref": "#/$defs/failure", "$defs": schema["$defs"]}
        validators[key] = [Draft202012Validator(closed(one)) for one in (schema, failure)]
    is_failure = "error" in answer and "exit_code" in answer
    error = next(validators[key][is_failure].iter_errors(answer), None)
    if error is not None:
        print(f"{what}: {complaint(error)}")
    count += 1
print(f"{count} checked")
