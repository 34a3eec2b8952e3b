"""Plan and apply, from a file to finished processes: jobs that run, are kept, or are held."""

import subprocess
from pathlib import Path

import pytest

from launcher.specs import AppState

FAILS = "echo trying; exit 3"


def test_a_new_job_is_created_and_runs_to_its_end(scenario):
    file = scenario.job("echo it ran")
    assert scenario.actions(file) == {"job": "create"}
    done = scenario.launcher("apply", file, "--yes", "--wait", "--logs")
    assert "it ran" in done.out
    assert scenario.state("job") is AppState.SUCCEEDED
    assert scenario.supervisors() == {}


def test_a_second_apply_keeps_the_finished_job_and_reports_it_unchanged(scenario):
    file = scenario.job("true")
    scenario.run_to_end(file)
    second = scenario.run_to_end(file)
    assert "1 unchanged" in second.out
    assert "succeeded" in second.out
    assert len(scenario.attempts()) == len(scenario.apps()) == 1
    scenario.plan(file, "--detailed-exitcode", code=0)
    assert scenario.actions(file) == {"job": "keep"}


def test_an_apply_with_wait_does_not_wait_for_a_disabled_job(scenario):
    file = scenario.job(FAILS, top="enabled: false")
    scenario.run_to_end(file, code=0)
    scenario.run_to_end(scenario.job(FAILS), code=5)
    scenario.job(FAILS, top="enabled: false")
    scenario.run_to_end(file, code=0)
    assert len(scenario.apps()) == 1


def test_a_failed_job_is_held_until_a_user_asks(scenario):
    file = scenario.job(FAILS)
    scenario.run_to_end(file, code=5)
    assert scenario.state("job") is AppState.FAILED
    held = scenario.run_to_end(file, code=5)  # --wait: a held job has not succeeded
    assert "1 held" in held.out
    scenario.apply(file, code=0)  # without --wait a held job is no error
    assert len(scenario.attempts()) == 1

    scenario.run_to_end(file, "--rerun", "job", code=5)
    assert [attempt.action for attempt in scenario.attempts()] == ["create", "rerun"]


@pytest.mark.slow
def test_retry_failed_runs_every_failed_job_again(scenario):
    files = [scenario.job(FAILS, name="bad"), scenario.job("true", name="good")]
    scenario.run_to_end(*files, code=5)
    assert scenario.actions(*files, "--retry-failed") == {"bad": "rerun", "good": "keep"}
    scenario.run_to_end(*files, "--retry-failed", code=5)
    assert [len(scenario.attempts(name)) for name in ("bad", "good")] == [2, 1]


def test_a_plan_shows_a_changed_argument_by_its_path_alone(scenario):
    file = scenario.write(
        "job.launcher.yaml",
        """
        version: 1
        name: job
        roles:
          main: {entrypoint: echo, args: [--epochs, "3", --seed, "7"], env: {A: "1"}}
        """,
    )
    scenario.run_to_end(file)
    file.write_text(file.read_text().replace('"3"', '"5"'))
    shown = scenario.plan(file, "--detailed-exitcode", code=2)
    assert '~ roles.main.args[1]: "3" → "5"' in shown
    shown = [line.lstrip() for line in shown.splitlines()]
    assert [line for line in shown if line.startswith(("~ ", "+ roles", "- roles"))][1:] == []

    document = scenario.plan_document(file)
    [job] = document["jobs"]
    assert [(change["op"], change["path"], change["old"], change["new"]) for change in job["changes"]] == [
        ("~", "roles.main.args[1]", "3", "5")
    ]
    scenario.run_to_end(file)
    assert [attempt.number for attempt in scenario.attempts()] == [1, 2]
    assert "--epochs 5" in scenario.logs("job")
    assert "--epochs 3" in scenario.logs("job@1")


@pytest.mark.slow
def test_replacing_a_running_job_needs_approval_and_stops_the_old_attempt_first(scenario):
    file, _ = scenario.running()
    [old] = scenario.supervisors()
    scenario.job("echo new")
    assert scenario.actions(file) == {"job": "replace"}
    scenario.apply(file, code=3)
    assert "pass --yes --allow-destructive" in scenario.launcher("apply", file, code=3).err
    assert list(scenario.supervisors()) == [old]

    scenario.run_to_end(file, "--allow-destructive")
    assert scenario.processes_of(old) == []
    assert [attempt.state for attempt in scenario.attempts()] == ["cancelled", "succeeded"]


def test_a_protected_job_is_never_stopped(scenario):
    file, gate = scenario.running(top="lifecycle: {protect: true}")
    scenario.job("true", top="lifecycle: {protect: true}")
    scenario.apply(file, "--allow-destructive", code=3)
    assert len(scenario.supervisors()) == 1
    gate.open()
    scenario.wait("job")


def test_a_job_without_its_file_is_an_orphan_that_prune_destroys(scenario):
    gate = scenario.gate()
    file = scenario.job(gate.script)
    scenario.apply(scenario.folder)
    gate.entered()
    file.unlink()
    scenario.job("true", name="other")
    scenario.run_to_end(scenario.folder)  # reported, not touched
    assert len(scenario.supervisors()) == 1
    scenario.apply(scenario.folder, "--prune", "--allow-destructive")
    assert scenario.supervisors() == {}
    assert scenario.attempts()[-1].state == "cancelled"


def test_a_job_whose_file_a_sparse_checkout_leaves_out_is_no_orphan(scenario):
    gate, top = scenario.gate(), scenario.folder
    for name in ("kept", "away"):
        (top / name).mkdir()
    scenario.job("true", name="other").rename(top / "kept" / "other.launcher.yaml")
    left_out = scenario.job(gate.script).rename(top / "away" / "job.launcher.yaml")
    git(top, "init", "-q")
    git(top, "add", "kept", "away")
    git(top, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "jobs")
    scenario.apply(top)
    gate.entered()
    git(top, "sparse-checkout", "set", "kept")
    assert not left_out.exists()
    assert "orphaned" not in scenario.launcher("plan", top).out
    scenario.run_to_end(top, "--prune", "--allow-destructive")
    assert [attempt.state for attempt in scenario.attempts("job")] == ["running"]
    git(top, "rm", "-q", "--sparse", left_out.relative_to(top))
    scenario.apply(top, "--prune", "--allow-destructive")
    assert [attempt.state for attempt in scenario.attempts("job")] == ["cancelled"]


def git(folder: Path, *words: object) -> None:
    subprocess.run(["git", "-C", folder, *map(str, words)], check=True, capture_output=True)


def test_a_saved_plan_applied_twice_is_stale_the_second_time(scenario):
    scenario.plan(scenario.job("true"), "--out", "plan.json")
    scenario.launcher("apply", "plan.json", "--wait")
    apps = scenario.apps()
    scenario.launcher("apply", "plan.json", "--wait", code=4)
    assert scenario.apps() == apps
    assert len(scenario.attempts()) == 1


def test_a_saved_plan_runs_as_planned_after_an_edit_of_its_job_file(scenario):
    file = scenario.job("echo planned")
    scenario.plan(file, "--out", "plan.json")
    scenario.job("echo edited")
    scenario.launcher("apply", "plan.json", "--wait")
    assert "planned" in scenario.logs("job")


@pytest.mark.slow
def test_twenty_applies_at_once_make_one_attempt(scenario):
    log = scenario.folder / "runs"
    file = scenario.job(f"echo run >>{log}")
    racing = [scenario.start("apply", file, "--yes", "--wait", "--lock-timeout", "10m") for _ in range(20)]
    outputs = [process.communicate() for process in racing]
    assert [process.returncode for process in racing] == [0] * 20, outputs
    assert log.read_text() == "run\n"
    assert len(scenario.attempts()) == len(scenario.apps()) == 1


@pytest.mark.slow
def test_twenty_applies_of_one_saved_plan_make_one_attempt(scenario):
    log = scenario.folder / "runs"
    scenario.plan(scenario.job(f"echo run >>{log}"), "--out", "plan.json")
    racing = [scenario.start("apply", "plan.json", "--wait", "--lock-timeout", "10m") for _ in range(20)]
    outputs = [process.communicate() for process in racing]
    assert sorted(process.returncode for process in racing) == [0] + [4] * 19, outputs
    assert log.read_text() == "run\n"


def test_an_apply_with_one_bad_job_file_submits_no_job(scenario):
    good = scenario.job("true", name="good")
    bad = scenario.write("bad.launcher.yaml", "version: 1\nname: bad\nroles: {main: {entrypoint: [a]}}\n")
    scenario.apply(good, bad, code=6)
    assert scenario.apps() == []


def test_a_job_of_another_origin_is_refused_unless_taken_over(scenario):
    for folder in ("a", "b"):
        text = "version: 1\nname: job\nroles: {main: {entrypoint: 'true'}}\n"
        scenario.write(f"{folder}/job.launcher.yaml", text)
    scenario.run_to_end("a")
    refused = scenario.run_to_end("b", code=None)
    assert refused.code != 0
    assert "project" in refused.err
    assert len(scenario.attempts()) == 1
    scenario.run_to_end("b", "--take-over")


def test_a_replica_inherits_the_environment_of_the_applying_client(scenario, monkeypatch):
    monkeypatch.setenv("CANARY", "tweet-2217")
    scenario.run_to_end(scenario.job("echo $CANARY"))
    assert "tweet-2217" in scenario.logs("job")
    written = [path for path in scenario.home.rglob("*") if path.is_file() and "logs" not in path.parts]
    assert [path for path in written if b"tweet-2217" in path.read_bytes()] == []
