"""Blocks of logs and of their index as records, and the output of several replicas as it is read."""

import pytest

from launcher.schedulers.logs import LogPart
from launcher.schedulers.restarts import RestartReader, run_starts
from launcher.schedulers.slurm.logs import Parser, SlurmLogs
from tests.unit.slurm.agents import Login

SECOND = 1_000_000_000
FACTS = {"attempt": {"app_id": "train-1", "document": {"roles": [{"name": "a b", "num_replicas": 2}]}}}


def fed(*blocks: tuple[bytes, str]) -> list[tuple[int, str, bytes]]:
    parser = Parser()
    found = [record for data, index in blocks for record in parser.feed(data, index)]
    return [(each.time_ns, each.stream, each.data) for each in found]


INDEX = "0 10 stdout\n4 20 stderr\n6 30 stdout\n"


@pytest.mark.parametrize(("blocks", "records"), [
    pytest.param([(b"out\nx\nend", INDEX)],
        [(10, "stdout", b"out\n"), (20, "stderr", b"x\n"), (30, "stdout", b"end")], id="one block"),
    pytest.param([(b"out\n", "0 10 stdout\n4 20 stderr\n"), (b"x\n", "")],
        [(10, "stdout", b"out\n"), (20, "stderr", b"x\n")], id="an index that is ahead of the log"),
    pytest.param([(b"1\n2\n", "0 10 stdout\n2 20 restart\n2 30 stdout\n")],
        [(10, "stdout", b"1\n"), (20, "restart", b""), (30, "stdout", b"2\n")],
        id="a restart between the runs"),
    pytest.param([(b"", "0 20 restart\n"), (b"x", "0 30 stdout\n")],
        [(20, "restart", b""), (30, "stdout", b"x")], id="a restart after a silent run"),
])  # fmt: skip
def test_the_index_holds_time_and_stream_of_every_byte(blocks, records):
    assert fed(*blocks) == records


@pytest.mark.parametrize("at", range(10))
def test_a_block_of_a_log_may_end_anywhere(at):
    data = b"out\nx\nend"
    found = fed((data[:at], INDEX), (data[at:], ""))
    assert b"".join(part for _, _, part in found) == data
    assert {stream: b"".join(p for _, s, p in found if s == stream) for stream in ("stdout", "stderr")} == {
        "stdout": b"out\nend",
        "stderr": b"x\n",
    }


class Asked:
    """The agent of an ended app with these logs of its role `a b`, and the operations that it did."""

    def __init__(self, folder, *logs):
        self.login = Login(folder)
        self.done = []
        self.login.reserve("train-1", "n1")
        path = self.login.folder("train-1") / "logs" / "a-b"
        path.mkdir(parents=True)
        (path.parents[1] / "slurm.out").write_bytes(b"of the\njob\n")
        for k, (data, index) in enumerate(logs):
            (path / f"{k}.log").write_bytes(data)
            (path / f"{k}.index").write_text(index)
        self.login.do("end", app_id="train-1", outcome={"state": "succeeded"})

    def ask(self, op, **fields):
        self.done.append(op)
        return self.login.do(op, **fields)

    def chunks(self, replicas, **how):
        logs = SlurmLogs(self, FACTS, lambda app_id, within_s: True)
        return list(logs.chunks(replicas, LogPart(**how)))


def log(*lines):
    """(second, stream, bytes) of each piece → log and index."""
    data, index = b"", ""
    for second, stream, piece in lines:
        index += f"{len(data)} {second * SECOND} {stream}\n"
        data += piece
    return data, index


@pytest.mark.parametrize("follow", [False, True])
def test_a_line_that_began_before_is_left_out_whole(tmp_path, follow):
    long = log((1, "stdout", b"be"), (2, "stdout", b"gan"), (3, "stdout", b"\nnew\n"))
    found = Asked(tmp_path, long).chunks([("a b", 0)], since=2, follow=follow)
    assert b"".join(data for _, _, data in found) == b"new\n"


def test_the_tail_of_several_replicas_is_one_request_and_long_lines_are_read_in_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr("launcher.schedulers.slurm.logs._BLOCK", 50)
    monkeypatch.setattr("launcher.schedulers.slurm.site.agent.read.BLOCK", 10)
    short, long = log((1, "stdout", b"b\nc\n")), log((1, "stdout", b"a\n" + b"x" * 900 + b"\n"))
    agent = Asked(tmp_path, short, long)
    found = agent.chunks([("a b", 0), ("a b", 1)], tail=1)
    assert found == [("a b", 0, b"c\n"), ("a b", 1, b"x" * 900 + b"\n")]
    assert agent.done[0] == "tail"
    assert set(agent.done[1:]) == {"read"}


@pytest.mark.parametrize(("tail", "found"), [(0, b""), (2, b"b\nc\n"), (9, b"a\nb\nc\n")])
def test_output_that_is_followed_from_its_last_lines_on_begins_with_them(tmp_path, tail, found):
    agent = Asked(tmp_path, log((1, "stdout", b"a\n"), (2, "stderr", b"b\n"), (3, "stdout", b"c\n")))
    assert b"".join(data for _, _, data in agent.chunks([("a b", 0)], tail=tail, follow=True)) == found


@pytest.mark.parametrize("how", [{}, {"follow": True}, {"stream": "stderr"}, {"tail": 2}])
def test_the_output_of_a_job_without_any_log_is_the_log_of_its_first_replica(tmp_path, how):
    found = Asked(tmp_path).chunks([("a b", 0), ("a b", 1)], **how)
    assert {(role, k) for role, k, _ in found} == {("a b", 0)}
    assert b"".join(data for *_, data in found) == b"of the\njob\n"


@pytest.mark.parametrize("how", [{}, {"follow": True}, {"tail": 2}])
def test_the_output_of_a_job_with_a_log_is_in_no_log(tmp_path, how):
    assert Asked(tmp_path, log(), log()).chunks([("a b", 0), ("a b", 1)], **how) == []


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
