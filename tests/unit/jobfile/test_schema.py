"""The published schema: generated, plain enough for every engine, and of one mind with the models."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from launcher.jobfile import job_schema
from launcher.jobfile.model.fields import JOB, Place, place_at
from launcher.jobfile.text.source import Source
from launcher.jobfile.text.yaml import parse_yaml
from tests.unit.jobfile.test_compile import FULL
from tests.unit.jobfile.words import HEAD, compile_text

PUBLISHED = Path(__file__).resolve().parents[3] / "schemas" / "job-v1.schema.json"

OBEYED = {"$schema", "$id", "$ref", "$defs", "type", "properties", "required", "additionalProperties"}
OBEYED |= {"patternProperties", "enum", "const", "pattern", "minimum", "maximum", "exclusiveMinimum"}
OBEYED |= {"items", "oneOf", "anyOf", "allOf", "if", "then", "else"}
WORDS = {"title", "description", "markdownDescription", "default", "patternErrorMessage"}
WORDS |= {"enumDescriptions", "markdownEnumDescriptions", "defaultSnippets"}


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


def test_the_published_file_is_the_generated_one() -> None:
    assert PUBLISHED.read_text() == json.dumps(job_schema(), indent=2) + "\n"


def test_it_is_a_schema_of_its_draft() -> None:
    Draft202012Validator.check_schema(job_schema())


def test_only_keywords_that_every_engine_obeys() -> None:
    assert {key for schema in schemas(job_schema()) for key in schema} <= OBEYED | WORDS


def test_nothing_but_words_beside_a_reference() -> None:
    for schema in schemas(job_schema()):
        assert "$ref" not in schema or schema.keys() <= {"$ref"} | WORDS


def fields() -> Iterator[tuple[str, dict[str, Any]]]:
    """Every field of every mapping in the schema."""
    for schema in schemas(job_schema()):
        yield from schema.get("properties", {}).items()


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
    """The regular expression itself tells a user nothing."""
    for schema in schemas(job_schema()):
        assert ("pattern" in schema) == ("patternErrorMessage" in schema)


def test_beside_a_choice_of_tagged_mappings_stands_what_they_have_in_common() -> None:
    choices = [schema for schema in schemas(job_schema()) if "oneOf" in schema]
    assert choices
    for choice in choices:
        assert (choice["type"], choice["required"]) == ("object", ["type"])
        models = [job_schema()["$defs"][part["$ref"].removeprefix("#/$defs/")] for part in choice["oneOf"]]
        tags = [tag for model in models for tag in model["properties"]["type"]["enum"]]
        assert choice["properties"]["type"]["enum"] == tags


def scalars(model: dict[str, Any], place: Place) -> Iterator[tuple[str, dict[str, Any], Place]]:
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
            assert takes == (inside.mode != "never") or field["type"] == "string", key


def filled(body: Any) -> Any:
    """A snippet as it is when its places are left as they come."""
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


def role(fields: str) -> str:
    return HEAD + f"roles: {{main: {{entrypoint: x, {fields}}}}}\n"


GOOD = [
    FULL,
    role("num_replicas: $<var.n>") + "vars: {n: {type: int, default: 2}}\n",
    role("args: [1, 2.5, true, a], env: {A: 1, B: true, C: ''}"),
    role("retry_policy: $<var.r>") + "vars: {r: {type: str, default: role}}\n",
    role("x-note: {a: [1]}") + "x-base: 1\nenabled: false\ntimeout: 90\n",
    role("resource: gpu.small"),
    role("resource: {memory: 1.5GiB, cpu: 0.5}"),
    role("env: {A: {secret: 'env:API_KEY'}, B: {secret: 'file:~/b'}}"),
    role("max_retries: 1") + "workspace: .\nlifecycle: {rerun_on: [every_apply, {files: ['*.csv']}]}\n",
    role("args: [$<matrix.a>]") + "matrix: {a: [1, x], b: {range: [0, 2]}, exclude: [{a: 1, b: 0}]}\n",
    role("args: [$<matrix.a>]") + "matrix: {a: [1], include: [{a: 2}]}\n",
    HEAD + "defaults: {role: {entrypoint: x, env: {A: 1}}}\nroles: {main: {image: y, env: {A: null}}}\n",
    HEAD + "defaults: {role: {entrypoint: x, resource: {cpu: 1, memory: 1GiB}, port_map: {a: 1}}}\n"
    "roles: {main: {resource: {memory: null}, port_map: {a: null}}}\n",
    role("image: y, resource: {cpu: 1}")
    + "targets: {dev: {timeout: null, roles: {main: {image: null, resource: {cpu: null}}}}}\n",
    role("args: [$<var.v>]") + "vars: {v: {type: int, default: 1}}\n"
    "targets: {dev: {vars: {v: {default: 2}}, roles: {more: {entrypoint: y}, main: {env: {A: 1}}}}}\n",
]
BAD = [
    HEAD,
    "version: 2\nname: a\nroles: {m: {entrypoint: x}}\n",
    HEAD.replace("job", "My_Job") + "roles: {m: {entrypoint: x}}\n",
    role("num_replica: 2"),
    role("num_replicas: 0"),
    role("num_replicas: '2'"),
    role("num_replicas: 1.5"),
    role("retry_policy: never"),
    role("args: text"),
    role("env: {A: [1]}"),
    role("env: {A: {secret: API_KEY}}"),
    role("env: {A: {secrets: 'env:A'}}"),
    role("workspace: ."),
    role("max_retries: 1") + "workspace: 3\n",
    role("max_retries: 1") + "lifecycle: {rerun_on: [every_day]}\n",
    role("max_retries: 1") + "lifecycle: {rerun_on: [{files: data}]}\n",
    role("max_retries: 1") + "matrix: [1]\n",
    role("max_retries: 1") + "matrix: {a: 1}\n",
    role("max_retries: 1") + "matrix: {a: [[1]]}\n",
    role("max_retries: 1") + "matrix: {a: {rnge: [0, 2]}}\n",
    role("max_retries: 1") + "matrix: {a: [1], exclude: [1]}\n",
    role("max_retries: 1") + "defaults: {roles: {image: a}}\n",
    role("max_retries: 1") + "defaults: {role: {imge: a}}\n",
    role("max_retries: 1") + "targets: [dev]\n",
    role("max_retries: 1") + "targets: {Dev: {}}\n",
    role("max_retries: 1") + "targets: {dev: {name: other}}\n",
    role("max_retries: 1") + "targets: {dev: {roles: {main: {num_replica: 2}}}}\n",
    role("max_retries: 1") + "targets: {dev: {roles: {main: {resource: {cpus: 2}}}}}\n",
    role("max_retries: 1") + "vars: {v: {type: int}}\ntargets: {dev: {vars: {v: {min: 2}}}}\n",
    role("port_map: {a: 70000}"),
    role("mounts: [{type: bind, src: a}]"),
    role("mounts: [{type: thing}]"),
    role("mounts: [3]"),
    role("mounts: [text]"),
    role("resource: {memory: 4096}"),
    role("resource: {memory: 4gigs}"),
    role("resource: [1]"),
    role("image: 3.10"),
    role("max_retries: 1") + "timeout: soon\n",
    role("max_retries: 1") + "timeout: 0\n",
    role("max_retries: 1") + "enabled: yes\n",
    role("max_retries: 1") + "lifecycle: {on_failed: retry}\n",
    role("max_retries: 1") + "vars: {v: {type: string}}\n",
    role("max_retries: 1") + "vars: {v: {type: int, default: '3'}}\n",
    role("max_retries: 1") + "metadata: {a: [1]}\n",
    HEAD + "roles: {My Role: {entrypoint: x}}\n",
]


# What a schema cannot say: it does not see what `defaults` and the job itself have under a name.
BEYOND = [
    role("env: {A: null}"),
    role("image: null"),
    HEAD + "roles: {main: {image: x}}\n",
    role("max_retries: 1") + "targets: {dev: {roles: {other: null}}}\n",
    role("max_retries: 1") + "targets: {dev: {roles: {main: {entrypoint: null}}}}\n",
    role("max_retries: 1") + "targets: {dev: {vars: {v: {default: 1}}}}\n",
    role("max_retries: 1") + "targets: {default: {}}\n",
    role("max_retries: 1") + "matrix: {a: [1, 1]}\n",
    role("max_retries: 1") + "matrix: {a: {range: [3, 0]}}\n",
    role("max_retries: 1") + "matrix: {a: [1], exclude: [{b: 1}]}\n",
    role("max_retries: 1") + "matrix: {a: [1], include: [{b: 1}]}\n",
    role("max_retries: 1") + "matrix: {a: {range: [0, 300]}}\n",
]


@pytest.mark.parametrize("text", BEYOND)
def test_what_only_the_checks_see(tmp_path: Path, text: str) -> None:
    assert Draft202012Validator(job_schema()).is_valid(parse_yaml(Source("f", "yaml", text)).value)
    assert compile_text(tmp_path, text).errors


@pytest.mark.parametrize(("texts", "verdict"), [(GOOD, True), (BAD, False)])
def test_models_and_schema_give_one_verdict(tmp_path: Path, texts: list[str], verdict: bool) -> None:
    validator = Draft202012Validator(job_schema())
    for text in texts:
        value = parse_yaml(Source("f", "yaml", text)).value
        assert validator.is_valid(value) is verdict, text
        assert (not compile_text(tmp_path, text).errors) is verdict, text


def job_of(text: str) -> Any:
    return parse_yaml(Source("f", "yaml", HEAD + text)).value


@pytest.mark.parametrize(
    ("text", "places"),
    [
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
    ],
)
def test_a_job_has_roles_or_a_component_and_its_arguments(text: str, places: list[str]) -> None:
    # This judge has a forbidden field at the mapping that holds it; editors have it at its key.
    found = Draft202012Validator(job_schema()).iter_errors(job_of(text))
    assert [".".join(map(str, error.absolute_path)) for error in found] == places


def test_our_components_are_offered_by_name_with_what_they_do() -> None:
    ours = job_schema()["properties"]["component"]["anyOf"][0]
    assert {"utils.echo", "dist.ddp", "metrics.tensorboard"} <= set(ours["enum"])
    assert ours["enumDescriptions"][ours["enum"].index("utils.echo")]
