"""Tickets on disk, taken by real processes."""

import errno
import fcntl
import os
import select
import signal
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from launcher.turns import bells, machine, table as table_
from launcher.turns.line import HOLDS, MACHINE, QUEUED, Ask, Limit
from launcher.turns.table import Place, draw, summon, tickets

ONE_CORE = Limit(MACHINE, cpu=1)
LIMIT_S = 150.0
ROOT = Path(__file__).resolve().parents[3]

HOLDER = """
import sys
from launcher.turns.line import Ask, Limit
from launcher.turns.table import Place
table, app, number = sys.argv[1:]
place = Place(Ask(app, number=int(number), table=table, cpu=1, limits=[Limit(cpu=1)]))
print("holds" if place.look().starts else "queued", flush=True)
sys.stdin.read()
"""

KILLED = """
import os, signal, sys
from launcher.turns.line import Ask, Limit
from launcher.turns.table import Place
table, calls = sys.argv[1], int(sys.argv[2])
count = 0
def killing(change):
    def changed(*args):
        global count
        count += os.path.exists(args[0]) or change is not os.unlink
        if count >= calls:
            os.kill(os.getpid(), signal.SIGKILL)
        return change(*args)
    return changed
for name in ("unlink", "mkfifo", "rename"):
    setattr(os, name, killing(getattr(os, name)))
place = Place(Ask("a", number=1, table=table, cpu=1, limits=[Limit(cpu=1)]))
place.look()
place.leave()
"""


@pytest.fixture
def places() -> Iterator[list[Place]]:
    made: list[Place] = []
    yield made
    for place in made:
        place.leave()


def take(table: str, places: list[Place], app: str, number: int, **wanted: object) -> Place:
    place = Place(Ask(app, number=number, table=table, **{"cpu": 1, "limits": [ONE_CORE], **wanted}))
    places.append(place)
    place.look()
    return place


def has_changed(place: Place, timeout_s: float = LIMIT_S) -> bool:
    poll = select.poll()
    for fd in place.watched:
        poll.register(fd, 0)
    for fd in place.bells:
        poll.register(fd, select.POLLIN)
    return bool(poll.poll(timeout_s * 1000))


def of(table: str) -> list[tuple[str, str]]:
    return [(each.app, each.state) for each in tickets(table)]


def test_a_place_is_a_ticket_that_others_read(table: str, places: list[Place]) -> None:
    take(table, places, "a", 1, cpu=0.5, memory_mb=12, limits=[ONE_CORE, Limit("sweep", apps=2)])
    (found,) = tickets(table)
    assert (found.app, found.number, found.state) == ("a", 1, HOLDS)
    assert (found.cpu, found.memory_mb, found.gpus) == (0.5, 12, 0)
    assert found.groups == (MACHINE, "sweep")


def test_a_place_that_was_left_leaves_nothing(table: str, places: list[Place]) -> None:
    take(table, places, "a", 1).leave()
    take(table, places, "b", 2, engine="unix:///s").leave()
    assert os.listdir(table) == ["lock"]


def test_only_a_local_app_that_has_started_has_a_proof(table: str, places: list[Place]) -> None:
    take(table, places, "a", 1, cpu=0, engine="unix:///s")
    take(table, places, "b", 2)
    take(table, places, "c", 3)
    assert [name for name in sorted(os.listdir(table)) if "proof" in name] == ["2-b.bell.proof"]


def test_a_proof_is_kept_where_few_files_may_be_open(table, places, monkeypatch):
    monkeypatch.setattr(bells, "_HIGH", (1 << 30,))
    one = take(table, places, "a", 1)
    one.bequeath()
    os.close(os.dup(*one.proofs))
    assert bells.is_held(table_.proof(tickets(table)[0]))


def test_reading_the_table_removes_nothing(table: str, places: list[Place]) -> None:
    for name in ("1-dead", "2-later"):
        Path(table, name).write_text("something else\n")
        os.mkfifo(os.path.join(table, f"{name}.bell"))
    before = sorted(os.listdir(table))
    assert tickets(table) == []
    assert sorted(os.listdir(table)) == before


def test_a_held_ticket_of_a_later_version_stays(table: str, places: list[Place]) -> None:
    take(table, places, "a", 1)
    Path(table, "1-a").write_text("something else\n")
    assert take(table, places, "b", 2).starts
    assert {"1-a", "1-a.bell"} <= set(os.listdir(table))


def test_a_place_that_could_not_be_recorded_at_once_leaves_no_descriptor_open(table, tmp_path, places):
    gpus = tmp_path / "gpus"
    gpus.mkdir()
    mine = Place(Ask("a", number=1, table=table, gpus=1, devices=["0"], gpu_table=str(gpus)))
    places.append(mine)
    before = os.listdir("/proc/self/fd")
    (gpus / "1-a.bell").mkdir()
    with pytest.raises(FileExistsError):
        mine.look()
    (gpus / "1-a.bell").rmdir()
    assert mine.look().starts
    mine.leave()
    assert sorted(os.listdir("/proc/self/fd")) == sorted(before)


def test_an_app_in_line_is_woken_when_the_app_before_it_starts(table: str, places: list[Place]) -> None:
    one, two, three = (take(table, places, app, n) for n, app in enumerate("abc", 1))
    assert of(table) == [("a", HOLDS), ("b", QUEUED), ("c", QUEUED)]
    assert not has_changed(two, 0)
    one.leave()
    assert has_changed(two)
    assert not has_changed(three, 0)
    assert two.look().starts
    assert of(table) == [("b", HOLDS), ("c", QUEUED)]
    assert has_changed(three)
    assert not three.look().starts
    two.leave()
    assert has_changed(three)
    assert three.look().starts


def test_an_app_that_enters_in_between_is_watched(table: str, places: list[Place]) -> None:
    one = take(table, places, "a", 1)
    three = take(table, places, "c", 3)
    two = take(table, places, "b", 2)
    assert has_changed(three)
    three.look()
    two.leave()
    assert has_changed(three), "it still watches the holder alone"
    three.look()
    one.leave()
    assert has_changed(three)
    assert three.look().starts


def test_a_summoned_app_starts_beyond_the_limits(table: str, places: list[Place]) -> None:
    take(table, places, "a", 1)
    two, three = take(table, places, "b", 2), take(table, places, "c", 3)
    assert not summon(table, ["nothing"])
    assert not summon(table, ["a"])
    assert summon(table, ["c"])
    assert has_changed(three)
    assert not has_changed(two, 0)
    assert three.look().starts
    assert of(table) == [("a", HOLDS), ("b", QUEUED), ("c", HOLDS)]


def test_a_killed_holder_frees_its_share(table: str, places: list[Place]) -> None:
    argv = [sys.executable, "-c", HOLDER, table, "dead", "1"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "holds\n"
        mine = take(table, places, "mine", 2)
        assert not mine.starts
        process.send_signal(signal.SIGKILL)
        process.wait(LIMIT_S)
        assert has_changed(mine)
        assert mine.look().starts
    assert of(table) == [("mine", HOLDS)]
    assert sorted(name for name in os.listdir(table) if "dead" in name) == []


@pytest.mark.parametrize("unread", ["1-a.bell", "2-b.bell", "2-b"])
def test_a_holder_that_cannot_be_looked_at_is_not_dead(table, places, monkeypatch, unread):
    """A machine may let a process open no more files at this moment."""
    two_cores = [Limit(MACHINE, cpu=2)]
    one, _ = (take(table, places, app, n, limits=two_cores) for n, app in enumerate("ab", 1))
    mine = Place(Ask("c", number=3, table=table, cpu=1, limits=two_cores))
    places.append(mine)
    with monkeypatch.context() as full:

        def refuse(path: str, flags: int, *mode: int, real: Callable[..., int] = os.open) -> int:
            if os.path.basename(path) == unread:
                raise OSError(errno.ENFILE, os.strerror(errno.ENFILE))
            return real(path, flags, *mode)

        full.setattr(table_.os, "open", refuse)
        with pytest.raises(OSError, match="Too many open files"):
            mine.look()
    assert of(table) == [("a", HOLDS), ("b", HOLDS)]
    assert not mine.look().starts
    one.leave()
    assert has_changed(mine)
    assert mine.look().starts


def test_a_place_passes_to_a_process_that_inherits_it(table: str, places: list[Place]) -> None:
    given = Place(Ask("a", number=1, table=table, cpu=1, limits=[ONE_CORE]))
    assert given.look().starts
    (bell,) = given.bells
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, pass_fds=[bell]) as heir:
        given.release()
        waiting = take(table, places, "b", 2)
        assert not waiting.starts
        heir.stdin.close()
        heir.wait(LIMIT_S)
    assert has_changed(waiting)
    assert waiting.look().starts


def test_an_adopted_place_keeps_its_ticket(table: str, places: list[Place]) -> None:
    first = take(table, places, "a", 1)
    given = Place(Ask("b", number=2, table=table, cpu=1, limits=[ONE_CORE]))
    given.look()
    mine = Place.adopt(given.ask, [os.dup(fd) for fd in given.bells], dealt=None)
    places.append(mine)
    given.release()
    assert not mine.look().starts
    first.leave()
    assert has_changed(mine)
    assert mine.look().starts


def test_a_place_that_was_taken_again_outlives_its_first_holder(table: str, places: list[Place]) -> None:
    first = take(table, places, "a", 1)
    take(table, places, "a", 1, at_once=True)
    first.leave()
    assert of(table) == [("a", HOLDS)]


def test_gpus_are_shared_by_two_tables(tmp_path: Path, places: list[Place]) -> None:
    folders = [tmp_path / name for name in ("one", "two", "gpus")]
    for folder in folders:
        folder.mkdir()
    one, two, gpus = map(str, folders)
    wanted = {"gpus": 1, "devices": ["0", "1"], "gpu_table": gpus, "cpu": 0}
    a = take(one, places, "a", 1, **wanted)
    b = take(two, places, "b", 2, **wanted)
    c = take(two, places, "c", 3, **wanted)
    assert (a.dealt, b.dealt, c.dealt) == (("0",), ("1",), ())
    a.leave()
    assert has_changed(c)
    assert c.look().dealt == ("0",)


def test_numbers_of_tickets_rise_and_never_repeat(table, tmp_path, monkeypatch):
    other = tmp_path / "other"
    other.mkdir()
    begin = draw([table], 3)
    assert draw([table, str(other)], 1) >= begin + 3
    monkeypatch.setattr(table_.time, "time_ns", lambda: 1_000)
    last = draw([str(other)], 3)
    assert last > begin + 3
    assert draw([str(other)], 1) == last + 3


def test_a_table_without_a_folder_is_empty(tmp_path: Path) -> None:
    assert tickets(str(tmp_path / "none")) == []


def test_the_table_of_an_earlier_boot_is_removed_unless_it_is_used(tmp_path, places, monkeypatch):
    slots = tmp_path / "s"
    (slots / "mine").mkdir(parents=True)
    slots.chmod(0o700)
    (slots / "mine" / "1-file").write_text("not of ours")
    monkeypatch.setenv("LAUNCHER_SLOTS", str(slots))
    tables = []
    for boot in ("one", "two", "three"):
        monkeypatch.setattr(machine, "boot", lambda boot=boot: boot)
        tables.append(machine.table_folder())
        if boot == "two":
            take(tables[-1], places, "a", 1)
        else:
            draw([tables[-1]], 1)
    assert [os.path.isdir(each) for each in tables] == [False, True, True]
    assert (slots / "mine" / "1-file").read_text() == "not of ours"


def test_a_ticket_of_a_later_version_is_passed_over(table: str, places: list[Place]) -> None:
    place = take(table, places, "a", 1)
    Path(table, "1-a").write_text("something else\n")
    assert tickets(table) == []
    assert place.look().starts


def test_other_files_are_passed_over_and_stay(table: str, places: list[Place]) -> None:
    folder = Path(table)
    (folder / "notes.txt").write_text("mine")
    (folder / "folder").mkdir()
    (folder / "7-folder").mkdir()
    os.mkfifo(folder / "pipe")
    take(table, places, "a", 1)
    take(table, places, "b", 2)
    assert of(table) == [("a", HOLDS), ("b", QUEUED)]
    assert {"notes.txt", "folder", "pipe"} <= {*os.listdir(table)}


def test_a_ticket_that_is_a_pipe_or_a_folder_is_passed_over(table: str, places: list[Place]) -> None:
    """The bell of the ticket is held, so the ticket stays; reading it must not block."""
    for name, make in (("8-pipe", os.mkfifo), ("9-folder", os.mkdir)):
        taken = take(table, places, name[2:], int(name[0]))
        os.unlink(os.path.join(table, name))
        make(os.path.join(table, name))
        assert taken.bells
    mine = take(table, places, "mine", 1)
    assert mine.starts
    assert of(table) == [("mine", HOLDS)]
    os.rmdir(os.path.join(table, "9-folder"))


@pytest.mark.parametrize("cpu", ["nan", "inf", "-1"])
def test_a_ticket_that_asks_for_no_amount_is_passed_over(table: str, places: list[Place], cpu: str) -> None:
    taken = take(table, places, "a", 1, cpu=0.25)
    path = Path(table) / "1-a"
    path.write_text(path.read_text().replace("0.25", cpu))
    assert taken.starts
    assert of(table) == []


def test_a_huge_ticket_is_read_in_part(table: str, places: list[Place]) -> None:
    take(table, places, "a", 1)
    with open(os.path.join(table, "1-a"), "r+b") as file:
        file.truncate(100 << 20)
    tracemalloc.start()
    try:
        assert of(table) == [("a", HOLDS)]
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_an_app_in_line_is_watched_until_it_starts(table: str, places: list[Place]) -> None:
    one, two = take(table, places, "a", 1), take(table, places, "b", 2)
    fd = table_.watch(table, "b")
    assert fd is not None
    assert table_.watch(table, "a") is None
    poll = select.poll()
    poll.register(fd, 0)
    assert not poll.poll(0)
    one.leave()
    assert two.look().starts
    assert poll.poll(LIMIT_S * 1000)
    os.close(fd)


# Tickets of state folders


def test_equal_apps_of_two_state_folders_have_tickets_of_their_own(table: str, places: list[Place]) -> None:
    one = take(table, places, "a", 1, home="h1")
    two = take(table, places, "a", 1, home="h2")
    assert one.starts
    assert not two.starts
    assert [(each.home, each.state) for each in tickets(table)] == [("h1", HOLDS), ("h2", QUEUED)]
    two.leave()
    assert [each.home for each in tickets(table)] == ["h1"]


def test_only_the_app_of_its_own_state_folder_is_summoned_and_watched(table, places):
    one = take(table, places, "holder", 1, home="h1")
    mine, other = (take(table, places, "a", 2, home=home) for home in ("h1", "h2"))
    assert not summon(table, ["a"], "h3")
    assert table_.watch(table, "a", "h3") is None
    assert summon(table, ["a"], "h2")
    assert has_changed(other)
    assert other.look().starts
    assert one.starts
    assert not mine.look().starts


def test_facts_about_an_app_are_sent_as_groups(table: str) -> None:
    """An older version makes an Ask of the fields that it knows, and fails on any other field."""
    sent = Ask("a", table=table, limits=[ONE_CORE], home="h1", folder="/f", engine="unix:///s")
    data = sent.to_dict()
    assert sorted(data) == sorted(
        ["app", "at_once", "cpu", "devices", "gpu_table", "gpus", "limits", "memory_mb", "number", "table"]
    )
    assert [each[0] for each in data["limits"]] == [MACHINE, "home h1", "folder /f", "engine unix:///s"]
    got = Ask.from_dict(data)
    assert (got.home, got.folder, got.engine) == ("h1", "/f", "unix:///s")
    assert [each.group for each in got.limits] == [MACHINE]


def test_a_folder_that_no_line_can_hold_is_left_out(table: str, places: list[Place]) -> None:
    take(table, places, "a", 1, folder="/a\tb")
    take(table, places, "b", 2, folder="/\udcff")
    assert [each.folder for each in tickets(table)] == ["", "/\udcff"]


# Tickets of an older version


class OlderHolder:
    """A ticket as the version before state folders had tokens wrote it, held by this process."""

    def __init__(self, table: str, app: str, number: int, state: str) -> None:
        self.path = os.path.join(table, f"{number}-{app}")
        Path(self.path).write_text(
            "\t".join([app, str(number), state, "1.0", "0", "0", "", "", "", MACHINE]) + "\n"
        )
        os.mkfifo(f"{self.path}.bell", 0o600)
        self.bell = os.open(f"{self.path}.bell", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        fcntl.flock(self.bell, fcntl.LOCK_EX)

    def die(self) -> None:
        os.close(self.bell)


def test_holders_and_waiters_of_an_older_version_count_until_they_die(table, places):
    holder, waiter = OlderHolder(table, "a", 1, HOLDS), OlderHolder(table, "a", 2, QUEUED)
    mine = take(table, places, "a", 3, home="h1")
    assert not mine.starts
    assert of(table) == [("a", HOLDS), ("a", QUEUED), ("a", QUEUED)]
    waiter.die()
    assert has_changed(mine)
    assert not mine.look().starts
    holder.die()
    assert has_changed(mine)
    assert mine.look().starts
    assert of(table) == [("a", HOLDS)]


def test_an_app_in_line_of_an_older_version_is_summoned_where_no_other_has_its_name(table, places):
    older = OlderHolder(table, "a", 1, QUEUED)
    assert summon(table, ["a"], "h1")
    assert os.read(older.bell, 9) == b"n"
    take(table, places, "holder", 2)
    take(table, places, "a", 3, home="h1")
    assert summon(table, ["a"], "h1")
    with pytest.raises(BlockingIOError):
        os.read(older.bell, 9)
    older.die()


def test_an_older_version_reads_our_ticket_and_takes_no_other_file_for_a_ticket(table, places):
    take(table, places, "a", 1, home="h1", folder="/f")
    names = sorted(name for name in os.listdir(table) if name != "lock")
    assert names == ["1-a.h1", "1-a.h1.bell", "1-a.h1.bell.proof"]
    read_as_tickets = [name for name in names if name.partition("-")[0].isdecimal() and ".bell" not in name]
    assert read_as_tickets == ["1-a.h1"]
    fields = Path(table, "1-a.h1").read_text().rstrip("\n").split("\t")
    assert fields == ["a", "1", HOLDS, "1.0", "0", "0", "", "", "", MACHINE, "home h1", "folder /f"]


# Leftovers of dead holders


DOCKER = {"engine": "unix:///s", "home": "h1"}


def test_the_share_of_a_dead_watcher_counts_until_it_is_forgotten(table: str, places: list[Place]) -> None:
    dead = take(table, places, "a", 1, **DOCKER)
    mine = take(table, places, "b", 2)
    dead.release()  # as the end of its process does
    assert has_changed(mine)
    assert not mine.look().starts
    [left] = mine.left
    assert (left.app, left.is_left, left.engine) == ("a", True, "unix:///s")
    assert table_.forget(left)
    assert has_changed(mine)
    assert mine.look().starts
    assert mine.left == ()


def test_the_share_that_another_watcher_has_taken_again_is_not_forgotten(table, places):
    take(table, places, "a", 1, **DOCKER).release()
    [left] = tickets(table)
    take(table, places, "a", 1, at_once=True, **DOCKER)
    assert not table_.forget(left)
    assert of(table) == [("a", HOLDS)]


def test_a_watcher_that_is_killed_in_line_leaves_nothing(table: str, places: list[Place]) -> None:
    take(table, places, "holder", 1)
    take(table, places, "a", 2, **DOCKER).release()
    assert of(table) == [("holder", HOLDS)]


@pytest.mark.parametrize("calls", range(1, 9))
def test_a_process_killed_at_any_change_of_its_place_leaves_nothing_to_the_next_decision(
    table, places, calls
):
    """The process takes a place and leaves it again, and is killed at one change of the table."""
    with subprocess.Popen([sys.executable, "-c", KILLED, table, str(calls)], cwd=ROOT) as killed:
        assert killed.wait(LIMIT_S) == -signal.SIGKILL
    take(table, places, "b", 2)
    assert sorted(os.listdir(table)) == ["2-b", "2-b.bell", "2-b.bell.proof", "lock"]


def test_the_kills_at_changes_of_a_place_cover_every_change(table):
    with subprocess.Popen([sys.executable, "-c", KILLED, table, "9"], cwd=ROOT) as ended:
        assert ended.wait(LIMIT_S) == 0


def test_an_app_does_not_wait_for_leftovers_of_its_own_dead_watcher(table: str, places: list[Place]) -> None:
    """The app is submitted again, under another number."""
    take(table, places, "a", 1, **DOCKER).release()
    assert take(table, places, "a", 2, **DOCKER).starts
    assert [each.number for each in tickets(table)] == [2]


def test_the_first_app_in_line_is_woken_when_a_dead_holder_has_left_something(table, places):
    dead = take(table, places, "a", 1, **DOCKER)
    one, two = (take(table, places, app, n) for n, app in enumerate("bc", 2))
    table_.stir(table)
    assert not has_changed(one, 0)
    dead.release()
    assert has_changed(one)
    one.look()
    table_.stir(table)
    assert has_changed(one)
    assert not has_changed(two, 0)


def test_a_table_of_an_earlier_boot_is_removed_with_leftovers_of_dead_watchers(table, places):
    take(table, places, "a", 1, **DOCKER).release()
    table_.remove_unused(table)
    assert not os.path.exists(table)


def test_a_share_counts_until_the_last_process_has_closed_its_proof(table: str, places: list[Place]) -> None:
    """The processes are a supervisor that has died, and its replica."""
    dead = Place(Ask("a", number=1, table=table, cpu=1, limits=[ONE_CORE]))
    assert dead.look().starts
    dead.bequeath()
    proof = [int(fd) for fd in os.listdir("/proc/self/fd") if _leads_to(int(fd), table, "1-a.bell.proof")]
    assert len(proof) == 1
    assert proof[0] >= 900
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, pass_fds=proof) as replica:
        dead.release()
        mine = take(table, places, "b", 2)
        assert [each.app for each in mine.left] == ["a"]
        assert not has_changed(mine, 0)
        replica.stdin.close()
        assert has_changed(mine)
    assert mine.look().starts
    assert [name for name in os.listdir(table) if "1-a" in name] == []


def _leads_to(fd: int, *path: str) -> bool:
    try:
        return os.readlink(f"/proc/self/fd/{fd}") == os.path.join(*path)
    except OSError:
        return False
