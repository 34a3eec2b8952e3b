"""Contract: an outcome has its use, its last line and results, and reaches its receivers."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from launcher.inventory.report import ReportChoice, gather
from launcher.specs import Secret
from launcher.specs.attempt import Attempt
from launcher.state.records import as_seen
from launcher.state.store import Store
from tests.contract.conftest import Case
from tests.contract.test_staged import attempt_of, started
from tests.sink import KEY, Sink

BURN = "(ulimit -t 1; while :; do :; done) || true"
"""Ends with the first second of CPU time."""


def test_an_ended_app_has_the_cpu_time_that_it_used(case: Case) -> None:
    app_id = case.run(case.app(f"{BURN}; sleep {case.sampled_s}")).app_id
    seen = case.another().record(app_id)
    assert seen is not None
    use = seen.used["r"]
    assert use.runs == 1
    assert 0.7 <= use.cpu_s < 3.0, "the limit is counted in ticks of the kernel"
    assert 0.0 < use.cores <= 1.2
    assert (use.memory > 0) == bool(use.source)
    (replica,) = seen.replicas
    assert replica.use is not None
    assert replica.use.to_json() == use.to_json()


def test_a_failure_shows_the_last_line_of_stderr(case: Case) -> None:
    described = case.run(case.app("echo out; echo first >&2; echo 'no such file: x' >&2; exit 17"))
    assert described.msg == "r/0 exited with 17: no such file: x"
    seen = case.another().record(described.app_id)
    assert seen.message == described.msg


@pytest.mark.everywhere
def test_the_shown_line_has_no_secret_and_no_terminal_control(case, monkeypatch):
    monkeypatch.setenv("TEST_TOKEN", "hunter2")
    script = r"""printf 'bad \033]0;x\007%s\n' "$TOKEN" >&2; exit 3"""
    described = case.run(case.app(script, env={"TOKEN": Secret.parse("env:TEST_TOKEN")}))
    assert described.msg == r"r/0 exited with 3: bad \x1b]0;x\x07***"


WRITE = """echo '{"loss": %s}' >"$LAUNCHER_OUTPUT_DIR/metrics.json" """
FAIL = "echo first; echo no such thing >&2; exit 3"


def ended(case, staged, script: str, number: int) -> Attempt:
    """Run an attempt to its end; return it as recorded in the store."""
    app = case.app(script)
    attempt = attempt_of(case, app, number)
    attempt = replace(attempt, output=staged.output_folders.address(attempt, app))
    started(staged, attempt, app)
    case.end(attempt.app_id)
    with Store.open() as store:
        seen = as_seen(attempt, staged.record(attempt.app_id))
        store.record(seen)
    return seen


def test_a_report_shows_runs_last_lines_and_results_of_attempts(case, staged):
    for number, script in enumerate((WRITE % 0.5, WRITE % 0.25, FAIL), start=1):
        ended(case, staged, script, number)
    report = gather(ReportChoice(project=case.key().project), 10, lambda warning: None)
    [failure] = report.failures
    entry = failure.entries[0]
    assert sorted(entry.lines) == ["first", "no such thing"], entry.unread
    [[*_, run]] = entry.timeline.replicas.values()
    assert (run.kind, run.state) == ("run", "failed")
    assert "exited with 3" in run.text
    assert [span.state for span in entry.timeline.phases if span.kind == "run"] == ["failed"]
    [results] = report.results
    assert [tuple(each) for each in results.rows] == [("loss", 0.5, 0.25)]


def test_the_receiver_of_an_apply_gets_the_outcome_without_another_command(case, scenario, monkeypatch):
    monkeypatch.setenv("HOOK_KEY", KEY)
    image = f"    image: {case.image}\n" if case.image else ""
    job = scenario.write("job.launcher.yaml", "")
    Path(job).write_text(
        f"version: 1\nname: job\nproject: {case.session}\nscheduler: {case.name}\nroles:\n  r:\n{image}"
        "    entrypoint: sh\n    args: [-c, exit 3]\n"
    )
    with Sink() as sink:
        scenario.apply(job, "--notify", sink.url, "--notify-secret", "env:HOOK_KEY")
        [(_, body)] = sink.wait()
    data = body["data"]
    assert (data["job"], data["state"], data["exit_code"]) == ("job", "failed", 3), json.dumps(data)
    assert data["handle"].startswith(f"{case.name}://{case.session}/")
