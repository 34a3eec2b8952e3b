"""The contract suite runs for every scheduler that is registered. A new one adds its case to `CASES`."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from launcher.schedulers import (
    DEFAULT_SCHEDULERS,
    DescribeAppResponse,
    Scheduler,
    StagedScheduler,
    get_scheduler,
)
from launcher.specs import AppDef, Role
from tests import processes
from tests.engines import require

END_S = 30.0
"""How long anything in these tests may take to end."""


class Case:
    """One scheduler with what the tests must know of it: an image that has a shell, what an app leaves."""

    def __init__(self, name: str, engine: str, image: Callable[[Path], str], tmp_path: Path) -> None:
        require(engine)
        self.name = name
        self.image = image(tmp_path)
        self.scheduler = self.another()

    def another(self, *, detach: bool = True) -> Scheduler[Any]:
        """One more object for the same scheduler, as another client would have."""
        return get_scheduler(self.name, "contract", detach=detach)

    def app(self, script: str = "true", *, replicas: int = 1, **fields: Any) -> AppDef:
        """An app with the one role `r`: a shell that runs `script`."""
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

    def wait_for_line(self, app_id: str, line: str, role: str = "r", k: int = 0) -> None:
        """Until a replica has printed `line`."""
        for seen in self.scheduler.log_iter(app_id, role, k, should_tail=True):
            if seen.strip() == line:
                return
        raise AssertionError(f"{app_id} ended without printing {line!r}")

    def lines(self, app_id: str, role: str = "r", k: int = 0, **how: Any) -> list[str]:
        return list(self.scheduler.log_iter(app_id, role, k, **how))

    def left_of(self, app_id: str, home: Path) -> list[str]:
        """Every live process of an app, in words."""
        return [processes.describe(pid) for pid in processes.of_app(str(home), app_id)]

    def elsewhere(self, code: str, *values: str, killed: bool = False) -> Any:
        """What `code` prints as JSON, run in a new process with `scheduler` and `values` at hand."""
        program = (
            "import json, sys\n"
            "from launcher.schedulers import get_scheduler\n"
            "name, *values = sys.argv[1:]\n"
            "scheduler = get_scheduler(name, 'elsewhere')\n" + textwrap.dedent(code)
        )
        argv = [sys.executable, "-c", program, self.name, *values]
        ran = subprocess.run(argv, check=False, stdout=subprocess.PIPE, text=True)
        assert ran.returncode == (-9 if killed else 0)
        return json.loads(ran.stdout)


def _folder(tmp_path: Path) -> str:
    folder = tmp_path / "image"
    folder.mkdir(exist_ok=True)
    return str(folder)


def _nothing(_: Path) -> str:
    return ""


CASES: Mapping[str, tuple[str, Callable[[Path], str]]] = {
    "local_cwd": ("local", _nothing),
    "local_dir": ("local", _folder),
}
"""Scheduler → (engine it needs, image with a shell in it)."""


@pytest.fixture(params=sorted(DEFAULT_SCHEDULERS))
def case(request: pytest.FixtureRequest, tmp_path: Path, launcher_home: Path) -> Iterator[Case]:
    assert request.param in CASES, f"the contract suite has no case for {request.param}"
    made = Case(request.param, *CASES[request.param], tmp_path)
    yield made
    for listed in made.scheduler.list():
        made.scheduler.cancel(listed.app_id)
    made.scheduler.close()


@pytest.fixture
def staged(case: Case) -> StagedScheduler[Any]:
    if not isinstance(case.scheduler, StagedScheduler):
        pytest.skip(f"{case.name} has no staged submission")
    return case.scheduler


def states(found: DescribeAppResponse) -> Sequence[str]:
    """State and exit code of each replica: ["r/0 SUCCEEDED 0", …]."""
    return [
        f"{role.role}/{replica.id} {replica.state} {replica.exit_code}"
        for role in found.roles_statuses
        for replica in role.replicas
    ]
