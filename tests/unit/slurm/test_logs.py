"""Blocks of logs and of their index as records, and the output of several replicas as it is read."""

from base64 import b64encode

import pytest

from launcher.errors import SchedulerError
from launcher.schedulers.logs import LogPart, LogRecord
from launcher.schedulers.restarts import RestartReader, run_starts
from launcher.schedulers.slurm.logs import Parser, SlurmLogs

SECOND = 1_000_000_000
ATTEMPT = {"app_id": "train-1-x", "document": {"roles": [{"name": "a b", "num_replicas": 2}, {"name": "c"}]}}
FACTS = {"attempt": ATTEMPT}


def fed(*blocks: tuple[bytes, str]) -> list[tuple[int, str, bytes]]:
    parser = Parser()
    found = [record for data, index in blocks for record in parser.feed(data, index)]
    return [(each.time_ns, each.stream, each.data) for each in found]


INDEX = "0 10 stdout\n4 20 stderr\n6 30 stdout\n"


def test_the_index_holds_time_and_stream_of_every_byte():
    assert fed((b"out\nx\nend", INDEX)) == [
        (10, "stdout", b"out\n"),
        (20, "stderr", b"x\n"),
        (30, "stdout", b"end"),
    ]


@pytest.mark.parametrize("at", range(10))
def test_a_block_of_a_log_may_end_anywhere(at):
    data = b"out\nx\nend"
    found = fed((data[:at], INDEX), (data[at:], ""))
    assert b"".join(part for _, _, part in found) == data
    assert {stream: b"".join(p for _, s, p in found if s == stream) for stream in ("stdout", "stderr")} == {
        "stdout": b"out\nend",
        "stderr": b"x\n",
    }


def test_the_index_may_be_ahead_of_the_log():
    assert fed((b"out\n", "0 10 stdout\n4 20 stderr\n"), (b"x\n", "")) == [
        (10, "stdout", b"out\n"),
        (20, "stderr", b"x\n"),
    ]


def test_a_restart_is_a_record_without_data_between_the_runs():
    assert fed((b"1\n2\n", "0 10 stdout\n2 20 restart\n2 30 stdout\n")) == [
        (10, "stdout", b"1\n"),
        (20, "restart", b""),
        (30, "stdout", b"2\n"),
    ]


def test_a_replica_that_prints_nothing_before_its_restart_has_a_restart_first():
    assert fed((b"", "0 20 restart\n"), (b"x", "0 30 stdout\n")) == [
        (20, "restart", b""),
        (30, "stdout", b"x"),
    ]


class FakeCluster:
    """Logs in memory: folder and number of the replica → log and index; cut into blocks of `size` bytes."""

    def __init__(self, logs, size=4):
        self.logs = logs
        self.size = size
        self.asked = []

    def ask(self, op, *, app_id, parts, limit, seconds=0, lines=0):
        assert app_id == "train-1-x"
        self.asked.append(op)
        if op == "tail":
            logs = [self.logs.get((folder, k), (b"", ""))[0] for folder, k in parts]
            tails = [b"".join(data.splitlines(keepends=True)[-lines:] if lines else ()) for data in logs]
            return {"parts": [b64encode(data).decode() if len(data) < limit else None for data in tails]}
        found = []
        for folder, k, at, index_at in parts:
            data, index = self.logs.get((folder, k), (b"", ""))
            found.append([b64encode(data[at : at + self.size]).decode(), index[index_at:]])
        return {"parts": found, "live": False}


def logs_of(cluster):
    return SlurmLogs(cluster, FACTS, lambda app_id, within_s: True)


def chunks(written, *replicas, **how):
    return list(logs_of(FakeCluster(written)).chunks(replicas, LogPart(**how)))


def log(*lines):
    """(second, stream, bytes) of each piece → log and index."""
    data, index = b"", ""
    for second, stream, piece in lines:
        index += f"{len(data)} {second * SECOND} {stream}\n"
        data += piece
    return data, index


THREE = log((1, "stdout", b"a\n"), (2, "stderr", b"b\n"), (3, "stdout", b"c\n"))
LOGS = {("a-b", 0): THREE, ("a-b", 1): log((1, "stdout", b"other\n"))}


def read(stream="combined", **how):
    return b"".join(data for _, _, data in chunks(LOGS, ("a b", 0), stream=stream, **how))


@pytest.mark.parametrize("follow", [False, True])
def test_the_output_comes_whole_or_by_stream(follow):
    assert read(follow=follow) == b"a\nb\nc\n"
    assert read("stderr", follow=follow) == b"b\n"


@pytest.mark.parametrize("follow", [False, True])
def test_a_window_of_time_selects_the_lines_that_began_in_it(follow):
    assert read(since=2, follow=follow) == b"b\nc\n"
    assert read(until=2, follow=follow) == b"a\nb\n"
    assert read(since=2, until=2, follow=follow) == b"b\n"
    assert read(since=4, follow=follow) == b""


@pytest.mark.parametrize("follow", [False, True])
def test_a_line_that_began_before_is_left_out_whole(follow):
    long = {("a-b", 0): log((1, "stdout", b"be"), (2, "stdout", b"gan"), (3, "stdout", b"\nnew\n"))}
    found = chunks(long, ("a b", 0), since=2, follow=follow)
    assert b"".join(data for _, _, data in found) == b"new\n"


@pytest.mark.parametrize("follow", [False, True])
@pytest.mark.parametrize(("tail", "found"), [(0, b""), (2, b"b\nc\n"), (9, b"a\nb\nc\n")])
def test_the_tail_is_the_last_lines(follow, tail, found):
    assert read(tail=tail, follow=follow) == found


def test_the_tail_of_several_replicas_is_one_request_and_long_lines_are_read_in_blocks(monkeypatch):
    cluster = FakeCluster({("a-b", 0): THREE, ("a-b", 1): log((1, "stdout", b"a\n" + b"x" * 90 + b"\n"))})
    monkeypatch.setattr("launcher.schedulers.slurm.logs._BLOCK", 50)

    found = list(logs_of(cluster).chunks([("a b", 0), ("a b", 1)], LogPart(tail=1)))
    assert found == [("a b", 0, b"c\n"), ("a b", 1, b"x" * 90 + b"\n")]
    assert cluster.asked[0] == "tail"
    assert set(cluster.asked[1:]) == {"read"}


def test_several_replicas_come_in_order_or_as_they_write():
    names = [("a b", 0), ("a b", 1), ("c", 0)]
    for follow in (False, True):
        found = chunks(LOGS, *names, follow=follow)
        assert b"".join(data for _, k, data in found if k == 1) == b"other\n"
        assert b"".join(data for role, k, data in found if (role, k) == ("a b", 0)) == b"a\nb\nc\n"
    assert [k for _, k, _ in found] != sorted(k for _, k, _ in found)


def test_records_carry_times_and_streams_and_marks():
    logs = {("c", 0): log((1, "stdout", b"1\n"), (2, "restart", b""), (2, "stderr", b"2\n"))}
    found = [LogRecord(2 * SECOND, "restart", b""), LogRecord(2 * SECOND, "stderr", b"2\n")]
    for follow in (False, True):
        part = LogPart("stderr", follow=follow)
        assert list(logs_of(FakeCluster(logs)).records(("c", 0), part)) == found


@pytest.mark.parametrize(("role", "k", "named"), [("b", 0, "a b"), ("c", 1, "0"), ("a b", -1, "0 to 1")])
def test_an_unknown_role_or_replica_is_refused_with_the_known_ones(role, k, named):
    with pytest.raises(SchedulerError) as error:
        chunks(LOGS, (role, k))
    assert named in str(error.value.hint)


def event(kind, t, k=0, **fields):
    return {"e": kind, "role": "a", "k": k, "t": t * SECOND, **fields}


EVENTS = [
    event("spawn", 1, restart=0),
    event("spawn", 1, k=1, restart=0),
    event("exit", 2, code=3, signal=None),
    event("restart", 3, scope="replica", n=1, delay_s=2.0),
    event("spawn", 5, restart=1),
    event("exit", 6, code=None, signal=9),
    event("restart", 7, scope="app", n=2, delay_s=0),
]


def test_restarts_say_what_failed_and_how():
    declared = {"e": "created", "roles": [["a", 2], ["b", 1]], "retries": [[3, "REPLICA"]] * 2}
    found = list(RestartReader(lambda: EVENTS, declared).read())
    assert [str(each) for each in found] == [
        "a/0 exited with 3; restart 1 of 3 in 2 s",
        "a/0 was killed by signal 9; restart 2 of 3",
    ]
    assert [(each.scope, each.at) for each in found] == [("replica", 3.0), ("app", 7.0)]


def test_the_runs_of_each_replica_have_a_number_and_a_start():
    found = run_starts(EVENTS, [("a", 0), ("a", 1), ("b", 0)])
    assert found == {("a", 0): [(0, 1.0), (1, 5.0)], ("a", 1): [(0, 1.0)], ("b", 0): []}
