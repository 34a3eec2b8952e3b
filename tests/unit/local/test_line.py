"""The process that holds many apps until each starts: what it does with them, and what it leaves behind."""

import fcntl
import os
import resource
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from launcher import paths
from launcher.schedulers import loop
from launcher.schedulers.appfolder import AppFolder
from launcher.schedulers.local import observe
from launcher.schedulers.local.stop import cancel
from launcher.schedulers.local.supervisor_client import LineClient
from launcher.turns.table import tickets
from tests import processes
from tests.unit.local.driving import Driven, go, sh, turn
from tests.waiting import PATIENCE_S, until

SECRET = "s3cret-of-an-app"


class InLine(Driven):
    """One app folder, whose app a line holder has."""

    def __init__(self, app_dir: Path, line: LineClient) -> None:
        self._line = line
        super().__init__(app_dir)

    def _spawn(self, *_: Any) -> None:
        lock = os.open(AppFolder(self.app_dir).lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        client = self._line.hold(self.app_dir, lock)
        os.close(lock)
        made, client._control = client._control, None  # it would hang up
        assert made is not None
        self.socket = socket.socket(fileno=made.detach())
        self.pid, self._start = 0, None
        self._inbox = loop.Inbox(self.socket.fileno())

    def process(self) -> int:
        """Return the pid of the process that holds the app now."""
        home = os.path.dirname(os.path.dirname(os.path.dirname(self.app_dir)))
        return processes.supervisors(home).get(os.path.basename(self.app_dir), 0)

    def ended(self) -> Any:
        return self.until(lambda view: view.has_ended)


Hold = Callable[..., InLine]


@pytest.fixture
def line() -> Iterator[LineClient]:
    os.makedirs(paths.local_apps())
    made = LineClient()
    yield made
    made.close()


@pytest.fixture
def in_line(line: LineClient) -> Iterator[Hold]:
    """`in_line()` hands an app to the holder."""
    made: list[InLine] = []

    def begin(app_id: str = "") -> InLine:
        made.append(InLine(Path(paths.local_app(app_id or f"app-{len(made)}")), line))
        return made[-1]

    yield begin
    for each in made:
        each.destroy()
    line.close()
    for each in made:
        cancel_all(os.path.basename(each.app_dir))
    left = processes.of_home(paths.home())
    assert processes.gone(left, timeout_s=PATIENCE_S), "a process of a line is left"


def cancel_all(*app_ids: str) -> None:
    assert [error for _, error in cancel(app_ids) if error] == []


@pytest.fixture
def running(in_line: Hold, table: str) -> InLine:
    """An app that has the one core of the table until it is cancelled."""
    app = in_line("running")
    assert go(app, table, 1, "sleep 1000") == {"ok": "started"}
    return app


def queued(table: str) -> list[str]:
    return [each.app for each in tickets(table) if each.state == "queued"]


def test_each_app_starts_when_its_turn_has_come(in_line, running, table):
    apps = [in_line() for _ in range(4)]
    for number, app in enumerate(apps, 2):
        assert go(app, table, number) == {"ok": "queued"}
    assert len({app.process() for app in apps}) == 1
    assert running.process() != apps[0].process()
    cancel_all("running")
    for app in apps:
        assert (app.ended().state, app.log()) == ("succeeded", "ran\n")
    starts = [app.replica().started_at for app in apps]
    assert starts == sorted(starts)


def test_the_record_of_an_app_names_the_holder_and_later_the_supervisor(in_line, running, table):
    app = in_line()
    assert go(app, table, 2) == {"ok": "queued"}
    holder = app.process()
    assert (app.view.supervisor, app.view.holder[0]) == (None, holder)
    assert app.view.owner.startswith(f"pid {holder} on ")
    cancel_all("running")
    view = app.ended()
    assert view.supervisor is not None
    assert view.supervisor[0] != holder
    kinds = [line.partition('"e":"')[2].partition('"')[0] for line in app.record.splitlines()]
    assert kinds[:4] == ["holder", "created", "queued", "supervisor"]
    assert "starting" in kinds


def test_a_cancelled_app_leaves_the_others_and_the_holder(in_line, running, table):
    apps = [in_line() for _ in range(3)]
    for number, app in enumerate(apps, 2):
        go(app, table, number)
    holder = apps[0].process()
    cancel_all("app-2")
    assert apps[1].view.state == "cancelled"
    assert queued(table) == ["app-1", "app-3"]
    assert apps[2].process() == holder
    cancel_all("running")
    assert [app.ended().state for app in (apps[0], apps[2])] == ["succeeded", "succeeded"]
    assert "spawn" not in apps[1].record


def test_the_holder_ends_with_its_last_app_and_leaves_nothing(in_line, line, running, table):
    app = in_line()
    go(app, table, 2)
    holder = app.process()
    line.close()
    cancel_all("running")
    assert app.ended().state == "succeeded"
    assert processes.gone([holder], timeout_s=PATIENCE_S)
    assert processes.gone(processes.of_home(paths.home()), timeout_s=PATIENCE_S)
    assert os.listdir(table) == ["lock"]
    assert Path(paths.local(), "line.err").read_text() == ""


def test_an_app_whose_client_dies_before_it_is_accepted_is_removed(in_line, table):
    app = in_line()
    assert app.create(app.role("main", sh("echo ran"))) == {"ok": "created"}
    app.hang_up()
    until(lambda: os.listdir(os.path.dirname(app.app_dir)) == [])


def test_an_app_that_cannot_start_at_once_is_undone(in_line, table, tmp_path):
    program = tmp_path / "program"
    program.write_text("#!/bin/none\n")
    program.chmod(0o700)
    app = in_line()
    assert app.create(app.role("main", [str(program)])) == {"ok": "created"}
    assert "No such file" in app.ask({"op": "go", "turn": turn(app, table, 1)})["error"]
    assert app.reply() is None
    assert not os.path.exists(app.app_dir)
    assert os.listdir(table) == ["lock"]


def test_a_killed_holder_leaves_apps_that_wait_for_their_next_apply(in_line, running, table):
    apps = [in_line() for _ in range(3)]
    for number, app in enumerate(apps, 2):
        go(app, table, number)
    holder = apps[0].process()
    os.kill(holder, signal.SIGKILL)
    assert processes.gone([holder], timeout_s=PATIENCE_S)
    for app in apps:
        assert (app.view.state, app.view.owner) == ("queued", "")
    assert running.view.state == "running"
    assert queued(table) == []
    cancel_all("running", "app-1", "app-2", "app-3")
    assert [app.view.state for app in apps] == ["cancelled"] * 3


def test_an_app_that_ended_in_line_is_waited_for_until_its_lock_is_free(in_line, running, table):
    """A client read the record before the holder released the lock, and the holder lives on."""
    app = in_line()
    go(app, table, 2)
    cancel_all("app-1")
    lock = AppFolder(app.app_dir).take_lock()
    waiting = threading.Thread(target=observe.wait_for_end, args=(app.app_dir, PATIENCE_S), daemon=True)
    waiting.start()
    waiting.join(0.2)
    assert waiting.is_alive()
    os.close(lock)
    waiting.join(PATIENCE_S / 2)
    assert not waiting.is_alive()


@pytest.fixture
def few_files() -> Iterator[int]:
    """A soft limit of open files below the hard limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1000, hard))
    yield 1000
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_killed_starter_is_replaced(few_files, in_line, running, table):
    app = in_line()
    go(app, table, 2, "ulimit -n")
    starters = [pid for pid in processes.everything() if "starter" in processes.describe(pid)]
    of_line = [pid for pid in starters if processes.parent(pid) == app.process()]
    processes.kill(of_line)
    assert processes.gone(of_line, timeout_s=PATIENCE_S)
    cancel_all("running")
    assert app.ended().state == "succeeded"
    assert app.log() == f"{few_files}\n"


def test_a_start_that_blocks_delays_no_other_app(in_line, running, table):
    """The process that forks supervisors is suspended, and the request is larger than any socket takes."""
    blocked, other = in_line(), in_line()
    big = [["sh", "-c", "exit 0", "x" * 100_000] for _ in range(20)]
    assert blocked.create(blocked.role("main", *big)) == {"ok": "created"}
    assert blocked.ask({"op": "go", "turn": turn(blocked, table, 2)}) == {"ok": "queued"}
    assert go(other, table, 3) == {"ok": "queued"}
    holder = other.process()
    [starter] = [
        pid
        for pid in processes.everything()
        if processes.parent(pid) == holder and "starter" in processes.describe(pid)
    ]
    os.kill(starter, signal.SIGSTOP)
    try:
        cancel_all("running")
        cancel_all("app-2")
        assert other.view.state == "cancelled"
        assert not blocked.view.has_ended
    finally:
        os.kill(starter, signal.SIGCONT)
    assert blocked.ended().state == "succeeded"


@pytest.mark.slow
def test_no_app_is_lost_when_the_table_is_away_for_a_while(in_line, running, table):
    """The app that the first one in line waits for has ended meanwhile."""
    app = in_line()
    go(app, table, 2)
    holder = app.process()
    os.rename(table, f"{table}.away")
    cancel_all("running")
    time.sleep(0.2)
    before = cpu_ticks(holder)
    time.sleep(2.0)
    assert cpu_ticks(holder) - before < 50
    os.rename(f"{table}.away", table)
    assert app.ended().state == "succeeded"
    assert "cannot take its place in line" in app.view.warnings[0]


def cpu_ticks(pid: int) -> int:
    """Return the CPU time of a process, in hundredths of a second."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def test_an_app_waits_for_others_of_the_same_line_and_of_another(in_line, running, table):
    first, second = in_line("first"), in_line("second")
    assert go(first, table, 2) == {"ok": "queued"}
    assert go(second, table, 3, needs=[("first", first.app_dir)]) == {"ok": "waiting"}
    another = LineClient()
    third = InLine(Path(paths.local_app("third")), another)
    assert go(third, table, 4, needs=[("second", second.app_dir)]) == {"ok": "waiting"}
    another.close()
    assert third.process() not in (0, second.process())
    cancel_all("running")
    for app in (first, second, third):
        assert (app.ended().state, app.log()) == ("succeeded", "ran\n")
    third.destroy()


def test_an_app_in_line_is_skipped_when_its_need_is_cancelled(in_line, running, table):
    first, second = in_line("first"), in_line("second")
    go(first, table, 2)
    assert go(second, table, 3, needs=[("first", first.app_dir)]) == {"ok": "waiting"}
    cancel_all("first")
    assert (second.ended().state, second.view.message) == ("skipped", "first was cancelled")


def test_the_secret_of_one_app_is_in_no_process_of_another(in_line, running, table):
    """Neither the process that forks supervisors nor the supervisor of another app has it."""
    first, second = in_line(), in_line()
    go(first, table, 2, "sleep 1000")
    assert go(second, table, 3, env={"TOKEN": SECRET}) == {"ok": "queued"}
    holder = second.process()
    assert SECRET.encode() in memory(holder)
    [starter] = [pid for pid in processes.everything() if processes.parent(pid) == holder]
    cancel_all("running")
    first.until(lambda view: view.state == "running")
    for pid in (starter, first.process()):
        assert SECRET.encode() not in memory(pid)
        links = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
        assert [link for link in links if "app-2" in link] == []
    starter_links = [os.readlink(f"/proc/{starter}/fd/{fd}") for fd in os.listdir(f"/proc/{starter}/fd")]
    assert [link for link in starter_links if "/apps/" in link or table in link] == []


def memory(pid: int) -> bytes:
    """Return the writable memory of a process."""
    parts = []
    with open(f"/proc/{pid}/maps", encoding="ascii") as maps, open(f"/proc/{pid}/mem", "rb") as file:
        for area in maps:
            where, how = area.split()[:2]
            if "w" in how:
                begin, end = (int(each, 16) for each in where.split("-"))
                file.seek(begin)
                try:
                    parts.append(file.read(end - begin))
                except OSError:
                    continue
    return b"".join(parts)


def test_replicas_have_the_environment_of_the_client_and_the_limits_of_the_user(in_line, table, monkeypatch):
    monkeypatch.setenv("OF_THE_CLIENT", "yes")
    app = in_line()
    assert go(app, table, 1, "echo $OF_THE_CLIENT; ulimit -n; ls /proc/self/fd") == {"ok": "started"}
    app.ended()
    lines = app.log().split()
    assert lines[:2] == ["yes", str(os.sysconf("SC_OPEN_MAX"))]
    assert [fd for fd in lines[2:] if 3 < int(fd) < 900] == []
