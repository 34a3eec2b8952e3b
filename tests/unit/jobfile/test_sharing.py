"""Sharing between job files: layers merge lowest first, and each value is placed where it is written."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from launcher.jobfile import render
from launcher.specs import Launch, digest, document
from tests.lanes import sampled
from tests.unit.jobfile.folders import BASE, BASE_TOML, CHILD, JOB, ROLE, compiled, launches, places, write
from tests.unit.jobfile.words import git

Job = Mapping[str, Any]


# Values: the same mappings as YAML and as TOML

FORMATS = [("yaml", "yaml"), ("toml", "toml"), ("yaml", "toml"), ("toml", "yaml")]
"""The format of the parents, and the format of the file."""


def in_format(value: Job, kind: str) -> str:
    """Return a job file as text."""
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
    """Write a launcher.toml, parents, the uppermost first, and the job file that extends them."""
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


MERGED: Mapping[str, Job] = YAML(typ="safe", pure=True).load(Path(__file__).with_name("layers.yaml"))


def flat(launch: Launch) -> Job:
    """Return the document of a launch; the fields of its only role beside those of the job."""
    made = document(launch)
    (only,) = made.pop("roles")
    return {**made, **only}


@pytest.mark.parametrize("kinds", sampled(FORMATS, FORMATS[3]), ids="-".join)
@pytest.mark.parametrize("case", MERGED)
def test_layers_of_a_job_file_merge_lowest_first(repository: Path, case: str, kinds: tuple[str, str]) -> None:
    given = MERGED[case]
    lay(repository, [*given.get("parents", ()), given["file"]], given.get("project"), kinds)
    made = flat(launches(repository, target=given.get("target"))["job"])
    assert {key: made.get(key) for key in given["gives"]} == given["gives"]


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


def test_paths_and_the_origin_come_from_the_job_file(repository: Path) -> None:
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
[needs]
first = {}
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
needs: {second: {}}
== job.launcher.toml
version = 1
name = "job"
extends = "base.launcher.yaml"
targets = ["dev"]
[roles.main.env]
A = 1
"""


@pytest.mark.parametrize(("path", "place"), [
    (("name",), "job.launcher.toml:2"),
    (("roles", "main", "env", "A"), "job.launcher.toml:6"),
    (("roles", "main", "max_retries"), "base.launcher.yaml:7"),
    (("roles", "main", "entrypoint"), "root.launcher.toml:4"),
    (("roles", "main", "num_replicas"), "root.launcher.toml:5"),
    (("roles", "main", "image"), "launcher.toml:4"), (("timeout",), "launcher.toml:2"),
    (("enabled",), "base.launcher.yaml:10"), (("metadata", "of"), "launcher.toml:7"),
    (("needs", "first"), "root.launcher.toml:7"), (("needs", "second"), "base.launcher.yaml:11"),
])  # fmt: skip
def test_each_value_has_its_file_and_line(repository: Path, path: tuple[str, ...], place: str) -> None:
    write(repository, TRACED)
    result = compiled(repository, target="dev")
    assert result.diagnostics == (), render(result.diagnostics)
    origin = result.traces[result.launches[0].key].origin(path)
    assert f"{origin.file.removeprefix('./')}:{origin.line}" == place


def test_an_abstract_file_is_no_job(repository: Path) -> None:
    write(repository, f"{BASE}timeout: 1h\n{CHILD}")
    assert [*launches(repository)] == ["job"]
    alone = compiled(repository, "base.launcher.yaml")
    assert alone.errors
    assert alone.launches == ()
    assert compiled(repository, "base.launcher.yaml", placeholders=True).diagnostics == ()


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
    own = f"== jobs/own.py\n{own}"
    write(repository, f"{BASE}component: own.py:make\n== jobs/job.launcher.yaml\n{child}{own}")
    assert launches(repository, components=True)["job"].app.roles[0].entrypoint == "x"


# Several jobs in one file


@pytest.mark.parametrize("kind", ["yaml", "toml"])
def test_a_job_has_the_digest_that_it_has_in_a_file_of_its_own(repository: Path, kind: str) -> None:
    main = {"entrypoint": "x", "env": {"A": "1"}, "args": ["$<job.name>"]}
    job = {"timeout": "1h", "roles": {"main": main}}
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


def test_a_parent_that_git_does_not_track_yet_is_read(repository: Path) -> None:
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
    """Return how often files are opened while a path is compiled."""
    command = [sys.executable, "-c", COUNTING, path, *names]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return [int(count) for count in done.stdout.split()]


@pytest.mark.slow
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
