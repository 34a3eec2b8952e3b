"""Contract: a report shows of an app, beyond its record, its runs, last lines and results."""

from dataclasses import replace

from launcher.inventory.report import ReportChoice, gather
from launcher.specs.attempt import Attempt
from launcher.state.records import as_seen
from launcher.state.store import Store
from tests.contract.test_staged import attempt_of

WRITE = """echo '{"loss": %s}' >"$LAUNCHER_OUTPUT_DIR/metrics.json" """
FAIL = "echo first; echo no such thing >&2; exit 3"


def ended(case, staged, script: str, number: int) -> Attempt:
    """Run an attempt to its end; return it as recorded in the store."""
    app = case.app(script)
    attempt = attempt_of(case, app, number)
    attempt = replace(attempt, output=staged.output_folders.address(attempt, app))
    reservation = staged.reserve(attempt)
    staged.create(reservation, app, {})
    staged.start(reservation)
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
