"""Structured errors: the error files of replicas are shown with the root cause first."""

import json
from pathlib import Path

import pytest

from tests.scenario import Scenario


def error(message: str, *, at: float = 1_700_000_000, code: int = 7, stack: str = "") -> str:
    extra = {"timestamp": str(at), "py_callstack": stack}
    return json.dumps({"message": {"message": message, "errorCode": code, "extraInfo": extra}})


def failing(scenario: Scenario, *texts: str) -> None:
    """Run a job whose replica k leaves texts[k] in its error file, and fails."""
    for k, text in enumerate(texts):
        scenario.write(f"error{k}", text)
    ready = " && ".join(f"test -e ready{k}" for k in range(len(texts)))
    # All have written before any fails: whoever fails first stops the others.
    script = (
        "cp error$LAUNCHER_REPLICA $TORCHELASTIC_ERROR_FILE; touch ready$LAUNCHER_REPLICA;"
        f" until {ready}; do sleep 0.01; done; exit 3"
    )
    role = "env: {LAUNCHER_REPLICA: $<replica_id>}"
    scenario.run_to_end(scenario.job(script, replicas=len(texts), role=role), code=None)


def status(scenario: Scenario) -> str:
    return scenario.launcher("status", "job").out


def test_status_shows_the_first_error_above_the_replicas(scenario: Scenario) -> None:
    stack = "Traceback\n" + "".join(f"  line {n}\n" for n in range(20)) + "ValueError: no data"
    failing(scenario, error("late", at=1_700_000_009), error("ValueError: no data", stack=stack))
    shown = status(scenario)
    block, table = shown[shown.index("ROOT CAUSE") :].split("REPLICA", 1)
    assert "main/1: ValueError: no data" in block
    assert "exit code 7" in block
    assert "2023-11-1" in block
    assert "localhost" in block
    assert "line 19" in block
    assert "line 2\n" not in block
    assert "--json" in block
    assert "late" in table


def test_status_json_has_the_whole_error(scenario: Scenario) -> None:
    failing(scenario, error("boom\nsecond line", stack="deep\nstack"))
    found = scenario.status("job")
    assert found["root_cause"] == {
        "role": "main", "replica": 0, "message": "boom\nsecond line", "exit_code": 7,
        "time": "2023-11-14T22:13:20.000Z", "callstack": "deep\nstack", "host": "localhost",
    }  # fmt: skip
    assert found["replicas"][0]["error"]["message"] == "boom\nsecond line"
    assert found["replicas"][0]["host"] == "localhost"


@pytest.mark.parametrize("leave", ["true", "mkfifo $TORCHELASTIC_ERROR_FILE"], ids=["no file", "a pipe"])
def test_status_shows_no_root_cause_without_error_files(scenario: Scenario, leave: str) -> None:
    scenario.run_to_end(scenario.job(f"{leave}; exit 3"), code=5)
    assert "ROOT CAUSE" not in status(scenario)
    assert scenario.status("job")["root_cause"] is None


LATER = {"message": {"message": "boom", "extraInfo": {"timestamp": 10**30}}}


@pytest.mark.parametrize("found", [{"message": "plain"}, LATER], ids=["no time", "a time of no calendar"])
def test_an_incomplete_error_file_is_completed_from_the_replica(scenario: Scenario, found: object) -> None:
    failing(scenario, json.dumps(found))
    status = scenario.status("job")
    assert status["root_cause"]["exit_code"] == 3
    assert status["root_cause"]["time"] == status["replicas"][0]["ended_at"]
    assert json.loads(scenario.launcher("describe", "job", "--json").out)


@pytest.mark.parametrize(
    "text", ['{"message": {"mess', "[" * 100_000, "\0\1\x1b[2J\x07\x7f", "x" * 3_000_000, '{"message": 7}']
)
def test_any_content_of_an_error_file_is_harmless(scenario: Scenario, text: str) -> None:
    failing(scenario, text)
    shown = status(scenario)
    assert "ROOT CAUSE" in shown
    assert all(line.isprintable() for line in shown.splitlines())
    assert len(shown) < 5000
    assert len(json.dumps(scenario.status("job"))) < 10_000_000


def test_a_success_shows_no_error_of_an_earlier_run(scenario: Scenario) -> None:
    leave = f"echo '{error('first try')}' > $TORCHELASTIC_ERROR_FILE"
    script = f"test -e tried && exit 0; touch tried; {leave}; exit 1"
    scenario.run_to_end(scenario.job(script, role="max_retries: 1"))
    assert scenario.status("job")["root_cause"] is None


def test_the_outcome_of_a_failed_job_names_the_root_cause(scenario: Scenario) -> None:
    failing(scenario, error("ValueError: \x1b[31mno data"))
    line = scenario.launcher("wait", "job", code=5).out
    assert line.endswith("FAILED: main/0 exited with 3; main/0: ValueError: \\x1b[31mno data\n")
    path = scenario.job(f"echo '{error('boom')}' > $TORCHELASTIC_ERROR_FILE; exit 1", name="other")
    assert "main/0: boom" in scenario.run_to_end(path, code=5).out
    assert "FAILED: main/0: boom" in scenario.launcher("run", path, code=5).err


def test_the_api_returns_the_earliest_error_as_the_root_cause(scenario, monkeypatch):
    failing(scenario, error("effect", at=1_700_000_009), error("cause"))
    monkeypatch.chdir(Path(scenario.folder))
    from launcher.runner import get_runner

    with get_runner() as runner:
        found = runner.status(scenario.status("job")["handle"])
    assert json.loads(found.structured_error_msg)["message"]["message"] == "cause"


def test_the_message_of_a_very_long_error_file_is_the_root_cause(scenario: Scenario) -> None:
    failing(scenario, error("ValueError: no data\n" + "x" * 2_000_000))
    assert "main/0: ValueError: no data\n" in status(scenario)
