"""The published schema: generated, plain enough for every engine, and consistent with the models."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from launcher.cli import schema as published
from launcher.jobfile.model.fields import JOB, place_at
from launcher.jobfile.model.types import PlaceKind
from launcher.jobfile.text.document import Source
from launcher.jobfile.text.yaml import parse_yaml
from tests.unit.jobfile.words import HEAD

OBEYED = {"$schema", "$id", "$ref", "$defs", "type", "properties", "required", "additionalProperties"}
OBEYED |= {"patternProperties", "enum", "const", "pattern", "minimum", "maximum", "exclusiveMinimum"}
OBEYED |= {"items", "oneOf", "anyOf", "allOf", "if", "then", "else", "minItems", "maxItems", "minProperties"}
WORDS = {"title", "description", "markdownDescription", "default", "patternErrorMessage"}
WORDS |= {"enumDescriptions", "markdownEnumDescriptions", "defaultSnippets"}


def job_schema() -> dict[str, Any]:
    return published.schema("job")


def schemas(schema: Any) -> Iterator[dict[str, Any]]:
    """Every schema in a schema."""
    if not isinstance(schema, dict):
        return
    yield schema
    for key in ("properties", "patternProperties", "$defs"):
        for part in schema.get(key, {}).values():
            yield from schemas(part)
    for key in ("items", "additionalProperties"):
        yield from schemas(schema.get(key))
    for key in ("oneOf", "anyOf"):
        for part in schema.get(key, ()):
            yield from schemas(part)


@pytest.mark.parametrize("kind", ["job", "project"])
def test_a_schema_of_files_has_only_keywords_that_every_engine_obeys(kind: str) -> None:
    assert {key for schema in schemas(published.schema(kind)) for key in schema} <= OBEYED | WORDS


def test_only_descriptive_keywords_stand_beside_a_reference() -> None:
    for schema in schemas(job_schema()):
        assert "$ref" not in schema or schema.keys() <= {"$ref"} | WORDS


def fields() -> Iterator[tuple[str, dict[str, Any]]]:
    """Every field of every mapping in the schema, at the place that has its description."""
    for schema in schemas(job_schema()):
        yield from (item for item in schema.get("properties", {}).items() if item[1].keys() != {"$ref"})


def test_every_field_has_its_name_as_title_and_a_description_with_an_example() -> None:
    for key, field in fields():
        assert field["title"] == key
        assert re.match(r"[A-Z].*\. Example: `.+`$", field["description"])


def test_every_example_is_valid_for_its_field() -> None:
    everything = job_schema()["$defs"]
    for key, field in fields():
        words, _, code = field["markdownDescription"].partition("\n\n```yaml\n")
        assert field["description"].startswith(words.partition(" Default: ")[0])
        shown = parse_yaml(Source("f", "yaml", code.removesuffix("```"))).value
        of_this = {"$defs": everything, "properties": {key: field}}
        assert not list(Draft202012Validator(of_this).iter_errors(shown)), code


def test_every_value_of_a_choice_is_explained() -> None:
    for schema in schemas(job_schema()):
        texts = schema.get("enumDescriptions", [])
        assert len(texts) == len(schema.get("enum", []))
        assert texts == schema.get("markdownEnumDescriptions", [])
        assert all(re.fullmatch(r"[A-Z].*\.", text) for text in texts)


def test_every_pattern_says_what_it_wants() -> None:
    """The regular expression itself does not help a user."""
    for schema in schemas(job_schema()):
        assert ("pattern" in schema) == ("patternErrorMessage" in schema)


@pytest.mark.slow
def test_a_choice_of_tagged_mappings_declares_their_common_fields() -> None:
    choices = [schema for schema in schemas(job_schema()) if "oneOf" in schema]
    assert choices
    for choice in choices:
        models = [job_schema()["$defs"][part["$ref"].removeprefix("#/$defs/")] for part in choice["oneOf"]]
        tagged = [model["properties"]["type"] for model in models if "type" in model["properties"]]
        assert "object" in choice["type"]
        assert choice.get("required", []) == (["type"] if len(tagged) == len(models) else [])
        tags = [tag for each in tagged for tag in each["enum"]]
        assert choice["properties"]["type"]["enum"] == tags


def scalars(model: dict[str, Any], place: PlaceKind) -> Iterator[tuple[str, dict[str, Any], PlaceKind]]:
    """The fields of a mapping that hold one value each."""
    for key, field in model["properties"].items():
        kinds = field.get("type") or [part.get("type") for part in field.get("anyOf", ({},))]
        if {"object", "array", None}.isdisjoint([kinds] if isinstance(kinds, str) else kinds):
            yield key, field, (place.fields or {})[key]


def test_a_field_takes_a_reference_where_the_language_lets_it_stand() -> None:
    schema = job_schema()
    role = ("roles", "main")
    below = {"RoleSpec": role, "Resources": (*role, "resource"), "LifecycleSpec": ("lifecycle",)}
    below["IntVar"] = ("vars", "x")
    models = [(schema, JOB), *((schema["$defs"][name], place_at(path)) for name, path in below.items())]
    for model, place in models:
        assert place is not None
        for key, field, inside in scalars(model, place):
            takes = Draft202012Validator({**field, "$defs": schema["$defs"]}).is_valid("$<var.x>")
            # Where no reference may stand, it is still a text like others: what that means, the checks say.
            assert takes == (inside.mode != "never") or "string" in field["type"], key


def filled(body: Any) -> Any:
    """Return a snippet with the default text in each of its places."""
    return json.loads(re.sub(r"\$\{\d:([^}]*)\}", r"\1", json.dumps(body)))


def test_every_snippet_is_valid_where_it_is_offered() -> None:
    schema = job_schema()
    count = 0
    for part in schemas(schema):
        for snippet in part.get("defaultSnippets", ()):
            body = [filled(snippet["body"])] if snippet.get("type") == "array" else filled(snippet["body"])
            assert Draft202012Validator({**part, "$defs": schema["$defs"]}).is_valid(body), snippet
            count += 1
    assert count == 7


def job_of(text: str) -> Any:
    return parse_yaml(Source("f", "yaml", HEAD + text)).value


@pytest.mark.parametrize(("text", "places"), [
    ("component: utils.echo\nargs: {msg: hi, num_replicas: $<var.n>}\n", []),
    ("component: utils.sh\nargs: {args: [date], h: null, env: {A: b}}\n", []),
    ("component: mine.own\nargs: {anything: [1, {a: b}]}\n", []),
    ("component: ./train.py:train\n", []),
    ("component: utils.echo\nargs: {mesg: x}\n", ["args"]),
    ("component: utils.echo\nargs: {num_replicas: two}\n", ["args.num_replicas"]),
    ("component: utils.sh\nargs: {args: [[a]]}\n", ["args.args.0"]),
    ("component: utils.touch\nargs: {image: x}\n", ["args"]),
    ("component: utils.touch\n", [""]),
    ("component: utils.echo\nroles: {main: {entrypoint: env}}\n", [""]),
    ("component: utils.echo\ndefaults: {role: {image: x}}\n", [""]),
    ("args: {msg: x}\nroles: {main: {entrypoint: env}}\n", [""]),
    ("", [""]),
])  # fmt: skip
def test_a_job_has_roles_or_a_component_and_its_arguments(text: str, places: list[str]) -> None:
    # This judge has a forbidden field at the mapping that holds it; editors have it at its key.
    found = Draft202012Validator(job_schema()).iter_errors(job_of(text))
    assert [".".join(map(str, error.absolute_path)) for error in found] == places


def test_built_in_components_are_offered_by_name_with_a_description() -> None:
    ours = job_schema()["properties"]["component"]["anyOf"][0]
    assert {"utils.echo", "dist.ddp", "metrics.tensorboard"} <= set(ours["enum"])
    assert ours["enumDescriptions"][ours["enum"].index("utils.echo")]
