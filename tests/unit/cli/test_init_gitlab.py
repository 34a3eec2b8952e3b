"""The pipeline of `launcher init --ci gitlab`: what it holds, what init says, and what checkers say."""

import re
import subprocess
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from launcher.cli.init_ci import ENGINES, INCLUDING, PIPELINE, Setup, pipeline_files
from tests import engines
from tests.github.repository import git
from tests.gitlab.pipeline import extended, starts
from tests.unit.cli.test_init_ci import HOSTS, check_key

EVENTS = {
    "merge_request_event": "launcher plan", "push": "launcher apply", "schedule": "launcher report",
    "web": "launcher doctor",
}  # fmt: skip
"""How a pipeline starts → its job."""


def text_of(engine: str) -> str:
    setup = Setup(ENGINES[engine], HOSTS[engine], ("HF_TOKEN",), "main", "launcher-jobs==0.1.0")
    return pipeline_files(setup)[PIPELINE]


def jobs_of(engine: str) -> dict[str, dict]:
    config = YAML(typ="safe", pure=True).load(text_of(engine))
    return {name: extended(job, config) for name, job in config.items() if name.startswith("launcher")}


@pytest.mark.parametrize("engine", ENGINES)
def test_the_pipeline_has_at_most_60_lines_and_nothing_to_fill_in(engine):
    text = text_of(engine)
    assert len(text.splitlines()) <= 60
    assert not re.search(r"<[A-Z_]+>|^\s*#\s*-|: *$(?!\n +)", text)
    assert "HF_TOKEN" not in text  # variables of the project are in every job
    assert text.count("expire_in: never") == 2  # the checks of plans and applies
    assert [name for name, job in jobs_of(engine).items() if "interruptible" in job] == ["launcher plan"]


@pytest.mark.parametrize(("source", "name"), EVENTS.items())
@pytest.mark.parametrize("branch", ["main", "change-1"])
def test_each_event_starts_one_job_and_branches_start_none(source, name, branch):
    known = {"CI_PIPELINE_SOURCE": source, "CI_DEFAULT_BRANCH": "main", "LAUNCHER_DIGEST": ""}
    if source != "merge_request_event":
        known["CI_COMMIT_BRANCH"] = branch
    found = [each for each, job in jobs_of("local").items() if starts(job, known)]
    on_main = branch == "main" or source in ("merge_request_event", "web")
    assert found == ([name] if on_main else [])


@pytest.mark.parametrize("engine", ["docker", "slurm"])
def test_the_key_is_in_a_private_file_and_an_unknown_host_is_refused(engine, tmp_path):
    lines = jobs_of(engine)["launcher apply"]["before_script"][1:]
    files = {"LAUNCHER_SSH_KEY": "private\nlines", "LAUNCHER_KNOWN_HOSTS": "h ssh-ed25519 AAAA\n"}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    check_key(tmp_path, "\n".join(lines), {name: str(tmp_path / name) for name in files})


def init(scenario, *argv, code=0):
    return scenario.launcher("init", "--ci", "gitlab", *argv, code=code)


def test_init_writes_the_pipeline_and_names_what_is_left_to_do(scenario):
    scenario.job("true", role="env: {TOKEN: {secret: env:HF_TOKEN}}")
    done = init(scenario, "--ci-engine", "docker", "--ci-host", "me@gpu1:22")
    assert 'DOCKER_HOST: "ssh://me@gpu1:22"' in (scenario.folder / PIPELINE).read_text()
    assert (scenario.folder / INCLUDING).read_text() == f"include:\n  - local: {PIPELINE}\n"
    for line in (
        "glab variable set LAUNCHER_SSH_KEY --type file <~/.ssh/id_ed25519",
        "ssh-keyscan -p 22 gpu1 | glab variable set LAUNCHER_KNOWN_HOSTS --type file",
        "printenv HF_TOKEN | glab variable set HF_TOKEN --masked --protected",
        "glab schedule create --cron '17 * * * *' --ref main --description 'launcher report'",
    ):
        assert line in done.err


def test_a_pipeline_that_exists_is_left_alone_with_the_line_to_add(scenario):
    scenario.write(INCLUDING, "test: {script: make test}\n")
    done = init(scenario)
    assert (scenario.folder / INCLUDING).read_text() == "test: {script: make test}\n"
    assert f"left {INCLUDING} unchanged; add to it:\n  include:\n    - local: {PIPELINE}" in done.err
    scenario.write(INCLUDING, f"include: {PIPELINE}\n")
    assert "add to it" not in init(scenario, "--force").err


@pytest.mark.parametrize("name", ["CI_TOKEN", "GITLAB_KEY", "A-B"])
def test_names_that_belong_to_gitlab_are_no_secrets(scenario, name):
    assert "cannot be the name of a secret" in init(scenario, "--ci-secret", name, code=64).err


@pytest.fixture
def project(tmp_path) -> Path:
    """A repository with the pipeline, whose engine is behind ssh."""
    setup = Setup(ENGINES["docker"], "me@gpu1", (), "main", "launcher-jobs==0.1.0")
    for name, text in pipeline_files(setup).items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    git(tmp_path, "init", "-q", "-b", "main")
    git(tmp_path, "remote", "add", "origin", "https://gitlab.invalid/acme/vision.git")
    git(tmp_path, "add", ".gitlab", ".gitlab-ci.yml")
    git(tmp_path, "commit", "-qm", "jobs")
    return tmp_path


@pytest.mark.slow
def test_the_schema_of_gitlab_accepts_the_pipeline(project):
    engines.require("workflows")
    argv = [engines.editor_tool("check-jsonschema"), "--builtin-schema", "vendor.gitlab-ci"]
    argv += [str(project / PIPELINE), str(project / INCLUDING)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(("source", "name"), EVENTS.items())
def test_gitlab_ci_local_starts_the_same_job(project, source, name):
    engines.require("pipelines")
    argv = [engines.editor_tool("gitlab-ci-local"), "--list-csv", "--no-json-schema-validation"]
    argv += ["--ignore-predefined-vars", "CI_PIPELINE_SOURCE", "--variable", f"CI_PIPELINE_SOURCE={source}"]
    done = subprocess.run(argv, cwd=project, capture_output=True, text=True, check=True)
    header, *rows = done.stdout.splitlines()
    assert header.startswith("name;")
    assert [row.partition(";")[0] for row in rows] == [name]
