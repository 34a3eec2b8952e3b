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
from launcher.jobfile.source import Source
from launcher.jobfile.yaml import parse_yaml
from tests.unit.jobfile.test_compile import FULL
from tests.unit.jobfile.words import HEAD, compile_text

PUBLISHED = Path(__file__).resolve().parents[3] / "schemas" / "job-v1.schema.json"

OBEYED = {"$schema", "$id", "$ref", "$defs", "type", "properties", "required", "additionalProperties"}
OBEYED |= {"patternProperties", "enum", "const", "pattern", "minimum", "maximum", "exclusiveMinimum"}
OBEYED |= {"items", "oneOf", "anyOf"}
WORDS = {"title", "description", "default", "patternErrorMessage"}


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


def test_every_field_has_its_name_as_title_and_a_description_with_an_example() -> None:
    for schema in schemas(job_schema()):
        for key, field in schema.get("properties", {}).items():
            if "enum" in field and "title" not in field:
                continue  # the list of tags beside a choice
            assert field["title"] == key
            assert re.match(r"[A-Z].*\. Example: `.+`$", field["description"])


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
    role("env: {A: null}"),
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


@pytest.mark.parametrize(("texts", "verdict"), [(GOOD, True), (BAD, False)])
def test_models_and_schema_give_one_verdict(tmp_path: Path, texts: list[str], verdict: bool) -> None:
    validator = Draft202012Validator(job_schema())
    for text in texts:
        value = parse_yaml(Source("f", "yaml", text)).value
        assert validator.is_valid(value) is verdict, text
        assert (not compile_text(tmp_path, text).errors) is verdict, text
