"""Contract: the output of replicas is kept and read back byte for byte, from files that may still grow."""

import os
import time
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from itertools import islice

import pytest

from launcher.errors import LauncherError
from launcher.schedulers import Stream
from launcher.schedulers.logs import LogPart, LogRecord
from tests.contract.conftest import Case


def chunks_of(case: Case, app_id: str, *, k: int = 0, **how: object) -> bytes:
    found = case.scheduler.logs(app_id).chunks([("r", k)], LogPart(**how))
    return b"".join(data for _, _, data in found)


def records_of(case: Case, app_id: str, **how: object) -> Iterator[LogRecord]:
    return case.scheduler.logs(app_id).records(("r", 0), LogPart(**how))


@pytest.mark.everywhere
def test_logs_follow_until_the_app_has_ended(case: Case) -> None:
    script = 'for n in 1 2 3; do echo "line $n"; sleep 0.05; done; printf rest'
    app_id = case.start(case.app(script))
    assert case.lines(app_id, should_tail=True) == ["line 1\n", "line 2\n", "line 3\n", "rest"]


@pytest.mark.everywhere
def test_replicas_are_followed_at_once_while_they_run_and_otherwise_read_up_to_now(case: Case) -> None:
    app_id = case.start(case.app("echo $<replica_id>; exec sleep 1000", replicas=5))
    found = case.scheduler.logs(app_id).chunks([("r", k) for k in range(5)], LogPart(follow=True))
    assert sorted(islice(found, 5)) == [("r", k, f"{k}\n".encode()) for k in range(5)]
    assert next(records_of(case, app_id, follow=True)).data == b"0\n"
    assert case.lines(app_id) == ["0\n"]


def test_the_log_of_an_ended_app_is_read_whole_by_its_last_lines_or_by_a_regex(case: Case) -> None:
    app_id = case.start(case.app("seq 1 1000"))
    case.end(app_id)
    whole = [f"{n}\n" for n in range(1, 1001)]
    assert [case.lines(app_id, should_tail=follow) for follow in (False, False, True)] == [whole] * 3
    assert chunks_of(case, app_id, tail=2) == b"999\n1000\n"
    assert chunks_of(case, app_id, tail=0) == b""
    assert len(chunks_of(case, app_id, tail=5000).splitlines()) == 1000
    assert case.lines(app_id, regex="99[02468]$") == ["990\n", "992\n", "994\n", "996\n", "998\n"]


def test_a_silent_replica_has_an_empty_log(case: Case) -> None:
    app_id = case.start(case.app("true"))
    assert case.lines(app_id, should_tail=True) == []
    case.end(app_id)
    assert case.lines(app_id) == []


@pytest.mark.everywhere
def test_logs_return_any_bytes_unchanged_and_cut_no_long_line(case: Case) -> None:
    long = "head -c 3000000 /dev/zero | tr '\\0' x"
    app_id = case.start(case.app(rf"printf 'a\000\377\r\nb\n\nc\n'; {long}; printf '\nend'"))
    case.end(app_id)
    printed = case.kept(b"a\x00\xff\r\nb\n\nc\n") + b"x" * 3_000_000 + b"\nend"
    assert chunks_of(case, app_id) == printed
    assert chunks_of(case, app_id, follow=True) == printed
    lines = case.lines(app_id)
    assert lines[:4] == ["a\x00\ufffd\r\n", "b\n", "\n", "c\n"]
    assert [len(line) for line in lines[4:]] == [3_000_001, 3]


def test_stdout_and_stderr_are_read_separately(case: Case) -> None:
    app_id = case.start(case.app("echo out; echo err >&2; echo out2"))
    case.end(app_id)
    assert case.lines(app_id, streams=Stream.STDOUT) == ["out\n", "out2\n"]
    assert case.lines(app_id, streams=Stream.STDERR) == ["err\n"]
    assert sorted(case.lines(app_id, streams=Stream.COMBINED)) == ["err\n", "out\n", "out2\n"]
    assert sorted(case.lines(app_id)) == ["err\n", "out\n", "out2\n"]


def _three_spells(case: Case) -> tuple[str, list[float]]:
    """Return an app that prints up, a, b (on stderr) and c, each when the line before has arrived.

    Returns the id of the app, and a time before each of a, b and c.
    """
    script = "if test $n = b; then echo $n >&2; else echo $n; fi"
    for name in "abc":
        os.mkfifo(case.shared / name)
    app_id = case.start(case.app(f"cd {case.shared}; echo up; for n in a b c; do read x <$n; {script}; done"))
    following = case.scheduler.log_iter(app_id, "r", should_tail=True)
    assert next(following) == "up\n"
    times = []
    for name in "abc":
        times.append(time.time())
        _pass_some_milliseconds()
        (case.shared / name).write_text("go\n")
        assert next(following) == f"{name}\n"
        _pass_some_milliseconds()
    case.end(app_id)
    return app_id, times


def _pass_some_milliseconds() -> None:
    """Wait so that the next line has a later time: times of logs are exact to a millisecond."""
    end = time.time() + 0.01
    while time.time() < end:
        pass


def test_lines_are_chosen_by_the_times_and_streams_that_their_records_carry(case: Case) -> None:
    start = time.time_ns()
    app_id, (before_a, before_b, before_c) = _three_spells(case)
    records = list(records_of(case, app_id))
    assert [(r.stream, r.data) for r in records] == [
        ("stdout", b"up\n"),
        ("stdout", b"a\n"),
        ("stderr", b"b\n"),
        ("stdout", b"c\n"),
    ]
    times = [start, *(record.time_ns for record in records), time.time_ns()]
    assert times == sorted(times)
    assert [record.data for record in records_of(case, app_id, stream="stderr")] == [b"b\n"]
    assert chunks_of(case, app_id, since=before_a) == b"a\nb\nc\n"
    assert chunks_of(case, app_id, since=before_b) == b"b\nc\n"
    assert chunks_of(case, app_id, since=before_a, stream="stdout") == b"a\nc\n"
    assert chunks_of(case, app_id, since=before_b, until=before_c) == b"b\n"
    assert chunks_of(case, app_id, since=before_b, until=before_c, follow=True) == b"b\n"
    assert chunks_of(case, app_id, until=before_a).count(b"\n") == 1
    assert chunks_of(case, app_id, since=time.time()) == b""
    assert chunks_of(case, app_id, since=before_a, tail=1) == b"c\n"
    shown = records[2].time_ns // 1000 / 1e6  # shown times have microseconds, those of records nanoseconds
    assert chunks_of(case, app_id, since=shown, until=shown) == b"b\n"
    assert [each.data for each in records_of(case, app_id, since=shown, until=shown)] == [b"b\n"]
    local = datetime.fromtimestamp(before_b)
    zoned = datetime.fromtimestamp(before_b, tz=timezone(timedelta(hours=5)))
    assert case.lines(app_id, since=local) == ["b\n", "c\n"]
    assert case.lines(app_id, since=zoned) == ["b\n", "c\n"]


def test_logs_continue_over_a_restart(case: Case) -> None:
    script = case.count + 'echo "$LAUNCHER_RESTART"; test "$LAUNCHER_RESTART" = 1'
    app_id = case.start(case.app(script, max_retries=1))
    assert case.lines(app_id, should_tail=True) == ["0\n", "1\n"]
    records = list(records_of(case, app_id))
    assert [(r.stream, r.data) for r in records if r.data or r.stream == "restart"] == [
        ("stdout", b"0\n"),
        ("restart", b""),
        ("stdout", b"1\n"),
    ]


def test_an_unknown_app_role_or_replica_is_refused_with_the_existing_ones_named(case: Case) -> None:
    app_id = case.start(case.app())
    for role, k, named in (("q", 0, "r"), ("r", 5, "0"), ("r", -1, "0")):
        with pytest.raises(LauncherError) as error:
            case.lines(app_id, role, k)
        assert named in str(error.value.hint)
    with pytest.raises(LauncherError, match="no-such-app"):
        case.lines("no-such-app")
