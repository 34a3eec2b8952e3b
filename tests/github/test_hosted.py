"""The stories of a workflow whose engine is behind ssh, on runners that keep nothing from run to run.

Attempts are read from the engine alone, with an empty state folder.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from launcher.cli.init_ci import ENGINES, Setup, workflow
from tests.engines import require
from tests.engines.images import PYTHON_IMAGE, SHELL_IMAGE, make_images
from tests.engines.slurm import LOGIN
from tests.engines.sshd import Sshd
from tests.github.fake import FakeGitHub
from tests.github.hosted import HostedRunner
from tests.github.hub import Hub, digest_in
from tests.github.workflow import FILE

REQUIREMENT = "launcher-jobs==0.1.0"


@dataclass(frozen=True)
class Engine:
    """An engine behind ssh.

    Attributes:
        top, role: lines of a job file that put the job there.
        project: of the jobs. Other tests use the engine at the same time.
        secrets: of the repository.
    """

    name: str
    address: str
    top: str
    role: str
    project: str
    secrets: dict[str, str] = field(default_factory=dict)

    def job(self, name: str, run: str = "true", more: str = "") -> dict[str, str | None]:
        text = f"version: 1\nname: {name}\n{self.top}{more}roles:\n  main:\n{self.role}    run: {run}\n"
        return {f"{name}.launcher.yaml": text}


EVERY_ENGINE = pytest.mark.parametrize("case", ["local_docker", "slurm_ssh"])
ONE_ENGINE = pytest.mark.parametrize("case", ["local_docker"])
"""For what the workflow does and no engine has a part in."""


@pytest.fixture
def engine(case, tmp_path, request) -> Iterator[Engine]:
    if case == "slurm_ssh":
        request.getfixturevalue("slurm_ssh")
        yield Engine("slurm", LOGIN, "scheduler: slurm\n", "", "vision")
        return
    require("sshd")
    token = request.getfixturevalue("token")
    with Sshd(tmp_path / "sshd") as sshd:
        secrets = {"LAUNCHER_SSH_KEY": sshd.key.rstrip("\n"), "LAUNCHER_KNOWN_HOSTS": sshd.known_hosts}
        role = f"    image: {SHELL_IMAGE}\n"
        yield Engine("docker", sshd.address, "scheduler: local_docker\n", role, token, secrets)


@pytest.fixture
def hub(tmp_path, scenario, engine) -> Iterator[Hub]:
    """A repository with the workflow and one job, which was applied by hand."""
    toml = f'project = "{engine.project}"\n'
    scenario.write("launcher.toml", toml)
    with FakeGitHub() as github:
        hub = Hub(tmp_path, github, HostedRunner)
        hub.runner.secrets.update(engine.secrets)
        if engine.secrets:
            hub.runner.reads_keys_of_home()
        file = workflow(Setup(ENGINES[engine.name], engine.address, (), "main", REQUIREMENT))
        hub.push({FILE: file, "launcher.toml": f"{toml}[ci]\nprune = true\n", **engine.job("first")})
        hub.dispatched(digest_in(hub.pushed(code=4).output))
        yield hub


def history(hub, scenario, name: str, *, wait: bool = True) -> list[dict[str, object]]:
    """Return the attempts of a job as its engine remembers them, the oldest first."""
    hub.runner.renew()
    if wait:
        scenario.launcher("wait", name, code=None)
    return json.loads(scenario.launcher("history", name, "--json").out)[::-1]


def ends(hub, scenario, name: str, *, wait: bool = True) -> list[tuple[str | None, str]]:
    """Return the pull request and the state of each attempt of a job, the oldest first."""
    return [(each["pull_request"], each["state"]) for each in history(hub, scenario, name, wait=wait)]


@EVERY_ENGINE
def test_a_merged_pull_request_starts_its_job_and_reports_the_end_once(hub, scenario, engine):
    timeout = "timeout: 1h\n" if engine.name == "slurm" else ""  # Slurm holds its jobs by itself
    hub.propose(1, engine.job("train", "echo no such data >&2; exit 3", timeout))
    hub.land(1)
    (attempt,) = history(hub, scenario, "train")
    assert (attempt["pull_request"], attempt["state"]) == ("1", "failed")
    assert attempt["approval"]
    assert str(attempt["run_url"]).startswith("https://github.com/acme/vision/actions/runs/")
    for _ in range(2):
        hub.ticked()
    planned, ended = hub.github.bodies(1)
    assert "started train" in planned
    assert "exited with 3" in ended
    assert "```text\nno such data\n```" in ended
    hub.runner.renew()
    listed = json.loads(scenario.launcher("history", "--project", engine.project, "--json").out)
    assert {(each["job"], each["pull_request"]) for each in listed} == {("first", None), ("train", "1")}


@ONE_ENGINE
def test_a_job_whose_file_is_removed_is_stopped(hub, scenario, engine):
    hub.propose(1, engine.job("serve", "sleep 1000"))
    hub.land(1)
    assert ends(hub, scenario, "serve", wait=False)[0][1] in ("starting", "queued", "running")
    hub.propose(2, {"serve.launcher.yaml": None})
    assert "serve" in hub.github.bodies(2)[0]
    hub.land(2)
    assert ends(hub, scenario, "serve") == [("1", "cancelled")]


@ONE_ENGINE
def test_a_job_that_needs_a_holder_on_the_hosted_runner_is_refused(hub, scenario, engine):
    """The watcher that ends the job at its time limit would end with the run."""
    hub.propose(1, engine.job("timed", "true", "timeout: 1h\n"))
    assert "its watcher would end with this run" in hub.land(1, code=4).output
    assert "timed" not in scenario.launcher("list", "--all").out


@ONE_ENGINE
def test_a_job_with_its_watcher_on_the_engine_ends_at_its_time_limit_after_the_run(hub, scenario, engine):
    make_images(PYTHON_IMAGE)
    watched = f"timeout: 2s\ncfg: {{watcher: engine, watcher_image: '{PYTHON_IMAGE}'}}\n"
    hub.propose(1, engine.job("timed", "sleep 1000", watched))
    hub.land(1)
    assert ends(hub, scenario, "timed") == [("1", "failed")]
