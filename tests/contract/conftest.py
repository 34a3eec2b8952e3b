"""The contract suite runs for every scheduler that is registered. A new one adds its cases to `CASES`."""

import os
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from launcher.schedulers import (
    DEFAULT_SCHEDULERS,
    DescribeAppResponse,
    ListAppResponse,
    Scheduler,
    StagedScheduler,
    get_scheduler,
)
from launcher.specs import AppDef, BindMount, Role
from launcher.specs.launch import JobKey
from tests import processes
from tests.engines import require, tidy as engine_tidy
from tests.engines.docker import Daemon
from tests.engines.images import SHELL_IMAGE
from tests.engines.slurm import SlurmCluster
from tests.waiting import until

END_S = 150.0
"""How long anything in these tests may take to end."""


class Gate:
    """A file that a replica waits for."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.script = f"until [ -e {path} ]; do sleep 0.02; done"

    def open(self) -> None:
        self.path.touch()


class Case:
    """One scheduler with the facts that tests need: an image that has a shell, the traces that an app leaves.

    `session` is this test's own: others may use the same engine at the same time. `shared` is a folder that
    replicas see under the same path.
    """

    count = ""
    """Shell text that sets LAUNCHER_RESTART where the scheduler does not."""

    supervised = True
    """Whether the app cannot go on without the process that watches it."""

    looks_ahead = True
    """Whether a command that does not exist is found before anything starts."""

    sees_client = True
    """Whether an attached app ends with its client, also when that is killed."""

    sampled_s = 0
    """For how long a replica must idle before its end, so that all that it used before is measured."""

    holder = "pid"
    """What holds an app that waits for others: a process of this machine, or something of the engine's."""

    def __init__(self, name: str, session: str, image: str, shared: Path) -> None:
        self.name = name
        self.session = session
        self.image = image
        self.shared = shared
        self.scheduler = self.another()

    def another(self, *, detach: bool = True) -> Scheduler[Any]:
        """Return another object for the same scheduler, as another client would have."""
        return get_scheduler(self.name, self.session, detach=detach)

    def key(self, job: str = "train", target: str = "default") -> JobKey:
        """Return a job in the project of this test."""
        return JobKey(self.session, target, job)

    def listed(self) -> list[ListAppResponse]:
        """Return the apps of this test, as the scheduler lists them."""
        return [each for each in self.scheduler.list() if self.is_own(each.app_handle)]

    def is_own(self, handle: str) -> bool:
        return handle.startswith((f"{self.name}://{self.session}/", f"{self.name}://{self.session}."))

    def app(self, script: str = "true", *, replicas: int = 1, **fields: Any) -> AppDef:
        """Return an app with the one role `r`: a shell that runs `script`."""
        return AppDef("contract", [self.role("r", script, replicas=replicas, **fields)])

    def role(self, name: str, script: str, *, replicas: int = 1, **fields: Any) -> Role:
        argv = ["-c", textwrap.dedent(script)]
        return Role(name, self.image, entrypoint="sh", args=argv, num_replicas=replicas, **fields)

    def start(self, app: AppDef, **cfg: Any) -> str:
        return self.scheduler.submit(app, cfg)

    def run(self, app: AppDef, **cfg: Any) -> DescribeAppResponse:
        """Start an app and wait for its end."""
        return self.end(self.start(app, **cfg))

    def end(self, app_id: str) -> DescribeAppResponse:
        found = self.scheduler.wait(app_id, timeout_s=END_S)
        assert found is not None, f"{app_id} is unknown"
        assert found.ended_at is not None, f"{app_id} still runs"
        return found

    def until_running(self, app_id: str) -> None:
        """Wait until a started app runs: at once, except where engines have a queue."""

    def wait_for_line(self, app_id: str, line: str, role: str = "r", k: int = 0) -> None:
        """Wait until a replica has printed `line`."""
        for seen in self.scheduler.log_iter(app_id, role, k, should_tail=True):
            if seen.strip() == line:
                return
        raise AssertionError(f"{app_id} ended without printing {line!r}")

    def lines(self, app_id: str, role: str = "r", k: int = 0, **how: Any) -> list[str]:
        return list(self.scheduler.log_iter(app_id, role, k, **how))

    def left_of(self, app_id: str, home: Path) -> list[str]:
        """Return a text for each live process or container of an app."""
        return [processes.describe(pid) for pid in processes.of_app(str(home), app_id)]

    def rests_of(self, home: Path) -> list[str]:
        """Return a text for each trace of apps that were taken back."""
        return sorted(os.listdir(home / "local" / "apps"))

    def kept(self, data: bytes) -> bytes:
        """Return the bytes that the logs return for the bytes that a replica printed."""
        return data


class DockerCase(Case):
    sampled_s = 6
    count = (
        'LAUNCHER_RESTART=$(cat "$LAUNCHER_SCRATCH/tries-$<role>-$<replica_id>" 2>/dev/null || echo 0); '
        'echo $((LAUNCHER_RESTART + 1)) >"$LAUNCHER_SCRATCH/tries-$<role>-$<replica_id>"\n'
    )
    supervised = False

    def role(self, name: str, script: str, *, replicas: int = 1, **fields: Any) -> Role:
        mounts = [BindMount(str(self.shared), str(self.shared))]
        return super().role(name, script, replicas=replicas, **{"mounts": mounts, **fields})

    def left_of(self, app_id: str, home: Path) -> list[str]:
        own = [one for one in Daemon().containers() if one.labels.get("launcher.app-id") == app_id]
        live = [str(one) for one in own if one.state not in ("exited", "dead")]
        return [*super().left_of(app_id, home), *live]

    def rests_of(self, home: Path) -> list[str]:
        folder = home / "docker" / "apps"
        own = engine_tidy.of_token(self.session, Daemon().everything())
        return [*map(str, own), *(sorted(os.listdir(folder)) if folder.is_dir() else [])]

    def kept(self, data: bytes) -> bytes:
        """The engine keeps logs as JSON: what is not UTF-8 comes back as U+FFFD."""
        return data.decode(errors="replace").encode()


class SlurmCase(Case):
    """Apps lie in the default `job_dir`: below the HOME of the test, or of its user on the cluster."""

    supervised = False
    looks_ahead = False
    sees_client = False
    holder = "Slurm job"

    def __init__(self, cluster: SlurmCluster, home: Path, shared: Path) -> None:
        self.cluster = cluster
        self.apps = home / ".launcher" / "slurm" / "apps"
        super().__init__("slurm", engine_tidy.new_token(), "", shared)

    def until_running(self, app_id: str) -> None:
        self.scheduler.wait_for_start(app_id)

    def end(self, app_id: str) -> DescribeAppResponse:
        """The batch script ends right after it has written the outcome."""
        found = super().end(app_id)
        until(lambda: (app_id, "RUNNING") not in [(job.name, job.state) for job in self.cluster.jobs()])
        return found

    def left_of(self, app_id: str, home: Path) -> list[str]:
        scratch = f"/{app_id}/scratch"
        own = [job for job in self.cluster.jobs() if job.name == app_id and job.state != "COMPLETING"]
        return [*map(processes.describe, processes.of_scratch(scratch)), *map(str, own)]

    def rests_of(self, home: Path) -> list[str]:
        user = self.cluster.user
        own = self.cluster.jobs(user=user, below="" if user else str(self.apps))
        return [*map(str, own), *(sorted(os.listdir(self.apps)) if self.apps.is_dir() else [])]


def _local_cwd(request: pytest.FixtureRequest, tmp_path: Path) -> Case:
    return Case("local_cwd", "contract", "", tmp_path)


def _local_dir(request: pytest.FixtureRequest, tmp_path: Path) -> Case:
    folder = tmp_path / "image"
    folder.mkdir()
    return Case("local_dir", "contract", str(folder), tmp_path)


def _local_docker(request: pytest.FixtureRequest, tmp_path: Path) -> Case:
    return DockerCase("local_docker", request.getfixturevalue("token"), SHELL_IMAGE, tmp_path)


def _slurm(request: pytest.FixtureRequest, tmp_path: Path) -> Case:
    return SlurmCase(request.getfixturevalue("slurm"), Path(os.environ["HOME"]), tmp_path)


def _slurm_ssh(request: pytest.FixtureRequest, tmp_path: Path) -> Case:
    cluster = request.getfixturevalue("slurm_ssh")
    return SlurmCase(cluster, cluster.home, cluster.shared)


CASES: Mapping[str, tuple[str, str, Callable[[pytest.FixtureRequest, Path], Case]]] = {
    "local_cwd": ("local_cwd", "local", _local_cwd),
    "local_dir": ("local_dir", "local", _local_dir),
    "local_docker": ("local_docker", "docker", _local_docker),
    "slurm": ("slurm", "slurm", _slurm),
    "slurm_ssh": ("slurm", "slurm_ssh", _slurm_ssh),
}
"""Case → (its scheduler, engine it needs, what makes it)."""

TWINS = frozenset({"local_dir", "slurm_ssh"})
"""Cases that differ from another one in a single part: local_dir from local_cwd in the folder of replicas,
slurm_ssh from slurm in the way to the agent. They run the tests marked `everywhere` alone, one for each kind
of request that the part takes: a submission with odd bytes, with a secret and with a workspace, its three
steps, a cancellation by ten clients at once, logs of any bytes and of several replicas that are followed, a
wait and the record of the end, a withdrawal, and an output folder that is copied and removed."""

_UNTRIED = DEFAULT_SCHEDULERS.keys() - {scheduler for scheduler, _, _ in CASES.values()}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "case" in metafunc.fixturenames:
        is_everywhere = metafunc.definition.get_closest_marker("everywhere") is not None
        cases = [name for name in CASES if is_everywhere or name not in TWINS]
        metafunc.parametrize("case", cases, indirect=True)


@pytest.fixture
def case(request: pytest.FixtureRequest, tmp_path: Path, launcher_home: Path) -> Iterator[Case]:
    assert not _UNTRIED, f"the contract suite has no case for {', '.join(sorted(_UNTRIED))}"
    _, engine, make = CASES[request.param]
    require(engine)
    made = make(request, tmp_path)
    yield made
    for listed in made.listed():
        made.scheduler.cancel(listed.app_id)
    made.scheduler.close()


@pytest.fixture
def gate(case: Case) -> Gate:
    return Gate(case.shared / "gate")


@pytest.fixture
def staged(case: Case) -> StagedScheduler[Any]:
    if not isinstance(case.scheduler, StagedScheduler):
        pytest.skip(f"{case.name} has no staged submission")
    return case.scheduler


def states(found: DescribeAppResponse) -> Sequence[str]:
    """Return the state and exit code of each replica: ["r/0 SUCCEEDED 0", …]."""
    return [
        f"{role.role}/{replica.id} {replica.state} {replica.exit_code}"
        for role in found.roles_statuses
        for replica in role.replicas
    ]
