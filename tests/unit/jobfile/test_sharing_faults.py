"""A mistake in a layer is reported once, where it is written; a file that cannot be a layer is refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from launcher.jobfile import render
from tests.unit.jobfile.folders import (
    BASE,
    BASE_TOML,
    CHILD,
    CHILD_OF_TOML,
    JOB,
    JOBS,
    ROLE,
    TWO,
    compiled,
    places,
    write,
)

WRONG: dict[str, tuple[str, list[str]]] = {
    # Positions in parents and launcher.toml
    "a target that is nowhere, in the list beside several jobs": (
        f"== a.launcher.yaml\nversion: 1\ntargets: [nowhere]\njobs:\n  a: {{{ROLE.strip()}}}\n",
        ["a.launcher.yaml:2:11 unknown-target"],
    ),
    "a target that is nowhere, in the list of a parent": (
        f"{BASE}targets: [nowhere]\n{CHILD}",
        ["base.launcher.yaml:3:11 unknown-target"],
    ),
    "the name of the job without a target, in a list": (
        f"{JOB}{ROLE}targets: [default]\n",
        ["job.launcher.yaml:4:11 invalid-name"],
    ),
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
    "a path that cannot be one": (
        "== job.launcher.toml\nversion = 1\nname = 'job'\n"
        'extends = "a\\u0000b.launcher.yaml"\nroles.main.entrypoint = "x"\n',
        ["job.launcher.toml:3:11 invalid-value"],
    ),
    "a parent of a later version": (
        f"{BASE.replace('version: 1', 'version: 9')}new: 1\n{CHILD}",
        ["base.launcher.yaml:1:10 newer-version"],
    ),
    "a parent of another tool": (
        f"== base.launcher.yaml\nservices: {{a: {{image: x}}}}\n{CHILD}",
        ["base.launcher.yaml:1:1 unknown-field"],
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
    "a target that is no table": (
        f"== launcher.toml\ntargets.dev = 1\n{JOB}{ROLE}",
        ["launcher.toml:1:9 wrong-type"],
    ),
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
def test_a_mistake_in_a_layer_is_reported_once_where_it_is_written(repository: Path, case: str) -> None:
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


def test_a_parent_outside_of_the_walk_is_judged_as_well(repository: Path) -> None:
    base = BASE.replace("version: 1", "version: 9")
    write(repository, f"{base}timeout: 1h\n{CHILD}")
    assert places(compiled(repository, "job.launcher.yaml")) == ["base.launcher.yaml:1:10 newer-version"]
