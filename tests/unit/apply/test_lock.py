"""The lock around an apply: which client waits, how long, and what ends the wait. With real processes."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from launcher.apply.apply import apply_lock, lock_name
from launcher.errors import LockTimeoutError, StateError
from launcher.paths import actor
from tests import processes

HOLDER = """
import sys
from launcher.apply.apply import apply_lock
with apply_lock("vision", "default"):
    print("held", flush=True)
    sys.stdin.read()
"""

WAITER = """
from launcher.apply.apply import apply_lock
with apply_lock("vision", "default", timeout_s=None, on_wait=lambda owner: print(owner, flush=True)):
    print("got it", flush=True)
"""


class Client:
    """A Python process whose lines can be read one by one."""

    def __init__(self, code: str) -> None:
        pipe = subprocess.PIPE
        argv = [sys.executable, "-c", code]
        self.process = subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe, text=True)

    @property
    def pid(self) -> int:
        return self.process.pid

    def line(self) -> str:
        return self.process.stdout.readline().rstrip("\n")

    def leave(self) -> None:
        """Let a holder leave the body of its lock."""
        self.process.stdin.close()


@pytest.fixture
def start() -> Iterator[Callable[[str], Client]]:
    """A function that starts clients, all of which are ended with the test."""
    clients: list[Client] = []

    def started(code: str) -> Client:
        clients.append(Client(code))
        return clients[-1]

    yield started
    for client in clients:
        client.process.kill()
        with client.process:  # closes its pipes, waits for its end
            pass


@pytest.fixture
def holder(start: Callable[[str], Client]) -> Client:
    """A process that has the lock of vision, default."""
    client = start(HOLDER)
    assert client.line() == "held"
    return client


def test_the_lock_is_free_again_after_the_body_and_nothing_is_announced():
    for _ in range(2):
        with apply_lock("vision", "default", timeout_s=0, on_wait=pytest.fail):
            pass


def test_an_error_in_the_body_releases_the_lock():
    with pytest.raises(ZeroDivisionError), apply_lock("vision", "default"):
        _ = 1 / 0
    with apply_lock("vision", "default", timeout_s=0):
        pass


def test_locks_of_other_projects_and_targets_are_not_waited_for():
    with (
        apply_lock("vision", "default", timeout_s=0),
        apply_lock("vision", "prod", timeout_s=0),
        apply_lock("audio", "default", timeout_s=0),
    ):
        pass


def test_two_threads_of_one_process_wait_for_each_other():
    inside = threading.Event()
    leave = threading.Event()

    def hold() -> None:
        with apply_lock("vision", "default"):
            inside.set()
            leave.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    inside.wait()
    with apply_lock("vision", "default", on_wait=lambda _: leave.set()):
        pass
    thread.join()


def test_a_waiting_client_learns_the_holder_and_gets_the_lock_when_it_is_free(holder: Client):
    owners: list[str] = []

    def on_wait(owner: str) -> None:
        owners.append(owner)
        holder.leave()

    with apply_lock("vision", "default", on_wait=on_wait):
        assert holder.process.wait(timeout=60) == 0
    (owner,) = owners
    assert owner.startswith(f"{actor()}, pid {holder.pid}, since 20")


def test_the_lock_of_an_owner_that_was_killed_is_free_at_once(holder: Client):
    with apply_lock("vision", "default", on_wait=lambda _: holder.process.send_signal(signal.SIGKILL)):
        pass


def test_a_timeout_names_the_owner_of_the_lock(holder: Client):
    with pytest.raises(LockTimeoutError) as late, apply_lock("vision", "default", timeout_s=0.1):
        pytest.fail("two have the lock")
    assert str(late.value).startswith(f"another apply is at work: {actor()}, pid {holder.pid}, since 20")
    assert str(late.value).endswith("; waited 0.1 s for it")
    assert late.value.exit_code == 7


def test_a_timeout_of_zero_does_not_wait(holder: Client):
    with (
        pytest.raises(LockTimeoutError, match=f"pid {holder.pid}"),
        apply_lock("vision", "default", timeout_s=0, on_wait=pytest.fail),
    ):
        pytest.fail("two have the lock")


def test_a_client_that_gave_up_does_not_keep_the_lock(holder: Client):
    with pytest.raises(LockTimeoutError), apply_lock("vision", "default", timeout_s=0.05):
        pass
    holder.leave()
    for _ in range(3):
        with apply_lock("vision", "default", timeout_s=10):
            pass


def test_a_failing_callback_ends_the_wait(holder: Client):
    with pytest.raises(ZeroDivisionError), apply_lock("vision", "default", on_wait=lambda _: 1 / 0):
        pytest.fail("two have the lock")


def test_ctrl_c_ends_the_wait(holder: Client, start: Callable[[str], Client]):
    waiter = start(WAITER)
    assert f"pid {holder.pid}" in waiter.line()
    waiter.process.send_signal(signal.SIGINT)
    out, output = waiter.process.communicate(timeout=60)
    assert (out, waiter.process.returncode) == ("", -signal.SIGINT)
    assert "KeyboardInterrupt" in output
    assert holder.process.poll() is None


def test_a_process_started_meanwhile_does_not_keep_the_lock():
    with apply_lock("vision", "default"):
        child = os.posix_spawnp("sleep", ["sleep", "1000"], os.environ)
    try:
        with apply_lock("vision", "default", timeout_s=0):
            pass
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


@pytest.mark.slow
def test_waiting_takes_no_processor_time(holder: Client, start: Callable[[str], Client]):
    waiter = start(WAITER)
    waiter.line()  # it is about to wait
    while True:
        before = switches(waiter.pid)
        assert not processes.gone([waiter.pid], timeout_s=1.0)
        if switches(waiter.pid) == before:
            break  # a whole second without a wake-up; a waiter that polls never gets here
    holder.leave()
    assert waiter.line() == "got it"


def switches(pid: int) -> int:
    """Return how often the threads of a process have gone to sleep so far."""
    total = 0
    for thread in Path(f"/proc/{pid}/task").iterdir():
        for line in (thread / "status").read_text().splitlines():
            if line.startswith("voluntary_ctxt_switches:"):
                total += int(line.split()[1])
    return total


def test_the_file_left_behind_names_no_holder(launcher_home: Path):
    with apply_lock("vision", "prod"):
        assert actor() in (launcher_home / "locks" / "vision.prod").read_text()
    assert (launcher_home / "locks" / "vision.prod").read_text() == ""


def test_an_unusable_home_is_one_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("LAUNCHER_HOME", str(tmp_path / "file"))
    with pytest.raises(StateError, match="cannot write"), apply_lock("vision", "default"):
        pass


def test_a_name_from_python_cannot_leave_the_folder_nor_meet_another():
    assert lock_name("vision", "default") == "vision.default"
    assert "/" not in lock_name("../../etc", "x/y")
    pairs = [
        ("a.b", "c"), ("a", "b.c"), ("a%2e%b", "c"), ("a%2e%", "b.c"), ("ä", ""), ("%e4%", ""), ("", "ä"),
    ]  # fmt: skip
    assert len({lock_name(*pair) for pair in pairs}) == len(pairs)
    long = [lock_name("p" * 300, "t"), lock_name("p" * 301, "t")]
    assert len(set(long)) == 2
    assert max(map(len, long)) <= 255
