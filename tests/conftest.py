"""Every test has its own LAUNCHER_HOME and HOME, and fails when it leaves a process or a container behind."""

import gc
import os
import re
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path

import pytest

from tests import lanes, processes
from tests.engines import require, required, slurm as engine_slurm, tidy as engine_tidy
from tests.engines.docker import Daemon, Thing
from tests.engines.slurm import LOGIN, OwnCluster, SlurmCluster
from tests.scenario import Scenario

ROOT = Path(__file__).resolve().parent.parent
OURS = ("LAUNCHER_", "SLURM_", "SBATCH_")
KEPT = {"LAUNCHER_REQUIRE"}
BEFORE = pytest.StashKey[list[Thing]]()
_NUMBERS = count()
SETTLE_S = 40.0  # an app whose last replica has ended needs a moment to write that down


lanes.register_profiles()


def pytest_configure(config: pytest.Config) -> None:
    lanes.choose_examples(config)
    required()  # a misspelt engine must not pass as "nothing required"
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in a background job of a shell
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if (
        signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    ):  # as under nohup: commands that tests start inherit it
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_xdist_auto_num_workers() -> int:
    """One worker more than there are cores: many tests wait for processes."""
    return (os.cpu_count() or 1) + 1


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Thousands of tests are made, and stay: no collection of garbage goes through them, now or later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(trylast=True)  # after tests were deselected
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if _is_worker(config):
        items[:] = lanes.dealt(items, config.workerinput["workercount"])


def pytest_sessionstart(session: pytest.Session) -> None:
    if not _is_worker(session.config) and Daemon().answers():
        session.config.stash[BEFORE] = Daemon().everything()


@pytest.hookimpl(trylast=True)  # after xdist has seen its workers off
def pytest_sessionfinish(session: pytest.Session) -> None:
    """The last session on an engine removes what its tests shared, and fails when anything else is left."""
    engine_tidy.part()
    if _is_worker(session.config):
        lanes.of_worker(session.config, None)
    before = session.config.stash.get(BEFORE, None)
    if before is None or not Daemon().answers():
        return
    if left := engine_tidy.leave(before):
        print(f"\nthe tests left behind on the engine: {', '.join(map(str, left))}")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_itemcollected(item: pytest.Item) -> None:
    lanes.mark(item)


def pytest_deselected(items: list[pytest.Item]) -> None:
    if items:
        lanes.note(items[0].config, items)


def pytest_testnodedown(node: object) -> None:
    lanes.of_worker(node.config, getattr(node, "workeroutput", None) or {})


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for line in lanes.summary(config):
        terminalreporter.write_line(line)


def _is_worker(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")


@pytest.fixture(scope="session", autouse=True)
def remove_folders(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    """Removes the folders of a session without failures, all at once: a removal behind each test would slow
    down the next ones on ext4, which passes over inodes that were freed in the last seconds."""
    yield
    if not request.session.testsfailed:
        shutil.rmtree(tmp_path_factory.getbasetemp(), ignore_errors=True)


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of the test. pytest's own looks at the folders of all tests before, to find a free number."""
    name = re.sub(r"\W", "_", request.node.name)[:26]
    path = tmp_path_factory.getbasetemp() / f"{name}{next(_NUMBERS)}"
    path.mkdir(0o700)
    return path


@pytest.fixture(autouse=True)
def launcher_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A LAUNCHER_HOME and HOME below tmp_path (short names: socket paths end at 107 bytes); clean settings.

    Fails after the test when a process of this LAUNCHER_HOME is left.
    """
    home = tmp_path / "l"
    for name in [name for name in os.environ if name.startswith(OURS) and name not in KEPT]:
        monkeypatch.delenv(name)
    for name in (
        "CI",
        "NO_COLOR",
        "FORCE_COLOR",
        "CLICOLOR_FORCE",
        "COLUMNS",
        "GIT_DIR",
        "GIT_WORK_TREE",
        "PYTHONSTARTUP",
        "PYTHONDONTWRITEBYTECODE",  # or each command that a test starts compiles the package anew
    ):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "u").mkdir()
    monkeypatch.setenv("LAUNCHER_HOME", str(home))
    monkeypatch.setenv("HOME", str(tmp_path / "u"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "u"))
    for name in ("STATE", "CONFIG", "CACHE", "DATA"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / "u" / name.lower()))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))  # subprocesses run this checkout, whatever is installed
    before = frozenset(processes.everything())
    yield home
    if (restore := sys.modules.get("launcher.state.restore")) is not None:
        restore.notices.clear()  # or commands that later tests run in this process show them
    _fail_on_leftovers(str(home), before)


def _fail_on_leftovers(home: str, before: frozenset[int]) -> None:
    deadline = time.monotonic() + SETTLE_S
    while (left := processes.of_home(home, before)) and time.monotonic() < deadline:
        processes.gone(left, timeout_s=deadline - time.monotonic())
    if not left:
        return
    report = "\n".join(map(processes.describe, left))
    while left := processes.of_home(home):  # or the tests that follow suffer from them
        processes.kill(left)
        processes.gone(left, timeout_s=SETTLE_S)
    pytest.fail(f"the test left processes behind:\n{report}")


@pytest.fixture
def scenario(tmp_path: Path, launcher_home: Path) -> Iterator[Scenario]:
    """A scenario in an empty working directory of its own."""
    work = tmp_path / "w"
    work.mkdir()
    with Scenario(work, launcher_home) as words:
        yield words


@pytest.fixture
def sink(monkeypatch: pytest.MonkeyPatch) -> Iterator[object]:
    """A receiver of notifications, whose key is in HOOK_KEY."""
    from tests.sink import KEY, Sink  # jsonschema and standardwebhooks, for few tests

    monkeypatch.setenv("HOOK_KEY", KEY)
    with Sink() as made:
        yield made


@pytest.fixture
def token(tmp_path: Path, launcher_home: Path) -> Iterator[str]:
    """The name under which a test uses the engine: the project of its jobs, the session of its apps.

    Afterwards no container of this test may run or wait to be run. Ended ones go as its home does, once the
    watchers of each home of the test have ended: a watcher may still write an end, which would outlast them.
    """
    require("docker")
    engine_tidy.join()
    name = engine_tidy.new_token()
    yield name
    daemon = Daemon()
    left = engine_tidy.unfinished(engine_tidy.of_token(name, daemon.everything()))
    if not left:
        processes.gone(processes.below(str(tmp_path)), timeout_s=SETTLE_S)
    daemon.remove(engine_tidy.of_token(name, daemon.everything()))
    if left:
        pytest.fail(f"the test left behind on the engine: {', '.join(map(str, left))}")


@pytest.fixture
def slurm(tmp_path: Path, launcher_home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SlurmCluster]:
    """The cluster of this machine. Apps of the test lie below its HOME; afterwards none is queued."""
    require("slurm")
    cluster = SlurmCluster(os.environ[engine_slurm.HERE])
    monkeypatch.setenv("SLURM_CONF", str(cluster.conf))
    yield cluster
    _fail_on_jobs(cluster.clear(below=str(tmp_path)))


@pytest.fixture
def slurm_ssh(launcher_home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SlurmCluster]:
    """The cluster that `ssh login1` reaches, as a user of this test alone; afterwards it has no job queued.

    LAUNCHER_SLURM_HOST names it. `cluster.user` is the user.
    """
    require("slurm_ssh")
    cluster = SlurmCluster(os.environ[engine_slurm.THERE], user=engine_tidy.new_token())
    with engine_slurm.own_user(cluster):
        monkeypatch.setenv("PATH", str(cluster.folder / "bin"), prepend=os.pathsep)
        monkeypatch.setenv(engine_slurm.USER, cluster.user)
        monkeypatch.setenv("LAUNCHER_SLURM_HOST", LOGIN)
        yield cluster
        left = cluster.clear(user=cluster.user)
    _fail_on_jobs(left)


def _fail_on_jobs(left: list[engine_slurm.Job]) -> None:
    if left:
        pytest.fail(f"the test left behind in the queue: {', '.join(map(str, left))}")


@pytest.fixture
def own_slurm(launcher_home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., OwnCluster]]:
    """Starts a cluster that this test may break, with options of `tests/engines/slurm up`."""
    require("slurm_own")
    with ExitStack() as stack:

        def start(*options: str) -> OwnCluster:
            if "--accounting" in options:
                require("slurm_accounting")
            cluster = stack.enter_context(OwnCluster(*options))
            monkeypatch.setenv("SLURM_CONF", str(cluster.conf))
            return cluster

        yield start
