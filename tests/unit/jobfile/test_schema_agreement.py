"""Models and schema judge thousands of changed files alike, but for the rules that are listed here."""

import json
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from launcher.jobfile import job_schema
from launcher.jobfile.text.source import Source
from launcher.jobfile.text.yaml import parse_yaml
from tests.unit.jobfile.mutations import Mutation, mutations
from tests.unit.jobfile.test_compile import FULL
from tests.unit.jobfile.words import HEAD, compile_text


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


BEYOND: dict[str, str] = {
    "which variables and axes there are": r"unknown-(reference|variable)|unset-variable|"
    r"unknown-field the matrix has no axis",
    "where references may stand": "reference-phase",
    "which schedulers there are": r"unknown-variant there is no scheduler",
    "which run options a scheduler has": r"unknown-option|wrong-type option `",
    "which resources have names": "unknown-variant there is no named resource",
    "which folders there are": "invalid-value the workspace",
    "null takes away only what `defaults` or the job has": r"wrong-type .* has no value|"
    r"unknown-field there is no .* here to remove",
    "what `defaults` does not give must be in the role": r"missing-field role `.*` has no `entrypoint`",
    "what a target takes away must not be needed": r"missing-field the job has no `roles`",
    "what may not be empty": r"[a-z-]+ .*( is empty| has no values|, not a mapping$)",
    "which type a variable has whose default a target changes": "wrong-type `default` of variable",
    "what may not stand twice": "duplicate-key",
    "how fields must agree": "constraint",
    "how many jobs a matrix makes": r"too-large|out-of-range axis|wrong-type `range` takes",
}
"""What a schema of plain keywords cannot say: the rule, and its diagnostics as `code message`."""

THROUGH_VARIABLES = r"out-of-range|unknown-variant .* cannot be"
"""What is found where a variable is used, when its default was changed."""


pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]  # a fixture judges thousands of files twice


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Mutation, bool, list[str]]]:
    """For each mutation: whether the schema takes it, and what the models find, as `code message`."""
    folder = tmp_path_factory.mktemp("mutations")
    validator = Draft202012Validator(job_schema())
    return [
        (mutation, validator.is_valid(mutation.value), _found(folder, mutation.value))
        for good in _good()
        for mutation in islice(mutations(good), 2, None, 3)  # neighbours are alike
    ]


def _good() -> Iterator[Any]:
    for text in GOOD:
        yield parse_yaml(Source("f", "yaml", text)).value


def _found(folder: Path, value: Any) -> list[str]:
    errors = compile_text(folder, json.dumps(value)).errors  # JSON is YAML
    return [f"{error.code} {error.message}" for error in errors]


def _rules(mutation: Mutation, found: str) -> set[str]:
    """The rules beyond the schema that a diagnostic may come from."""
    rules = {why for why, pattern in BEYOND.items() if re.match(pattern, found)}
    if mutation.path[0] == "vars" and re.match(THROUGH_VARIABLES, found):
        rules.add("what variables stand for")
    return rules


def test_one_verdict_but_for_the_rules_beyond_the_schema(verdicts):
    assert len(verdicts) > 1500
    unexplained = [
        (mutation.path, mutation.what, valid, found)
        for mutation, valid, found in verdicts
        if (valid and not all(_rules(mutation, line) for line in found)) or (not valid and not found)
    ]
    assert not unexplained, "\n".join(map(str, unexplained))


def test_every_rule_in_the_lists_is_one(verdicts: list[tuple[Mutation, bool, list[str]]]) -> None:
    beyond = {
        rule
        for mutation, valid, found in verdicts
        if valid
        for line in found
        for rule in _rules(mutation, line)
    }
    assert beyond == {*BEYOND, "what variables stand for"}


def test_both_kinds_of_verdict_are_common(verdicts: list[tuple[Mutation, bool, list[str]]]) -> None:
    """Otherwise agreement would mean little."""
    assert sum(1 for _, valid, found in verdicts if valid and not found) > 250
    assert sum(1 for _, valid, found in verdicts if not valid and found) > 600
