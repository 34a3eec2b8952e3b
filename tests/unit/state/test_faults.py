"""The ledger with many writers, a kill, a full or read-only disk, a newer version, damage."""

import errno
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from launcher import paths
from launcher.database import _filesystem, _refuse_network
from launcher.errors import DamagedError, StateError
from launcher.state.rows import VERSION
from launcher.state.store import Store
from tests.lanes import sampled
from tests.unit.state.attempts import attempt, key

WRITER = """
import sys
from launcher.state.store import Store
from tests.unit.state.attempts import attempt

first, count = map(int, sys.argv[1:])
for number in range(first, first + count):
    with Store.open() as ledger:
        ledger.record(attempt(number=number))
    print(number, flush=True)
"""

READER = """
from launcher.state.store import Store
with Store.open(readonly=True) as ledger:
    print(sorted(found.number for found in ledger.latest().values()))
"""

# Root may write everywhere, so the process becomes another user, after imports that may need root.
STRANGER = f"""
import json, zlib, os
import launcher.specs.attempt, launcher.state.store
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
{READER}
"""


def python(code: str, *args: str, **popen: object) -> subprocess.Popen[str]:
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([sys.executable, "-c", code, *args], text=True, **{**pipes, **popen})


def mounted(script: str, code: str) -> str:
    """Return the output of Python `code`, after shell `script` in a mount namespace of its own."""
    if not shutil.which("unshare") or os.geteuid() != 0:
        pytest.skip("needs root and unshare(1), to mount something")
    argv = ["unshare", "-m", "sh", "-c", f'{script} || exit 99; exec "$@"', "sh", sys.executable, "-c", code]
    done = subprocess.run(argv, capture_output=True, text=True)
    if done.returncode == 99:
        pytest.skip(f"mounting is not allowed here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def open_home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A LAUNCHER_HOME that others can look into: tmp_path is closed to them."""
    home = Path(tempfile.mkdtemp())
    monkeypatch.setenv("LAUNCHER_HOME", str(home))
    yield home
    home.chmod(0o700)
    shutil.rmtree(home)


def close_for_writing(home: Path) -> None:
    for path in home.iterdir():
        path.chmod(0o444)
    home.chmod(0o555)


# Writers


@pytest.mark.slow
def test_sixteen_writers_at_once_lose_nothing(launcher_home: Path):
    each = 10
    writers = [python(WRITER, str(1 + number * each), str(each)) for number in range(16)]  # they make it, too
    for writer in writers:
        _, output = writer.communicate(timeout=100)
        assert writer.returncode == 0, output
    with Store.open(readonly=True) as store:
        assert sorted(found.number for found in store.attempts(key())) == list(range(1, 16 * each + 1))


def test_sigkill_of_a_writer_loses_nothing_that_it_has_recorded():
    with python(WRITER, "1", "100000") as writer:
        printed = [writer.stdout.readline() for _ in range(20)]
        writer.send_signal(signal.SIGKILL)
        printed += writer.stdout.readlines()  # not communicate(): it passes over what readline() read ahead
    with Store.open() as store:
        numbers = [found.number for found in store.attempts(key())]
        assert numbers[::-1] == list(range(1, len(numbers) + 1))
        assert len(numbers) - len(printed) in (0, 1), "at most the one that was about to be printed"
        assert store.record(attempt(number=len(numbers) + 1)), "and the next writer goes on"


def test_a_ledger_that_a_killed_process_left_half_made_can_be_made(launcher_home: Path):
    launcher_home.mkdir()
    half = sqlite3.connect(launcher_home / "ledger.db")
    half.execute("PRAGMA journal_mode=WAL")  # and no tables yet
    half.close()
    with Store.open(readonly=True) as read:
        assert read.latest() == {}
    with Store.open() as store:
        assert store.record(attempt())


# Read-only


def test_reading_where_there_is_no_ledger_finds_nothing_and_makes_nothing(launcher_home: Path):
    with Store.open(readonly=True) as store:
        assert store.latest() == {}
        assert store.newest() == []
    assert not launcher_home.exists()


@pytest.mark.parametrize("exists", [False, True])
def test_a_ledger_opened_for_reading_cannot_be_written(exists: bool):
    if exists:
        Store.open().close()
    with Store.open(readonly=True) as store, pytest.raises(StateError, match="readonly database"):
        store.record(attempt())


def test_a_folder_that_cannot_be_made_is_one_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("LAUNCHER_HOME", str(tmp_path / "file" / "home"))
    with pytest.raises(StateError, match=r"cannot write .*: Not a directory") as failed:
        Store.open()
    assert "LAUNCHER_HOME" in str(failed.value.hint)
    with pytest.raises(StateError, match=r"cannot read .*: Not a directory"):
        Store.open(readonly=True)


def test_a_folder_in_the_place_of_the_ledger_is_one_clear_error(launcher_home: Path):
    (launcher_home / "ledger.db").mkdir(parents=True)
    with pytest.raises(StateError, match=r"cannot write .*ledger\.db: Is a directory"):
        Store.open()
    with pytest.raises(StateError, match=r"cannot use .*ledger\.db"):
        Store.open(readonly=True)


def test_a_pipe_in_the_place_of_the_ledger_is_one_clear_error_at_once(launcher_home: Path):
    launcher_home.mkdir()
    os.mkfifo(launcher_home / "ledger.db")
    for readonly in (True, False):
        with pytest.raises(StateError, match=r"cannot (use|write) .*ledger\.db: Invalid argument"):
            Store.open(readonly=readonly)


@pytest.mark.parametrize("suffix", ["-wal", "-shm"])
def test_a_file_beside_the_ledger_that_cannot_be_opened_is_named(launcher_home: Path, suffix: str):
    with Store.open() as store:
        store.record(attempt())
        kept = launcher_home / f"ledger.db{suffix}"
        saved = kept.rename(launcher_home / "saved")
    kept.symlink_to("nowhere/at-all")
    for readonly in (True, False):
        with pytest.raises(StateError, match=rf"cannot use .*ledger\.db{suffix}: No such file"):
            Store.open(readonly=readonly)
    kept.unlink()
    saved.unlink()


def test_a_ledger_on_a_read_only_file_system_can_be_read_and_not_written(launcher_home: Path):
    with Store.open() as store:
        store.record(attempt(number=7))
    read_only = f"mount --bind {launcher_home} {launcher_home} && mount -o remount,ro,bind {launcher_home}"
    assert mounted(read_only, READER) == "[7]\n"
    writing = (
        "from launcher.state.store import Store\ntry: Store.open()\nexcept Exception as e: print(repr(e))"
    )
    written = mounted(read_only, writing)
    assert written.startswith("StateError('cannot write ")
    assert "Read-only file system" in written


def test_a_ledger_in_a_folder_without_write_permission_can_be_read(open_home: Path):
    with Store.open() as store:
        store.record(attempt(number=7))
    close_for_writing(open_home)
    out, output = python(STRANGER).communicate(timeout=30)
    assert (out, output) == ("[7]\n", "")
    assert [path.name for path in open_home.iterdir()] == ["ledger.db"]


def test_last_entries_that_cannot_be_read_are_not_passed_over(open_home: Path):
    with Store.open() as store:
        store.record(attempt(number=7))
        shutil.copy(open_home / "ledger.db-wal", open_home / "kept")  # as of a writer that was killed
    (open_home / "kept").rename(open_home / "ledger.db-wal")
    close_for_writing(open_home)
    _, output = python(STRANGER).communicate(timeout=30)
    assert "its last entries are in" in output


# A full disk, damage, versions


FULL = "is the disk full, or over its quota? `launcher gc --dry-run` shows what launcher can remove"


def test_a_full_disk_is_one_clear_error_and_recorded_attempts_stay(launcher_home: Path):
    code = """
from launcher.errors import StateError
from launcher.state.store import Store
from tests.unit.state.attempts import attempt

number = 0
try:
    with Store.open() as ledger:
        while True:
            ledger.record(attempt(number=number + 1))
            number += 1
except StateError as error:
    print(number, error.hint, "|", error)
with Store.open(readonly=True) as ledger:
    print(len(ledger.attempts(attempt().key)))
"""
    launcher_home.mkdir()
    first, second = mounted(f"mount -t tmpfs -o mode=700,size=1m tmpfs {launcher_home}", code).splitlines()
    number, rest = first.split(" ", 1)
    assert rest.startswith(f"{FULL} | cannot use ")
    assert (int(number) > 0, second) == (True, number)


def test_a_disk_without_room_for_another_file_is_full_and_its_ledger_can_be_read(launcher_home: Path):
    code = f"""
import os
from launcher.errors import StateError
from launcher.state.store import Store
from tests.unit.state.attempts import attempt

with Store.open() as ledger:
    ledger.record(attempt(number=7))
try:
    while True:
        os.mkdir(os.path.join({str(launcher_home)!r}, f"more-{{len(os.listdir({str(launcher_home)!r}))}}"))
except OSError:
    pass
with Store.open(readonly=True) as ledger:
    print([found.number for found in ledger.attempts(attempt().key)])
try:
    Store.open()
except StateError as error:
    print(error.hint)
"""
    launcher_home.mkdir()
    output = mounted(f"mount -t tmpfs -o mode=700,nr_inodes=12 tmpfs {launcher_home}", code)
    assert output.splitlines() == ["[7]", FULL]


def test_a_disk_without_room_for_a_ledger_is_one_clear_error(launcher_home: Path):
    code = "from launcher.state.store import Store\ntry: Store.open()\nexcept Exception as e: print(repr(e))"
    launcher_home.mkdir()
    output = mounted(f"mount -t tmpfs -o mode=700,size=16k tmpfs {launcher_home}", code)
    assert output.startswith("FullDiskError('cannot use ")


@pytest.mark.parametrize("readonly", [False, True])
def test_a_ledger_of_a_newer_version_is_refused_and_left_alone(launcher_home: Path, readonly: bool):
    with Store.open() as store:
        store._connection.execute(f"PRAGMA user_version={VERSION + 1}")
    (launcher_home / "ledger.db.v1.bak").write_bytes(b"")  # a copy that this version cannot use
    before = (launcher_home / "ledger.db").read_bytes()
    with pytest.raises(
        StateError,
        match=rf"written by a newer launcher \(schema {VERSION + 1}; this one knows up to {VERSION}\)",
    ) as failed:
        Store.open(readonly=readonly)
    assert failed.value.hint == "update launcher, or set LAUNCHER_HOME to another folder"
    assert (launcher_home / "ledger.db").read_bytes() == before


# Network file systems


def test_the_file_system_of_a_folder_is_found_by_its_device(tmp_path: Path):
    device = tmp_path.stat().st_dev
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        "22 1 0:99 / /other rw shared:1 - ext4 /dev/other rw\n"
        f"23 1 {os.major(device)}:{os.minor(device)} / /here rw shared:2 master:1 - nfs4 host:/export rw\n"
    )
    assert _filesystem(str(tmp_path), str(mounts)) == "nfs4"
    assert _filesystem(str(tmp_path), str(tmp_path / "none")) == ""


def test_a_network_file_system_is_refused_with_a_hint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("launcher.database._filesystem", lambda folder: "nfs4")
    with pytest.raises(StateError, match=r"is on a network file system \(nfs4\)") as failed:
        _refuse_network(str(tmp_path))
    assert failed.value.hint == "set LAUNCHER_HOME to a folder on a local disk"


@pytest.mark.slow
@pytest.mark.parametrize("step", sampled([7, 2], 7))
def test_whatever_byte_of_the_ledger_is_wrong_it_can_be_used(launcher_home: Path, step: int):
    """A wrong byte of header, schema or rows is read well, replaced, or reported."""
    with Store.open() as store:
        for number in range(1, 4):
            store.record(attempt(number=number))
    path = launcher_home / "ledger.db"
    good = path.read_bytes()
    hints = []
    for position in [*range(0, 100, step), *range(100, len(good), 61 * step)]:
        for name in launcher_home.iterdir():
            name.unlink()
        path.write_bytes(good[:position] + bytes([good[position] ^ 0x81]) + good[position + 1 :])
        try:
            with Store.open(readonly=position % 2 == 0) as store:
                for entry in store.newest(-1):
                    store.by_app_id(entry.app_id)
        except StateError as error:
            hints.append(error.hint)
    assert len(hints) < 30, "of a newer version, or values that SQLite itself finds no fault with"
    assert set(hints) <= {DamagedError("").hint, "update launcher, or set LAUNCHER_HOME to another folder"}


@pytest.mark.parametrize(("limit", "opens"), [(4, False), (5, False), (6, True), (7, True)])
def test_a_limit_of_open_files_is_named_as_what_it_is(launcher_home: Path, limit: int, opens: bool):
    """SQLite says "unable to open database file" for it. It opens three files beside the standard ones."""
    with Store.open() as store:
        store.record(attempt(number=1))
    code = (
        "import resource\nfrom launcher.errors import StateError\nfrom launcher.state.store import Store\n"
        "Store.open(readonly=True).close()\n"
        f"resource.setrlimit(resource.RLIMIT_NOFILE, ({limit}, {limit}))\n"
        "try: Store.open().record_nothing\n"
        "except AttributeError: print('opened')\n"
        "except StateError as e: print(e.hint)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ("opened" if opens else paths.remedy(OSError(errno.EMFILE, "")))
