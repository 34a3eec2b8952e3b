"""Sharing between job files: layers merge lowest first, and each value is placed where it is written."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from launcher.jobfile import Compiled, Environment, compile_files, render
from launcher.specs import Launch, digest, document
from tests.unit.jobfile.words import SCHEDULERS, git

Job = Mapping[str, Any]
ROLES: Job = {"main": {"entrypoint": "env"}}


def write(folder: Path, texts: str) -> None:
    """Write files: each begins with a line `== NAME`."""
    for part in texts.split("== ")[1:]:
        name, _, text = part.partition("\n")
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def compiled(folder: Path, *paths: str, **options: Any) -> Compiled:
    """Job files of a folder, or all of them."""
    components, reads = options.pop("components", None), options.pop("reads_environ", True)
    environment = Environment(
        schedulers=SCHEDULERS,
        cwd=str(folder),
        environ=options.pop("environ", {}),
        components=components,
        reads_environ=reads,
    )
    return compile_files(list(paths) or ["."], environment=environment, **options)


def launches(folder: Path, *paths: str, **options: Any) -> dict[str, Launch]:
    """The launches of files that must be right, by job."""
    result = compiled(folder, *paths, **options)
    assert result.diagnostics == (), render(result.diagnostics)
    return {launch.key.job: launch for launch in result.launches}


def places(result: Compiled) -> list[str]:
    """`FILE:LINE:COLUMN CODE` for each diagnostic."""
    return [
        f"{found.file.removeprefix('./')}:{found.span.line}:{found.span.column} {found.code}"
        if found.span
        else f"{found.file.removeprefix('./')} {found.code}"
        for found in result.diagnostics
    ]


# Values: the same mappings as YAML and as TOML

FORMATS = [("yaml", "yaml"), ("toml", "toml"), ("yaml", "toml"), ("toml", "yaml")]
"""Of the parents, of the file."""


def in_format(value: Job, kind: str) -> str:
    """A job file as text."""
    if kind == "yaml":
        return json.dumps(value)
    return "".join(f"{json.dumps(key)} = {_toml(inner)}\n" for key, inner in value.items())


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {_toml(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(value)


def lay(folder: Path, layers: Sequence[Job], project: Job | None, kinds: tuple[str, str]) -> None:
    """Write a launcher.toml, parents, the uppermost first, and the job file that stands on them."""
    if project is not None:
        (folder / "launcher.toml").write_text(in_format(project, "toml"))
    above: Job = {}
    for number, layer in enumerate(layers):
        is_last = number == len(layers) - 1
        kind = kinds[1] if is_last else kinds[0]
        own: Job = {"name": "job"} if is_last else {"abstract": True}
        name = f"{'job' if is_last else f'parent-{number}'}.launcher.{kind}"
        (folder / name).write_text(in_format({"version": 1, **own, **above, **layer}, kind))
        above = {"extends": name}


class Case(NamedTuple):
    """Layers, the uppermost parent first and the file last; what the document then holds."""

    layers: Sequence[Job]
    expected: Job
    project: Job | None = None
    target: str | None = None


MERGED: dict[str, Case] = {
    "a field of launcher.toml": Case(
        [{"roles": {"main": {"entrypoint": "env"}}}],
        {"timeout_s": 3600},
        project={"defaults": {"timeout": "1h"}},
    ),
    "the file over launcher.toml": Case(
        [{"roles": {"main": {"entrypoint": "env"}}, "timeout": "2h"}],
        {"timeout_s": 7200},
        project={"defaults": {"timeout": "1h"}},
    ),
    "parents over launcher.toml": Case(
        [{"timeout": "3h"}, {"roles": {"main": {"entrypoint": "env"}}}],
        {"timeout_s": 10800},
        project={"defaults": {"timeout": "1h"}},
    ),
    "the nearest parent over the uppermost": Case(
        [{"timeout": "1h"}, {"timeout": "2h"}, {"roles": {"main": {"entrypoint": "env"}}}],
        {"timeout_s": 7200},
    ),
    "maps merge by key over all layers": Case(
        [
            {"roles": {"main": {"env": {"A": "1", "B": "1"}}}},
            {"roles": {"main": {"env": {"B": "2", "C": "2"}}}},
            {"roles": {"main": {"entrypoint": "x", "env": {"C": "3"}}}},
        ],
        {"env": {"A": "1", "B": "2", "C": "3"}},
    ),
    "lists replace": Case(
        [{"roles": {"main": {"args": ["a", "b"]}}}, {"roles": {"main": {"entrypoint": "x", "args": ["c"]}}}],
        {"args": ["c"]},
    ),
    "a whole role of a parent": Case([{"roles": {"main": {"entrypoint": "env"}}}, {}], {"entrypoint": "env"}),
    "defaults of all layers, under each role": Case(
        [
            {"defaults": {"role": {"image": "b", "num_replicas": 2}}},
            {"defaults": {"role": {"image": "c"}}},
            {"roles": {"main": {"entrypoint": "x"}}},
        ],
        {"image": "c", "num_replicas": 2, "env": {"A": "1"}},
        project={"defaults": {"role": {"image": "a", "env": {"A": "1"}}}},
    ),
    "a role of the uppermost layer over defaults of the nearest": Case(
        [
            {"roles": {"main": {"image": "mine", "entrypoint": "x"}}},
            {"defaults": {"role": {"image": "theirs"}}},
        ],
        {"image": "mine"},
    ),
    "resources merge with defaults": Case(
        [{"roles": {"main": {"entrypoint": "x", "resource": {"cpu": 2}}}}],
        {"resource": {"cpu_millis": 2000, "memory_bytes": 1073741824}},
        project={"defaults": {"role": {"resource": {"cpu": 1, "memory": "1GiB"}}}},
    ),
    "a target of launcher.toml over the file": Case(
        [{"roles": {"main": {"entrypoint": "env"}}, "timeout": "2h", "targets": ["dev"]}],
        {"timeout_s": 300},
        project={"targets": {"dev": {"timeout": "5m"}}},
        target="dev",
    ),
    "a target's layers in their order": Case(
        [
            {"targets": {"dev": {"timeout": "6m"}}},
            {"roles": {"main": {"entrypoint": "env"}}, "targets": {"dev": {"timeout": "7m"}}},
        ],
        {"timeout_s": 420},
        project={"targets": {"dev": {"timeout": "5m"}}},
        target="dev",
    ),
    "a target of a parent, merged with that of launcher.toml": Case(
        [
            {"targets": {"dev": {"roles": {"main": {"env": {"B": "2"}}}}}},
            {"roles": {"main": {"entrypoint": "env"}}},
        ],
        {"env": {"A": "1", "B": "2"}},
        project={"targets": {"dev": {"roles": {"main": {"env": {"A": "1", "B": "1"}}}}}},
        target="dev",
    ),
    "defaults of a target over those of the file, under each role": Case(
        [
            {
                "roles": {"main": {"entrypoint": "env"}},
                "targets": ["dev"],
                "defaults": {"role": {"image": "a", "num_replicas": 3}},
            }
        ],
        {"image": "b", "num_replicas": 3},
        project={"targets": {"dev": {"defaults": {"role": {"image": "b"}}}}},
        target="dev",
    ),
    "a list of targets and an overlay of one": Case(
        [
            {"targets": ["dev"]},
            {"roles": {"main": {"entrypoint": "env"}}, "targets": {"dev": {"metadata": {"a": "b"}}}},
        ],
        {"timeout_s": 300},
        project={"targets": {"dev": {"timeout": "5m"}}},
        target="dev",
    ),
    "a scheduler of launcher.toml": Case(
        [{"roles": {"main": {"entrypoint": "env"}}}],
        {"scheduler": "local_dir"},
        project={"defaults": {"scheduler": "local_dir"}},
    ),
    "another scheduler drops the options of a parent": Case(
        [{"cfg": {"grace_s": 3}}, {"roles": {"main": {"entrypoint": "env"}}, "scheduler": "local_dir"}],
        {"scheduler": "local_dir", "cfg": None},
    ),
    "the same scheduler keeps them": Case(
        [
            {"scheduler": "local_dir", "cfg": {"grace_s": 3}},
            {"roles": {"main": {"entrypoint": "env"}}, "scheduler": "local_dir"},
        ],
        {"cfg": {"grace_s": 3}},
    ),
    "a target's scheduler in launcher.toml drops the file's options": Case(
        [{"roles": {"main": {"entrypoint": "env"}}, "cfg": {"grace_s": 3}, "targets": ["dev"]}],
        {"scheduler": "local_dir", "cfg": {"log_dir": "l"}},
        project={"targets": {"dev": {"scheduler": "local_dir", "cfg": {"log_dir": "l"}}}},
        target="dev",
    ),
    "a target's other scheduler drops the options of the target in lower layers": Case(
        [
            {"targets": {"dev": {"scheduler": "local_dir", "cfg": {"grace_s": 3}}}},
            {
                "roles": {"main": {"entrypoint": "env"}},
                "targets": {"dev": {"scheduler": "queue", "cfg": {"partition": "p"}}},
            },
        ],
        {"scheduler": "queue", "cfg": {"partition": "p"}},
        target="dev",
    ),
    "options of a target without a scheduler stay with that of the layer below": Case(
        [
            {"targets": {"dev": {"scheduler": "queue", "cfg": {"partition": "p"}}}},
            {"roles": {"main": {"entrypoint": "env"}}, "targets": {"dev": {"cfg": {"partition": "q"}}}},
        ],
        {"scheduler": "queue", "cfg": {"partition": "q"}},
        target="dev",
    ),
    "`run` displaces entrypoint and args": Case(
        [{"roles": {"main": {"entrypoint": "x", "args": ["a"]}}}, {"roles": {"main": {"run": "true"}}}],
        {"entrypoint": "sh", "args": ["-euc", "true"]},
    ),
    "`entrypoint` displaces run and its shell": Case(
        [{"roles": {"main": {"run": "true", "shell": "bash"}}}, {"roles": {"main": {"entrypoint": "x"}}}],
        {"entrypoint": "x", "args": None},
    ),
    "`run` of a role displaces the entrypoint of defaults": Case(
        [{"roles": {"main": {"run": "true"}}}],
        {"entrypoint": "sh", "args": ["-euc", "true"]},
        project={"defaults": {"role": {"entrypoint": "python", "args": ["-V"]}}},
    ),
    "`entrypoint` of a role displaces the `run` of defaults": Case(
        [
            {"defaults": {"role": {"run": "true", "shell": "bash"}}},
            {"roles": {"main": {"entrypoint": "x", "args": ["y"]}}},
        ],
        {"entrypoint": "x", "args": ["y"]},
    ),
    "`run` of a target displaces the entrypoint of the file": Case(
        [
            {
                "roles": {"main": {"entrypoint": "x", "args": ["a"]}},
                "targets": {"dev": {"roles": {"main": {"run": "true"}}}},
            }
        ],
        {"entrypoint": "sh", "args": ["-euc", "true"]},
        target="dev",
    ),
    "`memMB` displaces memory": Case(
        [
            {"roles": {"main": {"entrypoint": "x", "resource": {"memory": "1GiB"}}}},
            {"roles": {"main": {"resource": {"memMB": 5}}}},
        ],
        {"resource": {"memory_bytes": 5242880}},
    ),
    "`memory` of a role displaces the memMB of defaults": Case(
        [
            {"defaults": {"role": {"resource": {"memMB": 5, "cpu": 1}}}},
            {"roles": {"main": {"entrypoint": "x", "resource": {"memory": "1GiB"}}}},
        ],
        {"resource": {"cpu_millis": 1000, "memory_bytes": 1073741824}},
    ),
    "`memMB` of a target displaces memory": Case(
        [
            {
                "roles": {"main": {"entrypoint": "x", "resource": {"memory": "1GiB"}}},
                "targets": {"dev": {"roles": {"main": {"resource": {"memMB": 5}}}}},
            }
        ],
        {"resource": {"memory_bytes": 5242880}},
        target="dev",
    ),
    "a component displaces roles and defaults": Case(
        [
            {"roles": {"main": {"entrypoint": "x"}}, "defaults": {"role": {"image": "i"}}},
            {"component": "utils.echo", "args": {"msg": "hello"}},
        ],
        {"name": "echo", "args": ["hello"]},
    ),
    "roles displace a component and its arguments": Case(
        [{"component": "utils.echo", "args": {"msg": "hello"}}, {"roles": {"main": {"entrypoint": "env"}}}],
        {"entrypoint": "env", "args": None},
    ),
    "`remove` of a field of launcher.toml": Case(
        [{"roles": {"main": {"entrypoint": "env"}}, "remove": ["timeout"]}],
        {"timeout_s": None},
        project={"defaults": {"timeout": "1h"}},
    ),
    "`remove` of a variable of a role": Case(
        [
            {"roles": {"main": {"entrypoint": "x", "env": {"A": "1", "B": "2"}}}},
            {"remove": ["roles.main.env.A"]},
        ],
        {"env": {"B": "2"}},
    ),
    "`remove` of what defaults fill in": Case(
        [
            {"defaults": {"role": {"env": {"A": "1", "B": "2"}}}},
            {"roles": {"main": {"entrypoint": "env"}}, "remove": ["defaults.role.env.A"]},
        ],
        {"env": {"B": "2"}},
    ),
    "`remove` in a role's name of what defaults fill in": Case(
        [
            {"defaults": {"role": {"env": {"A": "1", "B": "2"}}}},
            {"roles": {"main": {"entrypoint": "env"}}, "remove": ["roles.main.env.A"]},
        ],
        {"env": {"B": "2"}},
    ),
    "`remove` of an option": Case(
        [
            {"cfg": {"grace_s": 3, "log_dir": "l"}},
            {"roles": {"main": {"entrypoint": "env"}}, "remove": ["cfg.grace_s"]},
        ],
        {"cfg": {"log_dir": "l"}},
    ),
    "`remove` in a target": Case(
        [
            {
                "roles": {"main": {"entrypoint": "env"}},
                "timeout": "1h",
                "targets": {"dev": {"remove": ["timeout"]}},
            }
        ],
        {"timeout_s": None},
        target="dev",
    ),
    "`remove` in a parent, and a value in the file": Case(
        [
            {"timeout": "1h"},
            {"remove": ["timeout"]},
            {"roles": {"main": {"entrypoint": "env"}}, "timeout": "2h"},
        ],
        {"timeout_s": 7200},
    ),
    "`remove` of a target's field that launcher.toml gives": Case(
        [{"roles": {"main": {"entrypoint": "env"}}, "targets": ["dev"], "remove": ["targets.dev.timeout"]}],
        {"timeout_s": None, "scheduler": "local_dir"},
        project={"targets": {"dev": {"timeout": "5m", "scheduler": "local_dir"}}},
        target="dev",
    ),
    "`remove` of a key with a dot": Case(
        [
            {"roles": {"main": {"entrypoint": "x", "metadata": {"a.b": "1", "c": "2"}}}},
            {"remove": ['roles.main.metadata."a.b"']},
        ],
        {"metadata": {"c": "2"}},
    ),
    "a variable of launcher.toml": Case(
        [{"roles": {"main": {"entrypoint": "x", "args": ["$<var.v>"]}}}],
        {"args": ["here"]},
        project={"vars": {"v": {"type": "str", "default": "here"}}},
    ),
    "a default of the file for a variable of launcher.toml": Case(
        [{"roles": {"main": {"entrypoint": "x", "args": ["$<var.v>"]}}, "vars": {"v": {"default": "mine"}}}],
        {"args": ["mine"]},
        project={"vars": {"v": {"type": "str", "default": "here"}}},
    ),
    "a default of a target of launcher.toml for its variable": Case(
        [{"roles": {"main": {"entrypoint": "x", "args": ["$<var.v>"]}}, "targets": ["dev"]}],
        {"args": ["2"]},
        project={
            "vars": {"v": {"type": "int", "default": 1}},
            "targets": {"dev": {"vars": {"v": {"default": 2}}}},
        },
        target="dev",
    ),
    "a variable of launcher.toml in its own defaults": Case(
        [{"roles": {"main": {"entrypoint": "env"}}}],
        {"env": {"A": "here"}},
        project={
            "vars": {"v": {"type": "str", "default": "here"}},
            "defaults": {"role": {"env": {"A": "$<var.v>"}}},
        },
    ),
    "a variable of a parent in a variable's place of the file": Case(
        [
            {"vars": {"v": {"type": "int", "default": 2}}},
            {"roles": {"main": {"entrypoint": "x", "num_replicas": "$<var.v>"}}},
        ],
        {"num_replicas": 2},
    ),
}


def flat(launch: Launch) -> Job:
    """The document of a launch; the fields of its only role beside those of the job."""
    made = document(launch)
    (only,) = made.pop("roles")
    return {**made, **only}


@pytest.mark.parametrize("kinds", FORMATS, ids="-".join)
@pytest.mark.parametrize("case", MERGED)
def test_layers_merge_lowest_first(repository: Path, case: str, kinds: tuple[str, str]) -> None:
    layers, expected, project, target = MERGED[case]
    lay(repository, layers, project, kinds)
    made = flat(launches(repository, target=target)["job"])
    assert {key: made.get(key) for key in expected} == expected


NUMBERS = """\
== base.launcher.yaml
version: 1
abstract: true
defaults: {role: {env: {V: 3.10, T: yes, H: 0x1F, N: 1e3}}}
== base.launcher.toml
version = 1
abstract = true
defaults.role.env = {V = 3.10, T = true, H = 0x1F, N = 1e3}
== a/job.launcher.toml
version = 1
name = "of-yaml"
extends = "../base.launcher.yaml"
roles.main = {entrypoint = "x", args = [2.50, true], env = {OWN = 1_000}}
== b/job.launcher.yaml
version: 1
name: of-toml
extends: ../base.launcher.toml
roles: {main: {entrypoint: x, args: [2.50, true], env: {OWN: 1.0}}}
"""


def test_numbers_of_every_layer_are_taken_as_written_there(repository: Path) -> None:
    write(repository, NUMBERS)
    made = launches(repository)
    env = made["of-yaml"].app.roles[0].env
    assert env == {"V": "3.10", "T": "yes", "H": "0x1F", "N": "1e3", "OWN": "1_000"}
    assert made["of-toml"].app.roles[0].env == {
        "V": "3.10",
        "T": "true",
        "H": "0x1F",
        "N": "1e3",
        "OWN": "1.0",
    }
    assert [each.app.roles[0].args for each in made.values()] == [["2.50", "true"]] * 2


def test_null_may_stand_in_a_file_with_layers_below(repository: Path) -> None:
    text = "== base.launcher.toml\nversion = 1\nabstract = true\ntimeout = '1h'\n"
    text += "== job.launcher.yaml\nversion: 1\nname: job\nextends: base.launcher.toml\ntimeout: null\n"
    write(repository, text + "roles: {main: {entrypoint: x}}\n")
    assert launches(repository)["job"].timeout_s is None


RELATIVE = """\
== shared/base.launcher.yaml
version: 1
abstract: true
inputs: [data.csv]
workspace: code
roles:
  main:
    entrypoint: $<job.dir>/run
    mounts: ["type=bind,src=./data,dst=/data"]
== jobs/deep/job.launcher.toml
version = 1
name = "job"
extends = "../../shared/base.launcher.yaml"
== jobs/deep/data.csv
1
== jobs/deep/code/main.py
pass
== jobs/deep/whole.launcher.yaml
version: 1
name: whole
inputs: [data.csv]
workspace: code
roles: {main: {entrypoint: $<job.dir>/run, mounts: ["type=bind,src=./data,dst=/data"]}}
"""


def test_paths_and_the_origin_are_those_of_the_job_file(repository: Path) -> None:
    write(repository, RELATIVE)
    made = launches(repository)
    launch, whole = made["job"], made["whole"]
    assert launch.file == "jobs/deep/job.launcher.toml"
    assert digest(document(launch)) == digest(document(whole))
    assert (launch.directory, launch.inputs_digest) == (whole.directory, whole.inputs_digest)


# Where a value is from

TRACED = """\
== launcher.toml
[defaults]
timeout = "1h"
[defaults.role]
image = "a"
[targets.dev]
description = "x"
metadata = {of = "project"}
== root.launcher.toml
version = 1
abstract = true
[roles.main]
entrypoint = "x"
num_replicas = 2
== base.launcher.yaml
version: 1
abstract: true
extends: root.launcher.toml

roles:
  main:
    max_retries: 3
targets:
  dev:
    enabled: false
== job.launcher.toml
version = 1
name = "job"
extends = "base.launcher.yaml"
targets = ["dev"]
[roles.main.env]
A = 1
"""


@pytest.mark.parametrize(
    ("path", "place"),
    [
        (("name",), "job.launcher.toml:2"),
        (("roles", "main", "env", "A"), "job.launcher.toml:6"),
        (("roles", "main", "max_retries"), "base.launcher.yaml:7"),
        (("roles", "main", "entrypoint"), "root.launcher.toml:4"),
        (("roles", "main", "num_replicas"), "root.launcher.toml:5"),
        (("roles", "main", "image"), "launcher.toml:4"),
        (("timeout",), "launcher.toml:2"),
        (("enabled",), "base.launcher.yaml:10"),
        (("metadata", "of"), "launcher.toml:7"),
    ],
)
def test_each_value_has_its_file_and_line(repository: Path, path: tuple[str, ...], place: str) -> None:
    write(repository, TRACED)
    result = compiled(repository, target="dev")
    assert result.diagnostics == (), render(result.diagnostics)
    origin = result.traces[result.launches[0].key].origin(path)
    assert f"{origin.file.removeprefix('./')}:{origin.line}" == place


# What is wrong is shown where it is written

JOB = "== job.launcher.yaml\nversion: 1\nname: job\n"
ROLE = "roles: {main: {entrypoint: x}}\n"
CHILD = f"{JOB}extends: base.launcher.yaml\n{ROLE}"
CHILD_OF_TOML = CHILD.replace("base.launcher.yaml", "base.launcher.toml")
BASE = "== base.launcher.yaml\nversion: 1\nabstract: true\n"
BASE_TOML = "== base.launcher.toml\nversion = 1\nabstract = true\n"
JOBS = "== jobs.launcher.yaml\nversion: 1\n"
TWO = "jobs:\n  a: {roles: {main: {entrypoint: x}}}\n  b: {roles: {main: {entrypoint: x}}}\n"

WRONG: dict[str, tuple[str, list[str]]] = {
    # Positions in parents and launcher.toml
    "a field of a YAML parent": (f"{BASE}timeot: 1h\n{CHILD}", ["base.launcher.yaml:3:1 unknown-field"]),
    "a field of a TOML parent": (
        f"{BASE_TOML}\ntimeot = '1h'\n{CHILD_OF_TOML}",
        ["base.launcher.toml:4:1 unknown-field"],
    ),
    "a deep value of a TOML parent": (
        f"{BASE_TOML}[defaults.role]\nnum_replicas = 0\n{CHILD_OF_TOML}",
        ["base.launcher.toml:4:16 out-of-range"],
    ),
    "a deep value of a YAML parent below a TOML file": (
        f"{BASE}roles:\n  main:\n    max_retries: -1\n"
        "== job.launcher.toml\nversion = 1\nname = 'job'\nextends = 'base.launcher.yaml'\n"
        "roles.main.entrypoint = 'x'\n",
        ["base.launcher.yaml:5:18 out-of-range"],
    ),
    "a reference in a parent": (
        f"{BASE}defaults: {{role: {{env: {{A: $<var.x>}}}}}}\n{CHILD}",
        ["base.launcher.yaml:3:28 unknown-reference"],
    ),
    "the text of a parent": (f"{BASE}timeout: [\n{CHILD}", ["base.launcher.yaml:3:11 yaml-syntax"]),
    "the text of a TOML parent": (
        f"{BASE_TOML}timeout = \n{CHILD_OF_TOML}",
        ["base.launcher.toml:3:11 toml-syntax"],
    ),
    "a field in defaults of launcher.toml": (
        f"== launcher.toml\n[defaults]\ntimeot = '1h'\n{JOB}{ROLE}",
        ["launcher.toml:2:1 unknown-field"],
    ),
    "a field of the role in defaults of launcher.toml": (
        f"== launcher.toml\n[defaults.role]\nimagee = 'i'\n{JOB}{ROLE}",
        ["launcher.toml:2:1 unknown-field"],
    ),
    "a value in defaults of launcher.toml": (
        f"== launcher.toml\n[defaults]\ntimeout = true\n{JOB}{ROLE}",
        ["launcher.toml:2:11 wrong-type"],
    ),
    "a field of a target of launcher.toml that is named": (
        f"== launcher.toml\n[targets.dev]\ntimeot = '1h'\n{JOB}{ROLE}targets: [dev]\n",
        ["launcher.toml:2:1 unknown-field"],
    ),
    "an option of a target of launcher.toml that is named": (
        f"== launcher.toml\n[targets.dev.cfg]\ngrace = 1\n{JOB}{ROLE}targets: [dev]\n",
        ["launcher.toml:2:1 unknown-option"],
    ),
    "a mistake of a parent with two children, once": (
        f"{BASE}timeot: 1h\n{CHILD}{CHILD.replace('job', 'other')}",
        ["base.launcher.yaml:3:1 unknown-field"],
    ),
    "a mistake of launcher.toml under two files, once": (
        f"== launcher.toml\n[defaults.role]\nnum_replicas = 0\n{JOB}{ROLE}"
        f"{JOB.replace('job', 'other')}{ROLE}",
        ["launcher.toml:2:16 out-of-range"],
    ),
    "mistakes of parent and file": (
        f"{BASE}timeot: 1h\n{CHILD}enabled: 3\n",
        ["base.launcher.yaml:3:1 unknown-field", "job.launcher.yaml:5:10 wrong-type"],
    ),
    "a variable of launcher.toml of no type": (
        f"== launcher.toml\n[vars.v]\ntype = 'text'\n{JOB}roles: {{main: {{entrypoint: $<var.v>}}}}\n",
        ["launcher.toml:2:8 unknown-variant"],
    ),
    # extends
    "a file that is not there": (CHILD, ["job.launcher.yaml:3:10 invalid-value"]),
    "a file that extends itself": (
        f"{JOB}extends: job.launcher.yaml\n{ROLE}",
        ["job.launcher.yaml:3:10 constraint"],
    ),
    "an absolute path": (
        f"{JOB}extends: /etc/x.launcher.yaml\n{ROLE}",
        ["job.launcher.yaml:3:10 invalid-value"],
    ),
    "a path out of the repository": (
        f"{JOB}extends: ../x.launcher.yaml\n{ROLE}",
        ["job.launcher.yaml:3:10 invalid-value"],
    ),
    "another suffix": (
        f"{JOB}extends: base.yaml\n{ROLE}== base.yaml\nversion: 1\nabstract: true\n",
        ["job.launcher.yaml:3:10 invalid-value"],
    ),
    "a list of parents": (
        f"{JOB}extends: [base.launcher.yaml]\n{ROLE}",
        ["job.launcher.yaml:3:10 wrong-type"],
    ),
    "a reference in the path": (
        f"{JOB}vars: {{v: {{type: str, default: a}}}}\nextends: $<var.v>.launcher.yaml\n{ROLE}",
        ["job.launcher.yaml:4:10 reference-phase"],
    ),
    "a folder": (
        f"{JOB}extends: base.launcher.yaml\n{ROLE}== base.launcher.yaml/x\n",
        ["job.launcher.yaml:3:10 invalid-value"],
    ),
    "a parent with several jobs": (
        f"{JOBS}{TWO}{JOB}extends: jobs.launcher.yaml\n{ROLE}",
        ["job.launcher.yaml:3:10 invalid-value"],
    ),
    # abstract
    "a name in an abstract file": (
        f"{BASE}name: base\n{CHILD}",
        ["base.launcher.yaml:3:1 conflicting-fields"],
    ),
    "jobs in an abstract file": (f"{BASE}{TWO}", ["base.launcher.yaml:3:1 conflicting-fields"]),
    "abstract as text": (
        f"== job.launcher.yaml\nversion: 1\nname: job\nabstract: 'on'\n{ROLE}",
        ["job.launcher.yaml:3:11 wrong-type"],
    ),
    "no name": (
        f"{BASE}timeout: 1h\n== job.launcher.yaml\nversion: 1\nextends: base.launcher.yaml\n{ROLE}",
        ["job.launcher.yaml:1:1 missing-field"],
    ),
    "the name of a parent that is a job is its own": (
        f"{JOB}{ROLE}== other.launcher.yaml\nversion: 1\nextends: job.launcher.yaml\n",
        ["other.launcher.yaml:1:1 missing-field"],
    ),
    "an abstract file that no other extends": (
        f"{BASE}timeot: 1h\n{JOB}{ROLE}",
        ["base.launcher.yaml:3:1 unknown-field"],
    ),
    # remove
    "a field to remove that is not there": (
        f"{BASE}timeout: 1h\n{CHILD}remove: [roles.main.env.A]\n",
        ["job.launcher.yaml:5:10 unknown-field"],
    ),
    "a removal that launcher.toml cannot satisfy": (
        f"== launcher.toml\n[defaults]\ntimeout = '1h'\n{JOB}{ROLE}remove: [timeout, metadata.a]\n",
        ["job.launcher.yaml:4:19 unknown-field"],
    ),
    "a field removed and set": (
        f"{BASE}timeout: 1h\n{CHILD}remove: [timeout]\ntimeout: 2h\n",
        ["job.launcher.yaml:5:10 conflicting-fields"],
    ),
    "a text to remove": (
        f"{BASE}timeout: 1h\n{CHILD}remove: timeout\n",
        ["job.launcher.yaml:5:1 wrong-type"],
    ),
    "a number to remove": (
        f"{BASE}timeout: 1h\n{CHILD}remove: [1]\n",
        ["job.launcher.yaml:5:10 invalid-value"],
    ),
    "the name to remove": (
        f"{BASE}timeout: 1h\n{CHILD}remove: [name]\n",
        ["job.launcher.yaml:5:10 invalid-value"],
    ),
    "a removal from a target that no layer names": (
        f"== launcher.toml\n[targets.dev]\ntimeout = '1m'\n{JOB}{ROLE}remove: [targets.dev.timeout]\n",
        ["job.launcher.yaml:4:10 unknown-field"],
    ),
    "a removal of a target that finds nothing": (
        f"{JOB}{ROLE}targets:\n  dev:\n    remove: [timeout]\n",
        ["job.launcher.yaml:6:14 unknown-field"],
    ),
    "a removal of a target, of a role that there is not": (
        f"{JOB}{ROLE}targets: {{dev: {{remove: [roles.mian.env.A]}}}}\n",
        ["job.launcher.yaml:4:26 unknown-field"],
    ),
    "a removal in a parent that no layer below it satisfies": (
        f"{BASE}remove: [timeout]\n{CHILD}timeout: 1h\n",
        ["base.launcher.yaml:3:10 unknown-field"],
    ),
    # jobs
    **{
        f"`{field}` beside jobs": (
            f"{JOBS}{field}: {value}\n{TWO}",
            ["jobs.launcher.yaml:2:1 conflicting-fields"],
        )
        for field, value in {
            "name": "job",
            "roles": "{main: {entrypoint: x}}",
            "component": "utils.echo",
            "matrix": "{a: [1]}",
            "needs": "[x]",
        }.items()
    },
    "no jobs": (f"{JOBS}jobs: {{}}\n", ["jobs.launcher.yaml:2:1 missing-field"]),
    "a list of jobs": (f"{JOBS}jobs: [a]\n", ["jobs.launcher.yaml:2:1 wrong-type"]),
    "a job of no fields": (f"{JOBS}jobs: {{a: 1}}\n", ["jobs.launcher.yaml:2:11 wrong-type"]),
    "a job's name that is none": (
        f"{JOBS}jobs: {{A_B: {{{ROLE.strip()}}}}}\n",
        ["jobs.launcher.yaml:2:8 invalid-name"],
    ),
    "the version in a job": (
        f"{JOBS}jobs: {{a: {{version: 1, {ROLE.strip()}}}}}\n",
        ["jobs.launcher.yaml:2:12 unknown-field"],
    ),
    "a name in a job": (
        f"{JOBS}jobs: {{a: {{name: b, {ROLE.strip()}}}}}\n",
        ["jobs.launcher.yaml:2:12 unknown-field"],
    ),
    "a name twice in jobs": (
        f"{JOBS}jobs:\n  a: {{{ROLE.strip()}}}\n  a: {{{ROLE.strip()}}}\n",
        ["jobs.launcher.yaml:4:3 duplicate-key"],
    ),
    "mistakes of two jobs": (
        f"{JOBS}jobs:\n  a: {{timeot: 1, {ROLE.strip()}}}\n  b:\n    {ROLE.strip()}\n    enabled: 3\n",
        ["jobs.launcher.yaml:3:7 unknown-field", "jobs.launcher.yaml:6:14 wrong-type"],
    ),
    "a mistake beside two jobs, once": (
        f"{JOBS}timeout: x\n{TWO}",
        ["jobs.launcher.yaml:2:10 invalid-value"],
    ),
    "a job of another file": (
        f"{JOBS}{TWO}{JOB.replace('name: job', 'name: a')}{ROLE}",
        ["jobs.launcher.yaml:3:3 duplicate-job"],
    ),
    # targets
    "a target that no layer has": (f"{JOB}{ROLE}targets: [dev]\n", ["job.launcher.yaml:4:11 unknown-target"]),
    "a target of TOML that no layer has": (
        "== launcher.toml\n[targets.dev]\ntimeout = '1m'\n"
        "== job.launcher.toml\nversion = 1\nname = 'job'\ntargets = ['dev', 'dve']\n"
        "roles.main.entrypoint = 'x'\n",
        ["job.launcher.toml:3:19 unknown-target"],
    ),
    # the tables of launcher.toml
    "vars that are no table": (f"== launcher.toml\nvars = 1\n{JOB}{ROLE}", ["launcher.toml:1:1 wrong-type"]),
    "targets that are no table": (
        f"== launcher.toml\ntargets = ['dev']\n{JOB}{ROLE}",
        ["launcher.toml:1:1 wrong-type"],
    ),
    "a field that only a job has": (
        f"== launcher.toml\n[defaults]\nname = 'job'\n{JOB}{ROLE}",
        ["launcher.toml:2:1 unknown-field"],
    ),
    "policies have a table of their own": (
        f"== launcher.toml\n[defaults.lifecycle]\non_failed = 'rerun'\n{JOB}{ROLE}",
        ["launcher.toml:1:11 unknown-field"],
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_said_once_where_it_is_written(repository: Path, case: str) -> None:
    texts, expected = WRONG[case]
    write(repository, texts)
    result = compiled(repository)
    assert places(result) == expected, render(result.diagnostics)


def test_a_circle_of_parents_ends_at_each_line_that_closes_it(repository: Path) -> None:
    circle = (
        f"{BASE}extends: other.launcher.yaml\n{BASE.replace('base', 'other')}extends: base.launcher.yaml\n"
    )
    write(repository, circle + CHILD)
    assert {place.rpartition(" ")[2] for place in places(compiled(repository, "job.launcher.yaml"))} == {
        "constraint"
    }
    assert compiled(repository).launches == ()


def test_a_shared_mistake_says_how_many_files_it_reaches(repository: Path) -> None:
    write(
        repository,
        f"{BASE}timeot: 1h\n{CHILD}{CHILD.replace('job', 'other')}{JOB.replace('job', 'good')}{ROLE}",
    )
    (found,) = compiled(repository).diagnostics
    assert re.search(r"\b2 (job )?files", found.message)


def test_a_parent_that_git_ignores_is_refused_and_not_shown(repository: Path) -> None:
    secret = "hunter2-do-not-show"
    write(repository, f"== .gitignore\nbase.launcher.yaml\n{BASE}metadata: {{password: {secret}}}\n{CHILD}")
    result = compiled(repository, "job.launcher.yaml")
    assert places(result) == ["job.launcher.yaml:3:10 invalid-value"]
    assert secret not in render(result.diagnostics)
    assert result.launches == ()


def test_a_parent_that_links_out_of_the_repository_is_refused(repository: Path, tmp_path_factory) -> None:
    outside = tmp_path_factory.mktemp("outside") / "secret.launcher.yaml"
    outside.write_text("version: 1\nabstract: true\nmetadata: {a: hunter2}\n")
    write(repository, CHILD)
    (repository / "base.launcher.yaml").symlink_to(outside)
    result = compiled(repository, "job.launcher.yaml")
    assert [place.partition(" ")[0] for place in places(result)] == ["job.launcher.yaml:3:10"]
    assert "hunter2" not in render(result.diagnostics)


def test_an_abstract_file_is_no_job(repository: Path) -> None:
    write(repository, f"{BASE}timeout: 1h\n{CHILD}")
    assert [*launches(repository)] == ["job"]
    alone = compiled(repository, "base.launcher.yaml")
    assert alone.errors
    assert alone.launches == ()
    assert compiled(repository, "base.launcher.yaml", placeholders=True).diagnostics == ()


def test_a_parent_may_lack_what_its_children_add(repository: Path) -> None:
    base = f"{BASE}inputs: [only/there.txt]\nworkspace: only\nneeds: [first]\n"
    base += "defaults: {role: {args: [$<var.of-the-child>, $<matrix.lr>]}}\n"
    child = "== jobs/job.launcher.yaml\nversion: 1\nname: job\nextends: ../base.launcher.yaml\n"
    child += f"vars: {{of-the-child: {{type: int, default: 1}}}}\nmatrix: {{lr: [1]}}\n{ROLE}"
    write(repository, f"{base}{child}== jobs/only/there.txt\n1\n{JOB.replace('job', 'first')}{ROLE}")
    assert [*launches(repository)] == ["first", "job-1"]


def test_a_job_may_be_a_parent_and_its_children_need_names_of_their_own(repository: Path) -> None:
    child = "== other.launcher.yaml\nversion: 1\nname: other\nextends: job.launcher.yaml\ntimeout: 1m\n"
    write(repository, f"{JOB}{ROLE}{child}")
    made = launches(repository)
    assert {name: launch.timeout_s for name, launch in made.items()} == {"job": None, "other": 60}


@pytest.mark.parametrize("where", ["base.launcher.yaml", "launcher.toml"])
def test_components_and_the_environment_may_be_refused_in_every_layer(repository: Path, where: str) -> None:
    if where == "launcher.toml":
        base = "== launcher.toml\n[vars.v]\ntype = 'str'\nfrom_env = 'V'\n"
        write(repository, f"{base}{JOB}roles: {{main: {{entrypoint: x, args: [$<var.v>]}}}}\n")
        refused = compiled(repository, reads_environ=False)
        assert places(refused) == ["launcher.toml:3:12 environment-refused"]
        return
    write(repository, f"{BASE}component: own.py:make\n{JOB}extends: base.launcher.yaml\n")
    refused = compiled(repository, components=False)
    assert places(refused) == ["base.launcher.yaml:3:12 component-refused"]


def test_a_component_of_a_parent_is_beside_the_job_file(repository: Path) -> None:
    own = "from launcher.specs import AppDef, Role\ndef make() -> AppDef:\n"
    own += "    return AppDef('a', [Role('main', image='', entrypoint='x')])\n"
    child = "version: 1\nname: job\nextends: ../base.launcher.yaml\n"
    write(
        repository, f"{BASE}component: own.py:make\n== jobs/job.launcher.yaml\n{child}== jobs/own.py\n{own}"
    )
    assert launches(repository, components=True)["job"].app.roles[0].entrypoint == "x"


# Several jobs in one file

SEVERAL = """\
== jobs.launcher.yaml
version: 1
project: lab
timeout: 1h
scheduler: local_dir
vars: {v: {type: int, default: 1}}
defaults: {role: {image: i, entrypoint: x}}
targets: {dev: {timeout: 1m}}
jobs:
  a: {roles: {main: {args: [$<var.v>, $<job.name>]}}, targets: {more: {}}}
  b:
    project: other
    timeout: 2h
    vars: {v: {default: 2}}
    needs: [c]
    roles: {main: {args: [$<var.v>]}}
  c: {project: other, matrix: {lr: [1, 2]}, roles: {main: {args: [$<matrix.lr>]}}}
"""


def test_what_stands_beside_jobs_lies_under_each(repository: Path) -> None:
    write(repository, SEVERAL)
    made = {str(launch.key): launch for launch in compiled(repository).launches}
    shown = {key: (flat(launch)["args"], launch.timeout_s, launch.scheduler) for key, launch in made.items()}
    assert list(shown.values()) == [
        (["1", "a"], 3600, "local_dir"),
        (["2"], 7200, "local_dir"),
        (["1"], 3600, "local_dir"),
        (["2"], 3600, "local_dir"),
    ]
    assert {launch.key.project for launch in made.values()} == {"lab", "other"}
    assert [need.job for launch in made.values() for need in launch.needs] == ["c-1", "c-2"]


def test_targets_of_one_job_are_none_of_the_others(repository: Path) -> None:
    write(repository, SEVERAL)
    assert [launch.timeout_s for launch in compiled(repository, target="dev").launches] == [60, 60, 60, 60]
    assert [launch.key.job for launch in compiled(repository, target="more").launches] == ["a"]


@pytest.mark.parametrize("kind", ["yaml", "toml"])
def test_a_job_has_the_digest_that_it_has_in_a_file_of_its_own(repository: Path, kind: str) -> None:
    job = {
        "timeout": "1h",
        "roles": {"main": {"entrypoint": "x", "env": {"A": "1"}, "args": ["$<job.name>"]}},
    }
    jobs = {"version": 1, "jobs": {"a": job, "b": {**job, "timeout": "2h"}}}
    (repository / f"jobs.launcher.{kind}").write_text(in_format(jobs, kind))
    several = launches(repository)
    (repository / f"jobs.launcher.{kind}").unlink()
    for name, fields in jobs["jobs"].items():
        text = in_format({"version": 1, "name": name, **fields}, kind)
        (repository / f"{name}.launcher.{kind}").write_text(text)
    apart = launches(repository)
    assert several.keys() == apart.keys()
    for name in apart:
        assert digest(document(several[name])) == digest(document(apart[name]))


def test_a_circle_of_two_jobs_leaves_the_third(repository: Path) -> None:
    role = ROLE.strip()
    text = f"{JOBS}jobs:\n  a: {{needs: [b], {role}}}\n  b: {{needs: [a], {role}}}\n  c: {{{role}}}\n"
    write(repository, text)
    result = compiled(repository)
    assert places(result) == ["jobs.launcher.yaml:3:15 needs-cycle"]
    assert [launch.key.job for launch in result.launches] == ["c"]


def test_a_twin_of_one_job_leaves_the_others(repository: Path) -> None:
    write(repository, f"{JOBS}{TWO}{JOB.replace('name: job', 'name: a')}{ROLE}")
    result = compiled(repository, "job.launcher.yaml", "jobs.launcher.yaml")
    assert places(result) == ["jobs.launcher.yaml:3:3 duplicate-job"]
    assert sorted(launch.key.job for launch in result.launches) == ["a", "b"]


def test_a_wrong_job_leaves_no_launch_of_the_file_unsaid(repository: Path) -> None:
    write(repository, f"{JOBS}jobs:\n  a: {{{ROLE.strip()}}}\n  b: {{timeot: 1, {ROLE.strip()}}}\n")
    result = compiled(repository)
    assert places(result) == ["jobs.launcher.yaml:4:7 unknown-field"]
    assert "b" not in {launch.key.job for launch in result.launches}


# The targets and variables of a project

PROJECT = """\
== launcher.toml
[vars]
unused = {type = "str"}
[targets.slurm]
scheduler = "queue"
cfg = {partition = "p"}
roles.trainer.num_replicas = 4
"""


def test_a_file_has_a_target_of_the_project_only_where_it_names_it(repository: Path) -> None:
    write(
        repository,
        f"{PROJECT}{JOB}{ROLE}{JOB.replace('job', 'other')}targets: {{slurm: {{}}}}\n"
        "roles: {trainer: {entrypoint: x}}\n",
    )
    assert [*launches(repository)] == ["job", "other"]
    asked = compiled(repository, target="slurm")
    assert asked.diagnostics == (), render(asked.diagnostics)
    assert [(each.key.job, each.scheduler) for each in asked.launches] == [("other", "queue")]
    assert [file.removeprefix("./") for file in asked.left_out] == ["job.launcher.yaml"]


def test_a_target_that_leaves_no_file_is_an_error(repository: Path) -> None:
    write(repository, f"{PROJECT}{JOB}{ROLE}")
    result = compiled(repository, target="slurm")
    assert [found.code for found in result.errors] == ["unknown-target"]
    assert result.launches == ()


def test_a_target_of_the_project_that_no_file_names_makes_none_wrong(repository: Path) -> None:
    wrong = PROJECT.replace('cfg = {partition = "p"}', "cfg = {partition = 3, x = 1}\nmatrix = 3")
    write(repository, f"{wrong}{JOB}{ROLE}")
    assert [*launches(repository)] == ["job"]


def test_variables_of_the_project_are_neither_missed_nor_warned_of(repository: Path) -> None:
    write(repository, f"{PROJECT}{JOB}{ROLE}")
    assert launches(repository, variables={"unused": "given"})["job"].key.job == "job"
    write(repository, f"{JOB}roles: {{main: {{entrypoint: $<var.unused>}}}}\n")
    assert [found.code for found in compiled(repository).errors] == ["unset-variable"]


def test_variables_of_a_parent_are_not_warned_of_and_those_of_the_file_are(repository: Path) -> None:
    write(
        repository,
        f"{BASE}vars: {{p: {{type: int, default: 1}}}}\n{CHILD}vars: {{c: {{type: int, default: 1}}}}\n",
    )
    assert places(compiled(repository)) == ["job.launcher.yaml:5:8 unused-variable"]


def test_the_nearest_launcher_toml_alone_counts(repository: Path) -> None:
    write(
        repository,
        "== launcher.toml\ndefaults.timeout = '1h'\n== jobs/launcher.toml\ndefaults.metadata.a = 'b'\n",
    )
    write(
        repository,
        f"{JOB}{ROLE}" + JOB.replace("== job", "== jobs/job").replace("name: job", "name: deep") + ROLE,
    )
    made = launches(repository)
    assert (made["job"].timeout_s, made["deep"].timeout_s) == (3600, None)
    assert made["deep"].app.metadata == {"a": "b"}


def test_a_parent_of_another_folder_stands_on_the_launcher_toml_of_the_job_file(repository: Path) -> None:
    write(
        repository,
        "== launcher.toml\ndefaults.timeout = '1h'\n== jobs/launcher.toml\ndefaults.timeout = '2h'\n",
    )
    child = JOB.replace("== job", "== jobs/job") + f"extends: ../base.launcher.yaml\n{ROLE}"
    write(repository, f"{BASE}metadata: {{a: b}}\n{child}")
    assert launches(repository)["job"].timeout_s == 7200


@pytest.mark.parametrize(
    "table", ["vars.v.type = 'str'", "defaults.timeout = '1h'", "targets.dev.timeout = '1m'"]
)
@pytest.mark.parametrize("place", ["user", "LAUNCHER_CONFIG"])
def test_tables_that_change_job_files_are_errors_in_a_file_of_the_user(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    table: str,
    place: str,
) -> None:
    from launcher.cli.main import main

    config = tmp_path / "launcher" / "launcher.toml"
    config.parent.mkdir()
    config.write_text(f"{table}\n")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    if place == "LAUNCHER_CONFIG":
        monkeypatch.setenv("LAUNCHER_CONFIG", str(config))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    assert main(["run", "--dryrun", "utils.echo"]) != 0
    assert f"{config}:1" in capsys.readouterr().err


def test_git_reads_only_what_the_repository_has(repository: Path) -> None:
    """A parent that is new and not yet added is no secret: only what git ignores is."""
    write(repository, f"{BASE}timeout: 1h\n{CHILD}")
    git(repository, "add", "job.launcher.yaml")
    assert launches(repository)["job"].timeout_s == 3600


COUNTING = """\
import sys
opened = []
sys.addaudithook(lambda event, args: opened.append(str(args[0])) if event == "open" else None)
from launcher.jobfile import compile_files
compile_files(sys.argv[1:2]).raise_for_errors()
print(*(sum(path.endswith(name) for path in opened) for name in sys.argv[2:]))
"""


def opened(folder: Path, path: str, *names: str) -> list[int]:
    """How often files are opened while a path is compiled."""
    command = [sys.executable, "-c", COUNTING, path, *names]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return [int(count) for count in done.stdout.split()]


def test_parents_and_launcher_toml_are_read_once_for_all_files(repository: Path) -> None:
    base = (
        f"{BASE}extends: root.launcher.toml\ntimeout: 1h\n{BASE_TOML.replace('base', 'root')}enabled = true\n"
    )
    write(repository, f"== launcher.toml\ndefaults.metadata.a = 'b'\n{base}")
    for number in range(20):
        text = CHILD.replace("job", f"job-{number}").replace("extends: ", "extends: ../")
        write(repository, text.replace("== ", "== jobs/" if number else "== one/"))
    names = ["base.launcher.yaml", "root.launcher.toml", "/launcher.toml"]
    counts = opened(repository, "jobs", *names, "job-7.launcher.yaml")
    assert counts[:3] == opened(repository, "one", *names)
    assert counts[0] == counts[1] == counts[3]  # once, as the job file itself
