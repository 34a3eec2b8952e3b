"""What we ask of the kernel: identities that cannot be confused, waiting without polling."""

import os
import signal
import subprocess
import threading
from pathlib import Path

import pytest

from launcher import paths
from launcher.schedulers import pids
from launcher.schedulers.local import kernel
from launcher.schedulers.local.filewatch import AppsWatch, FileWatch
from launcher.schedulers.loop import Poller
from tests.waiting import until


@pytest.fixture(params=["native", "elsewhere"])
def system(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run the test with the calls of this system, and with those for other systems."""
    if request.param == "elsewhere":
        for module in (kernel, pids):
            monkeypatch.setattr(module, "LINUX", False)
        monkeypatch.delattr(os, "pidfd_open", raising=False)
    return str(request.param)


def test_a_process_is_named_by_pid_and_start(system: str) -> None:
    start = pids.start_time(os.getpid())
    assert start is not None
    assert pids.is_running(os.getpid(), start)
    if system == "native":
        assert not pids.is_running(os.getpid(), start + 1)


def test_a_zombie_does_not_run() -> None:
    child = subprocess.Popen(["true"])
    start = pids.start_time(child.pid) or 0
    assert pids.wait_for_exit(child.pid, start, 10)
    assert pids.start_time(child.pid) == start
    assert not pids.is_running(child.pid, start)
    child.wait()
    assert pids.start_time(child.pid) is None


def test_a_command_name_may_look_like_anything(tmp_path: Path) -> None:
    odd = tmp_path / ") S 1 1"
    odd.symlink_to("/bin/sleep")
    child = subprocess.Popen([str(odd), "1000"])
    found = pids.process(child.pid)
    assert (found.parent, found.alive) == (os.getpid(), True)
    child.kill()
    child.wait()


def test_waiting_for_an_exit_ends_with_the_process(system: str) -> None:
    child = subprocess.Popen(["sleep", "1000"])
    start = pids.start_time(child.pid) or 0
    assert not pids.wait_for_exit(child.pid, start, 0.05)
    fd = pids.open_pid(child.pid, start)
    assert fd is not None
    assert pids.send(child.pid, start, signal.SIGKILL)
    child.wait()
    assert pids.wait_readable([fd], 10) == [fd]
    os.close(fd)
    assert pids.wait_for_exit(child.pid, start)
    assert not pids.send(child.pid, start, signal.SIGKILL)
    assert pids.open_pid(child.pid, start) is None


def test_descendants_are_found_through_all_generations() -> None:
    child = subprocess.Popen(["sh", "-c", "sh -c 'sleep 1000; :' & echo; wait"], stdout=subprocess.PIPE)
    child.stdout.readline()
    until(lambda: len(pids.descendants([child.pid])) == 2)
    found = pids.descendants([child.pid])
    assert found[0].parent == child.pid
    for each in found:
        os.kill(each.pid, signal.SIGKILL)
    child.wait()
    child.stdout.close()


def test_a_change_is_seen_even_of_a_file_that_was_not_there_and_none_of_another(system, tmp_path):
    path = tmp_path / "file"
    watch = FileWatch([str(path)])
    (tmp_path / "other").write_text("")
    assert watch.wait(0.05) == set()
    path.write_text("one")
    assert watch.wait(10) == {str(path)}
    with path.open("a") as file:
        file.write("two")
    assert watch.wait(10) == {str(path)}
    path.unlink()
    assert watch.wait(10) == {str(path)}
    watch.close()


def test_a_watch_needs_the_folder(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        FileWatch([str(tmp_path / "no" / "file")])


@pytest.mark.parametrize("timeout_s", [30 * 86400, 10 * 365 * 86400, float("inf")])
def test_a_wait_may_last_for_longer_than_the_kernel_counts(system, timeout_s, tmp_path):
    child = subprocess.Popen(["sleep", "0.1"])
    start = pids.start_time(child.pid) or 0
    reaper = threading.Thread(target=child.wait)  # without it, other systems see a process that still runs
    reaper.start()
    assert pids.wait_for_exit(child.pid, start, timeout_s)
    reaper.join()
    read, write = os.pipe()
    poller = Poller()
    poller.add(read)
    os.close(write)
    assert poller.wait(timeout_s) == [read]
    watch = FileWatch([str(tmp_path / "file")])
    assert watch.wait(timeout_s, read) == set()
    watch.close()
    os.close(read)


def test_a_watch_of_apps_names_the_apps_that_have_written_an_event(system: str) -> None:
    for name in ("a", "b"):
        os.makedirs(paths.local_app(name))
    watch = AppsWatch()
    assert watch.changed({"a", "b", "removed"}) == {"a", "b", "removed"}
    assert watch.changed({"a", "b"}) == set()
    Path(paths.local_app("a"), "events.jsonl").write_text("{}\n")
    assert watch.changed({"a", "b"}) == {"a"}
    assert watch.changed({"a", "b"}) == set()
    watch.close()
