"""The watcher of an app on the real engine: its decisions, and kills of clients and watchers."""

import itertools
import os
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path
from socket import socketpair

import pytest

from launcher.holding.journal import JournalWriter
from launcher.schedulers.docker import record
from launcher.schedulers.docker.client.engine import Engine
from launcher.schedulers.docker.client.errors import EngineError
from launcher.schedulers.docker.facts import unended
from launcher.schedulers.docker.journal import Journal
from launcher.schedulers.docker.watching import actions, client
from launcher.schedulers.docker.watching.client import WatcherClient, wait_for_exit
from launcher.schedulers.docker.watching.waiting import ensure_watched
from launcher.schedulers.docker.watching.watcher import Watcher
from launcher.schedulers.owner import Owner
from tests import processes
from tests.engines.proxy import Proxy
from tests.scenarios.docker_engine.raw_apps import SLEEP, RawApp
from tests.waiting import PATIENCE_S, until

Make = Callable[..., RawApp]
UNTIL_END = "until test -e /end; do sleep 0.05; done"
"""Shell text that waits for `_let_end`."""


def test_a_cancelled_app_stays_cancelled_when_its_record_is_removed(app: Make) -> None:
    """The names of its containers show it: an app without a job has no other record on the engine."""
    made = app({"r": [SLEEP]})
    made.start()
    actions.cancel(made.engine, made.app_id)
    record.remove(made.app_dir)
    found = made.view()
    assert (found.state, found.final) == ("cancelled", True)


def test_cancelling_a_created_app_removes_it(app: Make) -> None:
    made = app({"r": [SLEEP]})
    made.create()
    made.engine.create_volume(f"{made.app_id}-scratch", {"launcher.app-id": made.app_id})
    actions.cancel(made.engine, made.app_id)
    assert made.containers() == []
    assert made.engine.volumes(made.label) == []


@pytest.mark.parametrize("count", [0, 1])
def test_a_watcher_removes_the_app_of_a_client_that_dies_before_the_start(app: Make, count: int) -> None:
    made = app({"r": [SLEEP, SLEEP][: max(count, 1)]})
    watcher = made.spawn()
    if count:
        made.create()
    made.release()
    assert watcher.close(PATIENCE_S)
    assert made.containers() == []
    assert record.app_ids() == []


def test_an_app_is_known_to_run_while_its_watcher_still_loads(app: Make, launcher_home: Path) -> None:
    made = app({"r": [SLEEP]})
    watcher = made.spawn()
    [pid] = processes.watchers(str(launcher_home))
    os.kill(pid, signal.SIGSTOP)
    first, *_ = made.create()
    watcher.go()
    made.engine.start(first)
    watcher.started()
    journal = record.journal(made.app_dir)
    os.kill(pid, signal.SIGCONT)
    assert journal is not None
    assert journal.app.started_at is not None


def test_a_replica_stopped_by_hand_while_the_watcher_still_loads_cancels_the_app(app, launcher_home):
    made = app({"r": [SLEEP, SLEEP]}, retries={"r": (2, "APPLICATION")})
    watcher = made.spawn()
    [pid] = processes.watchers(str(launcher_home))
    os.kill(pid, signal.SIGSTOP)
    containers = made.create()
    watcher.go()
    for container in containers:
        made.engine.start(container)
    made.engine.stop(made.name("r", 1), 0)
    later = time.time() + 2  # a stream of events may begin with those of the second before
    until(lambda: time.time() > later)
    watcher.started()
    made.release()
    watcher.close()
    os.kill(pid, signal.SIGCONT)
    found = made.end()
    assert (found.state, found.drift, found.num_restarts) == ("cancelled", "r/1 was stopped by hand", 0)


def test_a_watcher_completes_a_recorded_start_whose_client_died_before_it_sent_go(app):
    made = app({"r": [SLEEP, SLEEP]})
    watcher = made.spawn()
    made.create()
    record.append(made.app_dir, "starting")
    made.release()
    watcher.close()
    until(lambda: [each.state for each in made.containers()] == ["running"] * 2)


def test_abort_removes_the_started_containers(app: Make) -> None:
    made = app({"r": [SLEEP, SLEEP]})
    watcher = made.spawn()
    first, _ = made.create()
    watcher.go()
    made.engine.start(first)
    made.release()
    assert watcher.abort()
    assert (made.containers(), record.app_ids()) == ([], [])


def test_an_app_whose_restart_the_engine_refuses_fails_with_the_message_of_the_engine(app, own):
    theirs = f"{own.token}-theirs"
    own.engine.ensure_network(theirs, own.labels())
    made = app({"r": [f"{UNTIL_END}; exit 3"]}, retries={"r": (2, "ROLE")}, network=theirs)
    made.start()
    _kill_watcher(made)
    _let_end(made)
    until(lambda: all(each.ended for each in made.containers()))
    own.engine.remove_network(theirs)
    assert ensure_watched(made.engine, made.app_id)
    found = made.end()
    assert (found.state, found.num_restarts, found.final) == ("failed", 1, True)
    assert re.fullmatch(r"r/0 could not be started again: network \w+ not found", found.message)


def test_a_watcher_survives_requests_that_the_engine_refuses(app, tmp_path, monkeypatch):
    """A busy engine, or one short of memory, refuses requests that it accepts a moment later."""
    lists, streams = itertools.count(1), itertools.count(1)

    def refuses_some(_: str, path: str) -> bool:
        if "/events" in path:
            return next(streams) != 1
        return "/containers/json" not in path or next(lists) not in (1, 3, 4)

    with Proxy(tmp_path / "p.sock", refuses_some) as proxy:
        made = app({"r": ["exit 3"]}, retries={"r": (1, "ROLE")})
        with monkeypatch.context() as environment:
            environment.setenv("DOCKER_HOST", proxy.host)  # of the watcher alone
            watcher = made.spawn()
        watcher.go()
        for container in made.create():
            made.engine.start(container)
        assert watcher.started()
        made.release()
        watcher.close()
        found = made.end()
        assert (found.state, found.num_restarts, found.final) == ("failed", 1, True)
        assert len(proxy.refused) == 4


def _in_this_process(made: RawApp) -> Watcher:
    """Return a watcher that has the app, and no other client."""
    record.append(made.app_dir, "starting")
    ours, theirs = socketpair()
    watcher = Watcher(made.engine)
    watcher.serve(theirs)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(client, "_start", lambda *_: (ours, os.getpid()))
        WatcherClient.spawn(made.claim(), made.app_id, resumed=True).close()
    made.release()
    return watcher


def _run(watcher: Watcher) -> None:
    watcher.run()
    watcher.close()


def test_a_watcher_gives_up_starts_that_the_engine_ignores_without_an_error(app, monkeypatch):
    made = app({"r": ["true", "true"]})
    first, _ = made.create()
    made.engine.start(first)
    asked: list[str] = []
    monkeypatch.setattr(Engine, "start_on", lambda *asked_for: asked.append(asked_for[-1]))
    _run(_in_this_process(made))
    found = made.view()
    assert (found.state, found.message, len(asked)) == ("failed", f"r/1 {NEVER}", 1)


NEVER = "could not be started: it never began to run"


def test_a_watcher_gives_up_refused_starts_also_when_it_cannot_record_them(app, monkeypatch):
    """The journal takes no line on a full disk: the watcher still knows which starts it has given up."""
    made = app({"r": ["true", "true"]})
    first, _ = made.create()
    made.engine.start(first)
    watcher, asked, refused = _in_this_process(made), [], []
    write = JournalWriter._write

    def refuse(_: Engine, _network: str, _labels: object, container: str) -> None:
        asked.append(container)
        raise EngineError("cannot start it: no more room")

    monkeypatch.setattr(Engine, "start_on", refuse)

    def write_later(writer: JournalWriter) -> int:
        refused.append(writer)
        return write(writer) if len(refused) > 3 else 0

    monkeypatch.setattr(JournalWriter, "_write", write_later)
    _run(watcher)
    assert len(asked) == 1
    assert made.states() == ["r/0 succeeded", "r/1 failed"]


def test_a_replica_that_ends_before_its_stop_keeps_its_own_end(app: Make) -> None:
    made = app({"b": ["exit 3", f"{UNTIL_END}; exit 4"]})
    made.lock = record.claim(made.app_dir)
    for each in made.create():
        made.engine.start(each)
    outdated = made.containers()
    _let_end(made, "b", 1)
    until(lambda: all(each.ended for each in made.containers()))
    actions.stop(made.engine, made.app_dir, unended(Journal().app, outdated), "peer", 0.0)
    assert made.states() == ["b/0 failed", "b/1 failed"]
    assert [each.name for each in made.containers()] == [made.name("b", 0), made.name("b", 1)]


def test_a_new_watcher_without_a_record_ends_the_app_without_restarts(app: Make) -> None:
    made = app({"r": [f"{UNTIL_END}; exit 4"], "peer": [SLEEP]}, retries={"r": (1, "APPLICATION")})
    made.start()
    _kill_watcher(made)
    record.remove(made.app_dir)
    assert ensure_watched(made.engine, made.app_id)
    _let_end(made)
    found = made.end()
    assert (found.state, found.num_restarts, found.exit_code) == ("failed", 0, 4)


def test_a_watcher_whose_record_was_removed_changes_no_container(app: Make) -> None:
    made = app({"r": [f"{UNTIL_END}; exit 4"], "peer": [SLEEP]})
    made.start()
    pid = made.watcher_pid()
    record.remove(made.app_dir)
    _let_end(made)
    assert processes.gone([pid], timeout_s=PATIENCE_S)
    until(lambda: [each.state for each in made.containers()] == ["running", "exited"])


def test_an_app_of_another_machine_gets_no_watcher_on_this_machine(app: Make) -> None:
    made = app({"r": [SLEEP]}, owner=Owner("far", "boot", 1, 1))
    made.engine.start(made.create()[0])
    assert not ensure_watched(made.engine, made.app_id)


def test_an_idle_watcher_sleeps_and_uses_little_memory(app: Make) -> None:
    made = app({"r": [SLEEP]})
    made.start()
    pid = _idle_watcher(made)
    status = Path(f"/proc/{pid}/status").read_text()
    assert int(status.partition("VmRSS:")[2].split()[0]) < 48 * 1024
    until(lambda: _asleep(pid, 1.0))  # the apps of other tests wake it


def _let_end(made: RawApp, role: str = "r", k: int = 0) -> None:
    made.engine.put_archive(made.name(role, k), "/", _empty_file("end"))


def _kill_watcher(made: RawApp) -> None:
    pid = made.watcher_pid()
    os.kill(pid, signal.SIGKILL)
    assert processes.gone([pid], timeout_s=PATIENCE_S)
    assert wait_for_exit(made.app_dir, PATIENCE_S)


def _idle_watcher(made: RawApp) -> int:
    """Return the pid of the watcher once it sleeps: it has taken its first look."""
    pid = made.watcher_pid()
    until(lambda: len(os.listdir(f"/proc/{pid}/task")) > 1 and _asleep(pid))
    return pid


def _asleep(pid: int, for_s: float = 0.3) -> bool:
    try:
        before = _switches(pid)
        time.sleep(for_s)  # nothing happens: that is what is looked at
        return _switches(pid) == before and "R" not in _states(pid)
    except (FileNotFoundError, ProcessLookupError):  # one of its threads has just ended
        return False


def _states(pid: int) -> list[str]:
    """Return the states of the watcher's threads: "R" for a thread that runs or waits for a processor."""
    stats = [each.joinpath("stat").read_text() for each in Path(f"/proc/{pid}/task").iterdir()]
    return [stat.rpartition(")")[2].split()[0] for stat in stats]


def _switches(pid: int) -> str:
    tasks = sorted(Path(f"/proc/{pid}/task").iterdir())
    return "".join(each.joinpath("status").read_text().partition("voluntary_ctxt")[2] for each in tasks)


def _empty_file(name: str) -> bytes:
    import io
    import tarfile

    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        tar.addfile(tarfile.TarInfo(name))
    return out.getvalue()
