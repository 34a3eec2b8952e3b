"""`launcher report`: its model, its page and its Markdown, from a ledger without processes."""

import dataclasses
import json
import os
import re
import time
from html.parser import HTMLParser

import pytest

from launcher.cli.render.report_html import Scale, report_html
from launcher.cli.render.report_text import report_markdown
from launcher.holding.use import Use
from launcher.inventory.report import ReportChoice, gather
from launcher.inventory.timeline import of_events, of_record
from launcher.specs.attempt import StoodOn
from launcher.state.records import of_attempt
from tests.unit.cli.worlds import attempt, launch, record

HOSTILE = "</script></style><img src=x onerror=alert(1)>\"' ]]> --> \u202egnp.exe \x1b[2J <!-- | `c` [a](b)"
NOW = 1_800_000_000.0


def made(job, state, number=1, *, at=NOW, **fields):
    """Return an attempt that was created at `at`, ran from a second later on, and ended after ten."""
    fields = {"started_at": at + 1, "ended_at": at + 11, **fields}
    of = fields.pop("of", None) or launch(job)
    return dataclasses.replace(attempt(of, state, number=number, **fields), created_at=at)


def report(limit=1000, **choice):
    return gather(ReportChoice(**choice), limit, lambda warning: None)


class Parsed(HTMLParser):
    """The elements of a page, and its text."""

    def __init__(self, page):
        super().__init__()
        self.elements, self.text = [], ""
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data


@pytest.fixture
def hostile():
    """A ledger in which every text that another program wrote tries to break out."""
    before = made("train", "failed", message=f"main/0 exited with 1: {HOSTILE}")
    args = ["-c", HOSTILE]
    more = {
        "path": f"{HOSTILE}.yaml", "commit": HOSTILE, "actor": HOSTILE, "pull_request": HOSTILE,
        "run_url": f"javascript:{HOSTILE}",
    }  # fmt: skip
    record(
        dataclasses.replace(before, **more),
        made("eval", "lost", message=HOSTILE, of=launch("eval", args=args), used={"main": Use(runs=1)}),
    )


def test_no_text_of_another_program_becomes_markup(hostile):
    page = Parsed(report_html(report(), max_bytes=1_000_000))
    tags = [tag for tag, _ in page.elements]
    assert tags.count("script") == 1
    assert tags.count("style") == 1
    assert "img" not in tags
    assert [attrs for _, attrs in page.elements if any(name.startswith("on") for name in attrs)] == []
    links = [attrs["href"] for tag, attrs in page.elements if tag == "a"]
    assert all(link.startswith("#") for link in links)
    assert "<img src=x onerror=alert(1)>" in page.text


def test_control_and_bidirectional_characters_are_shown_escaped(hostile):
    page = report_html(report(), max_bytes=1_000_000)
    assert "\\u202e" in page
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", page)


def test_the_policy_of_the_page_allows_its_own_script_and_style_alone(hostile):
    page = Parsed(report_html(report(), max_bytes=1_000_000))
    [policy] = [attrs["content"] for _, attrs in page.elements if "http-equiv" in attrs]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy
    assert [attrs for _, attrs in page.elements if "style" in attrs or "src" in attrs] == []


def test_markdown_has_no_markup_of_other_programs_outside_of_code(hostile):
    text = report_markdown(report())
    assert "<img" not in text
    assert "](b)" not in text
    assert all(line.startswith("|") == line.endswith("|") for line in text.splitlines())


def test_a_page_is_no_larger_than_asked_and_counts_the_rest():
    record(*(made("train", "failed" if n % 3 else "succeeded", n, at=NOW + n) for n in range(1, 301)))
    found = report(limit=200)
    page = report_html(found, max_bytes=64_000)
    assert len(page.encode()) <= 64_000
    assert sum(found.counts.values()) == 300
    assert sum(found.folded.values()) == 100
    text = Parsed(page).text
    assert "100 older attempts are only counted" in text
    assert "train@300" in text
    assert "train@100" not in text
    assert "left out by --max-bytes" in text


def test_equal_failures_share_a_card_and_past_failures_come_last():
    message = "main/{} exited with 1: no data"
    record(
        made("old", "failed", 1, message="main/0 exited with 9"),
        made("old", "succeeded", 2, at=NOW + 20),
        *(made(f"lr-{n}", "failed", at=NOW + n, message=message.format(n % 2)) for n in range(4)),
    )
    now, past = report().failures
    assert [each.name for each in now.entries] == ["lr-3@1", "lr-2@1", "lr-1@1", "lr-0@1"]
    assert (past.entries[0].name, past.since_then) == ("old@1", "attempt 2 succeeded")


def test_jobs_that_did_not_start_are_named_with_the_failure():
    need = StoodOn("train", 1, 1, "train-1-x", "local_cwd")
    record(
        made("train", "failed", message="main/0 exited with 1"),
        made("eval", "skipped", message="train failed", needs=(need,)),
    )
    [failure] = report().failures
    assert failure.skipped == ["eval@1"]


def test_a_report_since_a_time_has_only_attempts_that_were_live_after_it():
    record(
        made("old", "succeeded", at=NOW - 900),
        made("long", "succeeded", at=NOW - 900, ended_at=NOW + 5),
        made("new", "succeeded", at=NOW + 1),
    )
    assert [each.name for each in report(since=NOW).entries] == ["new@1", "long@1"]
    assert report(since=NOW).counts == {"succeeded": 2}


def test_a_job_is_selected_with_the_jobs_that_it_needs():
    need = StoodOn("prepare", 1, 1, "prepare-1-x", "local_cwd")
    record(
        made("prepare", "succeeded"),
        made("train", "succeeded", at=NOW + 1, needs=(need,)),
        made("other", "succeeded", at=NOW + 2),
    )
    assert [each.name for each in report(select=["+train"]).entries] == ["train@1", "prepare@1"]
    assert [each.name for each in report(select=["prepare+"]).entries] == ["train@1", "prepare@1"]
    assert "attempt 1 succeeded" in report_html(report(), max_bytes=100_000).partition('id="needs"')[2]


# -- the timeline --------------------------------------------------------------------------------------------


def test_the_timeline_of_an_app_has_waits_runs_restarts_and_stops():
    def event(kind, second, **fields):
        return {"e": kind, "t": int((NOW + second) * 1e9), **fields}

    main = {"role": "main", "k": 0}
    events = [
        event("created", 0, roles=[["main", 1]], retries=[[1, "REPLICA"]]),
        event("waiting", 1, **{"for": ["prepare"]}),
        event("queued", 3),
        event("starting", 6),
        event("spawn", 6, **main, pid=1),
        event("exit", 8, **main, code=1),
        event("restart", 8, **main, scope="replica", n=1, delay_s=2),
        event("spawn", 10, **main, pid=2, restart=1),
        event("stopping", 12, why="cancel", state="cancelled", message="cancelled by ann"),
        event("exit", 13, **main, code=143, stopped=True),
        event("ended", 14, state="cancelled", message="cancelled by ann", code=143),
    ]
    app = of_attempt(made("train", "cancelled", ended_at=NOW + 14, message="cancelled by ann"))
    found = of_events(events, app)
    spans = [(span.kind, span.start - NOW, span.end - NOW, span.state) for span in found.phases]
    assert spans == [
        ("before", 0, 1, ""), ("needs", 1, 3, ""), ("line", 3, 6, ""), ("run", 6, 12, "cancelled"),
        ("stop", 12, 14, ""),
    ]  # fmt: skip
    runs = [(span.kind, span.start - NOW, span.end - NOW) for span in found.replicas["main", 0]]
    assert runs == [("run", 6, 8), ("pause", 8, 10), ("run", 10, 12), ("stop", 12, 13)]


def test_an_app_without_events_has_the_times_of_its_record():
    kinds = [span.kind for span in of_record(of_attempt(made("train", "failed"))).phases]
    assert kinds == ["before", "run"]


@pytest.mark.parametrize("size", [0.5, 40, 4000, 90_000, 3e6, 1e9])
def test_a_time_axis_has_at_most_nine_ticks_within_its_bounds(size):
    ticks = list(Scale(NOW, NOW + size).ticks())
    assert len(ticks) <= 9
    assert all(0 <= x <= 100 for x, _ in ticks)


def test_the_jobs_of_a_matrix_share_lines_except_those_that_failed():
    used = {"main": Use((1.0, 0.0, 1 << 20, "cgroup"), 10.0)}
    jobs = [(f"lr-{n}", "failed" if n == 5 else "succeeded") for n in range(20)]
    of = {name: dataclasses.replace(launch(name), file="lr.launcher.yaml") for name, _ in jobs}
    record(*(made(name, state, at=NOW + n, of=of[name], used=used) for n, (name, state) in enumerate(jobs)))
    text = report_markdown(report())
    assert "| lr-19@1 and 18 more | succeeded |" in text
    assert "| lr-5@1 | failed |" in text
    assert text.count("highest of 20: ") == 1
    assert "highest of 20: " in report_html(report(), max_bytes=100_000)


# -- the command ---------------------------------------------------------------------------------------------


def test_a_report_has_the_last_lines_of_a_failure_and_the_results_before_each_result(scenario):
    write = 'echo \'{"loss": %s, "by": {"class": 1}, "top": 3}\' >$LAUNCHER_OUTPUT_DIR/metrics.json'
    scenario.run_to_end(scenario.job(write % 0.5, name="good"))
    scenario.run_to_end(scenario.job(write % 0.25 + "; true", name="good"))
    scenario.run_to_end(scenario.job("echo some; echo no such thing >&2; exit 3", name="bad"), code=5)
    found = json.loads(scenario.launcher("report", "--json").out)
    [failure] = found["failures"]
    assert (failure["replica"], failure["message"]) == ("main/0", "main/0 exited with 3: no such thing")
    assert sorted(failure["last_lines"]) == ["no such thing", "some"]
    [results] = found["results"]
    assert results["before"] == "good@1"
    assert [tuple(each.values()) for each in results["results"]] == [("loss", 0.5, 0.25), ("top", 3, 3)]
    assert "**bad@1**" in scenario.launcher("report", "bad", "--markdown").out


def test_no_form_of_a_report_has_the_value_of_a_secret(scenario):
    secret = 'env: {API_TOKEN: canary-canary, KEY: {secret: "env:HELD"}}'
    job = scenario.job("echo $API_TOKEN $KEY >&2; exit 3", name="bad", role=secret)
    held = {**os.environ, "HELD": "held-back"}
    scenario.launcher("apply", job, "--yes", "--wait", code=5, env=held)
    for form in (["--html", "-"], ["--markdown"], ["--json"]):
        shown = scenario.launcher("report", *form, env=held).out
        assert "canary" not in shown
        assert "held-back" not in shown
        assert "*** ***" in shown.replace("\\*", "*")
        unread = scenario.launcher("report", *form).out
        assert "held-back" not in unread
    assert "HELD is not set" in json.loads(unread)["failures"][0]["unread"]


def test_a_report_replaces_the_file_and_leaves_nothing_beside_it(scenario):
    record(made("train", "succeeded", at=time.time()))
    (scenario.folder / "page.html").write_text("old")
    scenario.launcher("report", "--html", "page.html")
    assert (scenario.folder / "page.html").read_text().startswith("<!DOCTYPE html>")
    assert [path.name for path in scenario.folder.iterdir() if "page" in path.name] == ["page.html"]
    refused = scenario.launcher("report", "--html", "none/page.html", code=1)
    assert "cannot write none/page.html" in refused.err


def test_a_report_goes_through_links_and_into_devices(scenario):
    record(made("train", "succeeded", at=time.time()))
    (scenario.folder / "link.html").symlink_to("page.html")
    scenario.launcher("report", "--html", "link.html")
    assert (scenario.folder / "page.html").read_text().startswith("<!DOCTYPE html>")
    scenario.launcher("report", "--html", "/dev/null")
    assert os.path.exists("/dev/null")
    assert not os.path.isfile("/dev/null")
    assert scenario.launcher("report", "--html", "-").out.startswith("<!DOCTYPE html>")
    assert "cannot write ." in scenario.launcher("report", "--html", ".", code=1).err


def test_an_empty_report_says_so(scenario):
    scenario.launcher("report", "--html", "page.html")
    assert "Nothing ran." in (scenario.folder / "page.html").read_text()
    assert not scenario.home.exists()


def test_report_requires_exactly_one_valid_output_form(scenario):
    assert "say which form to write" in scenario.launcher("report", code=64).err
    assert "cannot be combined" in scenario.launcher("report", "--json", "--markdown", code=64).err
    assert "at least 64kB" in scenario.launcher("report", "--html", "x", "--max-bytes", "9kB", code=64).err
    assert "such as 500kB" in scenario.launcher("report", "--html", "x", "--max-bytes", "many", code=64).err
