"""Logs of containers are read byte for byte, over restarts, and of several containers at once."""

import dataclasses
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from launcher.schedulers.docker.app_logs import DockerLogs, last_lines, starts_of
from launcher.schedulers.docker.client.engine import connect
from launcher.schedulers.docker.client.errors import EngineError
from launcher.schedulers.docker.client.view import EngineView
from launcher.schedulers.docker.log_reader import LogReader, LogsGone, split_timestamp
from launcher.schedulers.logs import LogPart, LogRecord
from tests.engines.proxy import Proxy
from tests.scenarios.docker_engine.bench import Bench
from tests.unit.docker.states import container, journal

LONG = 100_000  # bytes: the engine keeps such a line in seven pieces


def app(own: Bench) -> dict[str, str]:
    return {"launcher.app-id": own.token}


class Logs(DockerLogs):
    """The logs of the replicas main/0, main/1, … in these containers.

    The app is over when none of the test's containers will run on.
    """

    def __init__(
        self, own: Bench, *made: str, engine: EngineView | None = None, over: Callable[[], bool] | None = None
    ) -> None:
        super().__init__(engine or own.engine, own.token)
        self.names = {("main", k): each for k, each in enumerate(made)}
        self._over = over or (lambda: all(one.ended for one in own.engine.containers(own.label)))

    def containers(self, replicas: Sequence[tuple[str, int]]) -> dict[tuple[str, int], str]:
        return {where: self.names[where] for where in replicas}

    def is_over(self) -> bool:
        return self._over()

    def all(self, part: LogPart) -> Iterator[tuple[str, int, bytes]]:
        return self.chunks([*self.names], part)


FOLLOW = LogPart(follow=True)


def data(own: Bench, made: str, **how: Any) -> bytes:
    return b"".join(each for _, _, each in Logs(own, made).all(LogPart(**how)))


def records(
    own: Bench, made: str, part: LogPart | None = None, *, over: Callable[[], bool] | None = None
) -> Iterator[LogRecord]:
    return Logs(own, made, over=over).records(("main", 0), part or LogPart())


def test_tail_returns_whole_lines(own: Bench) -> None:
    made = own.sh(f"echo a; head -c {LONG} /dev/zero | tr '\\0' x; echo; echo b; printf c")
    own.ended(made)
    whole = [b"a\n", b"x" * LONG + b"\n", b"b\n", b"c"]
    for count in (0, 1, 2, 3, 4, 9):
        assert data(own, made, tail=count) == b"".join(whole[-count:] if count else []), count


def test_tail_of_one_stream_counts_the_lines_of_that_stream(own: Bench) -> None:
    made = own.sh("for i in 1 2 3; do echo out$i; echo err$i >&2; done")
    own.ended(made)
    assert data(own, made, tail=2, stream="stdout") == b"out2\nout3\n"


def test_a_short_tail_of_a_long_log_reads_only_its_end(own: Bench, tmp_path: Path) -> None:
    made = own.sh("seq 1 100000")
    own.ended(made)
    with Proxy(tmp_path / "p.sock") as proxy:
        engine = connect(readonly=True, environ={"DOCKER_HOST": proxy.host})
        assert last_lines(engine, made, LogPart(), 2) == [b"99999\n", b"100000\n"]
        engine.close()
    [asked] = [path for path in proxy.seen if "/logs?" in path]
    assert "tail=3" in asked


def test_a_followed_log_continues_over_restarts_by_the_engine(own: Bench) -> None:
    policy = {"Name": "on-failure", "MaximumRetryCount": 2}
    made = own.sh("echo run; exit 3", labels=app(own), HostConfig={"RestartPolicy": policy})
    found = list(records(own, made, FOLLOW))
    assert [one.data for one in found if one.data] == [b"run\n"] * 3
    streams = [one.stream for one in found]
    assert streams[0] == "stdout"
    assert 1 <= streams[1:-1].count("restart") <= 2  # a reader that is late sees two starts as one
    assert [one.time_ns for one in found if one.data] == sorted(one.time_ns for one in found if one.data)


def test_a_restart_is_marked_once_when_its_output_arrives_before_its_start_is_known(own, tmp_path):
    made = own.sh("echo run")
    own.ended(made)
    restarts = iter([False, True, False])

    def restart(_method: str, path: str) -> float:
        """Start the container again between the reader's look at it and the second read of its log."""
        if "/logs" in path and next(restarts):
            own.engine.start(made)
            own.until(made, lambda seen: seen.ended and data(own, made) == b"run\n" * 2)
        return 0.0

    with Proxy(tmp_path / "p.sock", delay_s=restart) as proxy:
        engine = connect(readonly=True, environ={"DOCKER_HOST": proxy.host})
        with closing(LogReader(engine, made, LogPart())) as reader:
            assert [one.stream for one in reader.read()] == ["stdout"]
            assert [one.stream for one in reader.read()] == ["restart", "stdout"]
            own.engine.start(made)
            own.until(made, lambda seen: seen.ended and data(own, made) == b"run\n" * 3)
            assert [one.stream for one in reader.read()] == ["restart", "stdout"]
        engine.close()


def test_a_followed_log_ends_when_a_silent_peer_ends(own: Bench) -> None:
    first = own.sh("echo one", labels=app(own))
    other = own.sh("read x", k=1, OpenStdin=True, labels=app(own))
    own.ended(first)
    found = records(own, first, FOLLOW)
    assert next(found).data == b"one\n"
    threading.Timer(0.2, lambda: own.engine.stop(other, 0)).start()
    assert list(found) == []


def test_a_followed_log_with_a_tail_begins_with_the_last_lines(own: Bench) -> None:
    made = own.sh(
        "seq 1 1000; trap 'echo bye; exit' TERM; echo up; while :; do usleep 10000; done", labels=app(own)
    )
    own.until(made, lambda _: data(own, made).endswith(b"up\n"))
    found = Logs(own, made).all(LogPart(tail=2, follow=True))
    assert [next(found)[2], next(found)[2]] == [b"1000\n", b"up\n"]
    own.engine.stop(made, 10)
    assert [piece for _, _, piece in found] == [b"bye\n"]


def test_the_engine_is_asked_about_an_app_once_for_all_its_logs(own, tmp_path):
    made = [own.sh(f"echo {k}; sleep 1", k=k, labels=app(own)) for k in range(6)]
    looks: list[bool] = []
    with Proxy(tmp_path / "p.sock") as proxy:
        engine = connect(readonly=True, environ={"DOCKER_HOST": proxy.host})

        def is_over() -> bool:
            looks.append(all(one.ended for one in engine.containers(own.label)))
            return looks[-1]

        found = Logs(own, *made, engine=engine, over=is_over).all(FOLLOW)
        assert sorted(found) == [("main", k, f"{k}\n".encode()) for k in range(6)]
        engine.close()
    assert len(looks) < 6  # as many logs: each by itself would look once or more
    asked = [path.partition("?")[0].rpartition("/")[2] for path in proxy.seen]
    assert asked.count("logs") <= 3 * 6
    assert len(asked) - asked.count("logs") <= 10, proxy.seen


def test_a_closed_log_reader_leaves_no_thread_behind(own: Bench) -> None:
    made = [own.sh("while :; do echo x; done", k=k, labels=app(own)) for k in range(2)]
    before = threading.active_count()
    found = Logs(own, *made).all(FOLLOW)
    next(found)
    found.close()
    assert threading.active_count() == before


def test_following_a_container_that_is_removed_meanwhile_is_an_error(own: Bench) -> None:
    made = own.sh("echo up; exec sleep 1000", labels=app(own))
    found = records(own, made, FOLLOW, over=lambda: False)
    assert next(found).data == b"up\n"
    own.engine.remove(made, force=True)
    with pytest.raises(LogsGone):
        list(found)


def test_a_restart_is_marked_before_output_that_is_older_than_its_start_time(own: Bench) -> None:
    """On a busy machine the engine sets the time of a start long after the process began."""
    made = own.sh("echo run")
    own.ended(made)
    own.engine.start(made)
    own.until(made, lambda seen: seen.ended and data(own, made) == b"run\n" * 2)
    [_, second] = [one.time_ns for one in records(own, made) if one.data]
    with closing(LogReader(own.engine, made, LogPart(), begun=lambda _: (second - 1000) / 1e9)) as reader:
        found = list(reader.read())
    assert [one.stream for one in found] == ["stdout", "restart", "stdout"]


@pytest.mark.parametrize(
    ("restarted_at", "delay_s", "second_began_at"),
    [(20.5, 0, 20.5), (20.5, 2, 22.5), (19.0, 0, 24.9), (26.0, 0, 24.9)],
    ids=["at once", "after a pause", "by a clock behind", "by a clock ahead"],
)
def test_a_run_begins_at_its_restart_however_late_the_engine_reports_the_start(
    restarted_at: float, delay_s: int, second_began_at: float
) -> None:
    """The engine reports the first run from 10 to 20, and the second from 25 on."""
    made = dataclasses.replace(container(0, "exited 0"), started_at=25.0, ended_at=30.0)
    ended = {"e": "exit", "role": "main", "k": 0, "code": 1, "started_at": 10.0, "ended_at": 20.0}
    restart = {"e": "restart", "role": "main", "policy": "ROLE", "was": {"id0": 10.0}, "again": [["main", 0]]}
    events = journal({"e": "go"}, ended, {**restart, "t": restarted_at, "delay_s": delay_s})
    assert starts_of(made, events) == [(0, 9.9), (1, second_began_at)]


def test_the_times_of_log_lines_are_exact_to_the_nanosecond() -> None:
    assert split_timestamp(b"2026-01-02T03:04:05.123456789Z x y\n") == (1767323045123456789, b"x y\n")
    assert split_timestamp(b"1970-01-01T00:00:01.000000000Z ") == (1_000_000_000, b"")


def test_an_error_message_of_the_engine_is_not_read_as_a_log_line() -> None:
    with pytest.raises(EngineError, match="Error grabbing logs"):
        split_timestamp(b"Error grabbing logs: invalid character")
