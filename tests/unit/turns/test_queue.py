"""The line of a process that holds many apps, beside apps that have a process each."""

import os
import random
import resource
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from launcher.turns.line import ALL, HOLDS, LINE, MACHINE, QUEUED, Ask, Limit
from launcher.turns.queue import Queue
from launcher.turns.table import Place, in_lines, summon, tickets

ONE_CORE = Limit(MACHINE, cpu=1)
LIMIT_S = 150.0
ROOT = Path(__file__).resolve().parents[3]

HOLDER = """
import sys
from launcher.turns.line import Ask, Limit
from launcher.turns.queue import Queue
queue = Queue()
for number in range(1, 4):
    queue.join(Ask(f"app-{number}", number=number, table=sys.argv[1], cpu=1, limits=[Limit(cpu=0)]))
queue.join(Ask("last", number=9, table=sys.argv[1], cpu=1, limits=[Limit(cpu=1)]))
queue.look()
print("in line", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def gpu_table(tmp_path: Path) -> str:
    folder = tmp_path / "gpus"
    folder.mkdir()
    return str(folder)


@pytest.fixture
def queue(table: str) -> Iterator[Queue]:
    made = Queue()
    yield made
    made.awaited.follow(())


def ask(table: str, app: str, number: int, **wanted) -> Ask:
    return Ask(app, number=number, table=table, **{"cpu": 1, "limits": [ONE_CORE], **wanted})


def apps(places: list[Place]) -> list[str]:
    return [place.ask.app for place in places]


def listed(table: str) -> list[tuple[str, str]]:
    return [(each.app, each.state) for each in tickets(table)]


def is_stirred(queue: Queue, timeout_s: float = LIMIT_S) -> bool:
    poll = select.poll()
    for fd in queue.bells:
        poll.register(fd, select.POLLIN)
    for fd in queue.awaited.fds:
        poll.register(fd, 0)
    return bool(poll.poll(timeout_s * 1000))


def test_each_app_starts_in_the_order_of_numbers_when_the_app_before_has_left(table, queue):
    queue.join(ask(table, "a", 1))
    [first] = queue.look()
    assert not queue.join(ask(table, "c", 3)) or queue.look() == []
    queue.join(ask(table, "b", 2))
    assert queue.look() == []
    assert listed(table) == [("a", HOLDS), ("b", QUEUED), ("c", QUEUED)]
    for name in ("b", "c"):
        first.leave()
        assert is_stirred(queue)
        [first] = queue.look()
        assert first.ask.app == name
    first.leave()
    assert os.listdir(table) == ["lock"]


def test_an_app_that_joins_behind_the_first_needs_no_look_at_the_table(table, queue):
    queue.join(ask(table, "a", 1, cpu=0.5))
    queue.join(ask(table, "b", 2))
    places = queue.look()
    assert [queue.join(ask(table, f"c{n}", n)) for n in range(3, 9)] == [False] * 6
    assert len(listed(table)) == 8
    for place in places:
        place.leave()


def test_all_apps_that_fit_start_at_one_look(table, queue):
    for number in range(5):
        queue.join(ask(table, f"a{number}", number, cpu=0.5))
    places = queue.look()
    assert apps(places) == ["a0", "a1"]
    for place in places:
        place.leave()


def test_an_app_with_a_process_of_its_own_takes_its_turn_between_apps_of_the_line(table, queue):
    holder = Place(ask(table, "holder", 1))
    assert holder.look().starts
    queue.join(ask(table, "a", 2))
    queue.join(ask(table, "c", 4))
    assert queue.look() == []
    own = Place(ask(table, "b", 3))
    assert not own.look().starts
    holder.leave()
    assert is_stirred(queue)
    [first] = queue.look()
    assert not own.look().starts
    first.leave()
    assert own.look().starts
    assert queue.look() == []
    own.leave()
    assert is_stirred(queue)
    [last] = queue.look()
    assert last.ask.app == "c"
    last.leave()
    assert os.listdir(table) == ["lock"]


def test_an_app_that_leaves_the_line_lets_the_next_app_of_another_process_start(table, queue):
    queue.join(ask(table, "big", 1, cpu=9, limits=[Limit(MACHINE, cpu=1)]))
    small = Place(ask(table, "small", 0, cpu=0.5))
    assert small.look().starts
    assert queue.look() == []
    own = Place(ask(table, "own", 2, cpu=0.5))
    assert not own.look().starts
    [big] = list(queue._asks.values())
    assert queue.leave(big)
    assert queue.look() == []
    poll = select.poll()
    for fd in (*own.bells, *own.watched):
        poll.register(fd, select.POLLIN)
    assert poll.poll(LIMIT_S * 1000)
    assert own.look().starts
    for place in (own, small):
        place.leave()


def test_an_app_of_the_line_starts_at_once_when_a_user_asks_for_it(table, queue):
    holder = Place(ask(table, "holder", 1))
    assert holder.look().starts
    for number in range(2, 6):
        queue.join(ask(table, f"a{number}", number))
    assert queue.look() == []
    assert summon(table, ["a4"])
    assert is_stirred(queue)
    [now] = queue.look()
    assert now.ask.app == "a4"
    assert not summon(table, ["a4"])
    assert [app for app, state in listed(table) if state == QUEUED] == ["a2", "a3", "a5"]
    for place in (now, holder):
        place.leave()


def test_gpus_are_dealt_in_the_order_of_both_tables(table, gpu_table, queue):
    of_gpu = {"cpu": 0, "gpus": 1, "devices": ["0", "1"], "gpu_table": gpu_table, "limits": [Limit(MACHINE)]}
    other = Place(ask(table, "other", 1, **of_gpu))
    assert other.look().dealt == ("0",)
    for number in (2, 3):
        queue.join(ask(table, f"a{number}", number, **of_gpu))
    [first] = queue.look()
    assert first.dealt == ("1",)
    assert listed(gpu_table)[-1] == ("a3", QUEUED)
    other.leave()
    assert is_stirred(queue)
    [second] = queue.look()
    assert second.dealt == ("0",)
    for place in (first, second):
        place.leave()
    assert (os.listdir(table), os.listdir(gpu_table)) == (["lock"], ["lock"])


def test_a_killed_process_leaves_no_line(table):
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, table], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"in line\n"
        assert ("last", QUEUED) in listed(table)
        next_one = Place(ask(table, "next", 10))
        next_one.look()
        process.send_signal(signal.SIGKILL)
    assert listed(table) in ([("next", QUEUED)], [("next", HOLDS)])
    assert next_one.look().starts
    assert [name for name in os.listdir(table) if name.startswith(LINE)] == []
    next_one.leave()


def test_an_older_version_takes_no_file_of_a_line_for_a_ticket(table, queue):
    holder = Place(ask(table, "holder", 1))
    assert holder.look().starts
    queue.join(ask(table, "a", 2))
    queue.look()
    names = [name for name in os.listdir(table) if name.startswith(LINE)]
    assert len(names) == 3
    assert [name for name in names if name.partition("-")[0].isdecimal()] == []
    holder.leave()


@pytest.fixture
def three_in_line(table, queue):
    """The asks of the apps a, b and c, behind a holder of the one core."""
    holder = Place(ask(table, "holder", 1))
    assert holder.look().starts
    asks = [ask(table, app, number, home="mine") for number, app in enumerate("abc", 2)]
    for each in asks:
        queue.join(each)
    assert queue.look() == []
    yield asks
    holder.leave()


def test_an_app_is_in_a_line_until_it_leaves_or_starts(table, queue, three_in_line):
    assert in_lines(table, "mine") == {"a", "b", "c"}
    assert in_lines(table, "other") == set(), "another state folder may have apps with these ids"
    queue.leave(three_in_line[1])
    assert in_lines(table, "mine") == {"a", "c"}
    three_in_line[2].at_once = True
    queue.leave(three_in_line[2])
    queue.join(three_in_line[2])
    [place] = queue.look()
    assert (place.ask.app, in_lines(table, "mine")) == ("c", {"a"})
    place.leave()


def test_an_app_whose_departure_cannot_be_written_is_in_no_line(table, queue, three_in_line):
    """On a full disk the file of all apps is gone until it can be written anew."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20, before[1]))
    try:
        queue.leave(three_in_line[1])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert in_lines(table, "mine") == set()
    queue.leave(three_in_line[2])
    assert in_lines(table, "mine") == {"a"}


@pytest.mark.slow
def test_the_file_of_all_apps_is_written_anew_when_many_have_gone(table, queue):
    for number in range(600):
        queue.join(ask(table, f"a{number}", number))
    for _ in range(590):
        [place] = queue.look()
        place.leave()
    [name] = [each for each in os.listdir(table) if each.endswith(ALL)]
    assert os.path.getsize(os.path.join(table, name)) < 400 * 100
    assert [app for app, _ in listed(table)] == [f"a{number}" for number in range(590, 600)]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_many_lines_and_single_apps_share_the_machine_in_order(table, seed):
    """Apps that join, leave and end never exceed the machine, keep their order, and all start."""
    random_ = random.Random(seed)
    limit = Limit(MACHINE, cpu=4)
    queues, alone, running, waiting = [Queue(), Queue()], [], [], {}
    numbers = list(range(12))
    random_.shuffle(numbers)

    def look(which):
        for place in which.look() if isinstance(which, Queue) else [which] * which.look().starts:
            ahead = [each for each in waiting if each < place.ask.number]
            assert ahead == [], f"{place.ask.number} overtook {ahead}"
            del waiting[place.ask.number]
            running.append(place)
            if place in alone:
                alone.remove(place)
        assert sum(each.ask.cpu for each in running) <= 4

    while numbers or waiting or running:
        if numbers and random_.random() < 0.5:
            number = numbers.pop()
            wanted = ask(table, f"a{number}", number, cpu=random_.choice([1, 2, 3]), limits=[limit])
            which = random_.choice([*queues, None])
            waiting[number] = which
            if which is None:
                alone.append(Place(wanted))
                look(alone[-1])
            elif which.join(wanted):
                look(which)
        elif running and random_.random() < 0.6:
            running.pop(random_.randrange(len(running))).leave()
        for each in [*queues, *alone]:
            look(each)
    assert os.listdir(table) == ["lock"]
