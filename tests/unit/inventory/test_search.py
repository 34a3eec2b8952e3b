"""Search the output of a replica: matches, context, times, however the output is cut."""

import re
from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from launcher.errors import SchedulerError
from launcher.inventory import search as module
from launcher.inventory.attempts import Candidate
from launcher.inventory.search import Query, Searched, lines_of, search
from launcher.schedulers.logs import LineSearch, LogBlock, LogsRemoved
from launcher.state.records import AppRecord


def query(regex: str, **how: object) -> Query:
    return Query(search=LineSearch(regex), **how)  # type: ignore[arg-type]


def blocks(text: bytes, cuts: list[int]) -> list[LogBlock]:
    """Return the text in pieces; the byte at an offset was written at that time."""
    places = sorted({0, len(text), *(min(cut, len(text)) for cut in cuts)})
    made = []
    for start, end in pairwise(places):
        made.append(LogBlock(text[start:end], lambda at, start=start: (start + at, "stdout", at + 1)))
    return [*made, LogBlock(b"", lambda at: (0, "", at))]


TEXTS = st.lists(st.sampled_from(["", "a", "b", "ab", "xyz", "é"]), max_size=12)


@given(TEXTS, st.booleans(), st.lists(st.integers(0, 60), max_size=6), st.integers(0, 3), st.integers(0, 3))
def test_matches_and_context_do_not_depend_on_how_the_text_is_cut(lines, is_ended, cuts, before, after):
    text = "\n".join(lines).encode() + (b"\n" if is_ended and lines else b"")
    whole = text.splitlines(keepends=True)
    hits = [n for n, line in enumerate(whole) if re.search(rb"a", line)]
    near = {n for hit in hits for n in range(max(0, hit - before), min(len(whole), hit + after + 1))}
    found = list(lines_of(blocks(text, cuts), query("a", before=before, after=after)))
    assert b"".join(line.text for line in found) == b"".join(whole[n] for n in sorted(near))
    if before or after:
        assert [line.is_match for line in found] == [n in hits for n in sorted(near)]
        starts = [sum(map(len, whole[:n])) for n in sorted(near)]
        assert [(line.begin, line.time_ns) for line in found] == [(start, start) for start in starts]


def test_matches_with_the_same_time_come_together():
    block = LogBlock(b"a1\nb\na2\na3\n", lambda at: (1, "stdout", 8) if at < 8 else (2, "stderr", 11))
    found = list(lines_of([block], query("a")))
    assert [(line.time_ns, line.stream, line.text, line.count) for line in found] == [
        (1, "stdout", b"a1\na2\n", 2),
        (2, "stderr", b"a3\n", 1),
    ]


def test_the_last_matches_keep_their_context():
    text = b"".join(b"%d\n" % n for n in range(1, 10))
    found = lines_of(blocks(text, [5]), query("[258]", before=1, after=1, tail=2))
    assert b"".join(line.text for line in found) == b"4\n5\n6\n7\n8\n9\n"
    assert list(lines_of(blocks(text, []), query("[258]", tail=0))) == []


class Engine:
    """A scheduler whose logs cannot be read for the given reasons, by app id."""

    def __init__(self, errors: dict[str, Exception]) -> None:
        self.errors = errors
        self.asked: list[str] = []

    def engine_of(self, app_id: str) -> str:
        return app_id.partition("-")[0]

    def logs(self, app_id):
        self.asked.append(app_id)
        if app_id in self.errors:
            raise self.errors[app_id]
        return Logs()


class Logs:
    """The logs of one replica, with one line."""

    def replicas(self):
        return [("main", 0)]

    def blocks(self, where, part):
        return [LogBlock(b"found\n", lambda at: (1, "stdout", 6))]


@pytest.fixture
def apps(monkeypatch):
    """A function that searches apps with these errors: ids with a match, report, and searched ids."""

    def run(app_ids, errors):
        engine = Engine(errors)
        monkeypatch.setattr(module, "_scheduler_of", lambda app: engine)
        monkeypatch.setattr("launcher.inventory.recorded.apps", lambda ids: {})
        records = [AppRecord("s", "d", app_id, state="failed") for app_id in app_ids]
        found = [Candidate(1.0, each.app_id, is_kept=True, app=each) for each in records]
        report = Searched()
        return [app.app_id for app, *_ in search(found, query("found"), report)], report, engine.asked

    return run


def test_an_engine_that_is_away_is_asked_once_and_the_others_are_searched(apps):
    away = SchedulerError("cannot reach the engine")
    matched, report, asked = apps(["x-3", "x-2", "y-1", "x-1"], {"x-3": away})
    assert matched == ["y-1"]
    assert asked == ["x-3", "y-1"]
    assert report.counts == {"cannot reach the engine": 3}
    assert report.examples("cannot reach the engine") == ["x-3", "x-2", "x-1"]


def test_an_error_of_one_app_does_not_keep_the_next_from_being_searched(apps):
    errors = {"x-2": LogsRemoved("x-2"), "x-1": SchedulerError("the log of x-1 is damaged")}
    matched, report, _ = apps(["x-3", "x-2", "x-1", "x-0"], errors)
    assert matched == ["x-3", "x-0"]
    assert report.counts == {"their logs were removed": 1, "the log of it is damaged": 1}


def test_a_scheduler_that_is_not_installed_any_more_is_a_reason():
    found = [Candidate(1.0, "x-1", is_kept=True, app=AppRecord("gone", "d", "x-1", state="failed"))]
    report = Searched()
    assert list(search(found, query("found"), report)) == []
    [(reason, count)] = report.counts.items()
    assert ("gone" in reason, count) == (True, 1)
