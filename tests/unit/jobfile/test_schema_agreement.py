"""Models and schema judge thousands of changed files alike, except for the rules that are listed here.

The schema reads one file, and accepts a file that a layer below may complete: files are judged alone, in a
project whose launcher.toml has all that they have, and as parts over a parent.
"""

import json
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from launcher.jobfile import job_schema
from launcher.jobfile.schema.options import SchedulerSchema
from launcher.jobfile.text.document import Source
from launcher.jobfile.text.yaml import parse_yaml
from launcher.specs.projectfile import DEFAULTS
from tests.unit.jobfile.mutations import Mutation, at, mutations, paths
from tests.unit.jobfile.test_compile import FULL
from tests.unit.jobfile.words import HEAD, SCHEDULERS, compile_text, git


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
    "which variables and axes there are": r"unknown-(reference|variable)|"
    r"unknown-field the matrix has no axis",
    "where references may stand": "reference-phase",
    "which schedulers there are": r"unknown-variant there is no scheduler",
    "which resources have names": "unknown-variant there is no named resource",
    "which folders there are": "invalid-value the workspace",
    "null takes away only what `defaults` or the job has": r"wrong-type .* has no value|"
    r"unknown-field there is no .* here to remove",
    "what the layers below have of a value": r"missing-field .* has no `(secret|type)`|"
    r"wrong-type .* must be a mapping, not nothing",
    "what `defaults` does not give must be in the role": r"missing-field role `.*` has no `entrypoint`",
    "what a target takes away must not be needed": r"missing-field the job has no `roles`",
    "what may not be empty": r"[a-z-]+ .*( is empty| has no values|, not a mapping$)",
    "which type a variable has whose default a target changes": "wrong-type `default` of variable",
    "what may not stand twice": "duplicate-key",
    "how fields must agree": "constraint",
    "how many jobs a matrix makes": r"too-large|out-of-range axis|wrong-type `range` takes",
}
"""Rules that a schema of plain keywords cannot express, with their diagnostics as `code message`."""

THROUGH_VARIABLES = r"out-of-range|unknown-variant .* cannot be"
"""The diagnostics where a variable is used, after its default was changed."""


VARIABLES: tuple[Any, ...] = (1, "text", True)
"""Defaults of the variable in launcher.toml that mutations refer to: one of them fits nearly everywhere."""

LAYERS = [
    *GOOD,
    HEAD + "component: dist.ddp\nargs: {script: a.py, j: 1x2, env: {A: 1}}\n",
    role(
        "run: y, shell: bash, ready: {port: 1, every: 1s}, resource: {gpu: 1, devices: {a: 1}, tags: {t: 1}}"
    )
    + "workspace: {w: a}\nlifecycle: {queue: off}\nmax_parallel: 1\n"
    "vars: {s: {type: str, default: a, choices: [a, b], help: x}, f: {type: float, min: 1, max: 2}}\n"
    "targets: {dev: {vars: {s: {default: b}}, metadata: {a: c}, lifecycle: {on_failed: rerun}}}\n",
]

SCHEMAS = {name: SchedulerSchema("", make()) for name, make in SCHEDULERS.items()}
VALIDATOR = Draft202012Validator(job_schema(SCHEMAS))

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]  # a fixture judges thousands of files twice


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Mutation, bool, list[str]]]:
    """For each mutation: whether the schema takes it, and what the models find, as `code message`."""
    folder = tmp_path_factory.mktemp("mutations")
    return [
        (mutation, VALIDATOR.is_valid(mutation.value), _found(folder, mutation.value))
        for good in _values(GOOD)
        for mutation in _mutations(good)
    ]


def _mutations(good: Any) -> Iterator[Mutation]:
    return islice(mutations(good), 1, None, 3)  # neighbours are alike


def _values(texts: list[str]) -> Iterator[Any]:
    for text in texts:
        yield parse_yaml(Source("f", "yaml", text)).value


def _found(folder: Path, value: Any) -> list[str]:
    errors = compile_text(folder, json.dumps(value), placeholders=True).errors  # JSON is YAML
    return [f"{error.code} {error.message}" for error in errors]


def _write_project_of(folder: Path, good: Any, default: Any) -> None:
    """A launcher.toml with all that `good` has and launcher.toml can have, and a variable `nothing`."""
    roles = [good.get("defaults", {}).get("role", {}), *good["roles"].values()]
    role = {key: value for each in roles for key, value in each.items()}
    kind = {int: "int", str: "str", bool: "bool"}[type(default)]
    shared = {
        "vars": {**good.get("vars", {}), "nothing": {"type": kind, "default": default}},
        "defaults": {"role": role, **{key: good[key] for key in DEFAULTS if key in good}},
    }
    (folder / "launcher.toml").write_text("".join(f"{key} = {_toml(shared[key])}\n" for key in shared))


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        parts = (f"{json.dumps(key)} = {_toml(inner)}" for key, inner in value.items() if inner is not None)
        return f"{{{', '.join(parts)}}}"
    return f"[{', '.join(map(_toml, value))}]" if isinstance(value, list) else json.dumps(value)


def _rules(mutation: Mutation, found: str) -> set[str]:
    """Return the rules beyond the schema that a diagnostic may come from."""
    rules = {why for why, pattern in BEYOND.items() if re.match(pattern, found)}
    if mutation.path[0] == "vars" and re.match(THROUGH_VARIABLES, found):
        rules.add("what variables stand for")
    return rules


def test_models_and_schema_agree_but_for_the_rules_beyond_the_schema(verdicts):
    assert len(verdicts) > 1500
    unexplained = [
        (mutation.path, mutation.what, valid, found)
        for mutation, valid, found in verdicts
        if (valid and not all(_rules(mutation, line) for line in found)) or (not valid and not found)
    ]
    assert not unexplained, "\n".join(map(str, unexplained))


def test_every_listed_rule_beyond_the_schema_occurs(verdicts: list[tuple[Mutation, bool, list[str]]]) -> None:
    beyond = {
        rule
        for mutation, valid, found in verdicts
        if valid
        for line in found
        for rule in _rules(mutation, line)
    }
    assert beyond == {*BEYOND, "what variables stand for"}


def test_many_mutations_are_accepted_and_many_are_refused(verdicts):
    """Without many mutations of both kinds an agreement would mean little."""
    assert sum(1 for _, valid, found in verdicts if valid and not found) > 250
    assert sum(1 for _, valid, found in verdicts if not valid and found) > 600


def test_the_schema_accepts_few_wrong_files(verdicts, tmp_path):
    """Most of these would be right in another project: its launcher.toml has the variable, or the field."""
    alone = [mutation.value for mutation, valid, found in verdicts if valid and found]
    assert len(alone) <= len(verdicts) * 0.066
    for default in VARIABLES:
        for good in _values(GOOD):
            _write_project_of(tmp_path, good, default)
            changed = [mutation.value for mutation in _mutations(good)]
            alone = [value for value in alone if value not in changed or _found(tmp_path, value)]
    assert len(alone) <= len(verdicts) * 0.035


def test_the_schema_accepts_each_file_that_is_right_in_a_project(verdicts, tmp_path):
    judged = iter(verdicts)
    for good in _values(GOOD):
        _write_project_of(tmp_path, good, 1)
        for same, (mutation, valid, _) in zip(_mutations(good), judged, strict=False):
            assert same.value == mutation.value
            assert valid or _found(tmp_path, mutation.value), mutation


def test_the_schema_accepts_each_part_that_is_right_over_a_parent(tmp_path: Path) -> None:
    """The parts are each value of a file, `null` in its place, and an empty mapping."""
    git(tmp_path, "init", "-q")
    (tmp_path / "w").mkdir()
    for good in _values(LAYERS):
        parent = {key: value for key, value in good.items() if key != "name"} | {"abstract": True}
        (tmp_path / "base.launcher.yaml").write_text(json.dumps(parent))
        child = {"version": 1, "name": "job", "extends": "base.launcher.yaml"}
        for path in paths(good):
            if path[:1] in ((), ("version",), ("name",)) or not all(isinstance(key, str) for key in path):
                continue
            parts: tuple[Any, ...] = (at(good, path), None, {})
            for part in parts:
                for key in reversed(path):
                    part = {key: part}
                over = {**child, **part}
                assert VALIDATOR.is_valid(over) or _found(tmp_path, over), over
