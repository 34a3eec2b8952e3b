"""A job runs in its workspace, whose contents are part of the digest of the job."""

import shutil
import subprocess

import pytest

from launcher import load_job
from launcher.apply import apply_launches
from launcher.errors import StaleError

TOP = "workspace: src"


@pytest.fixture
def job(scenario):
    """A job whose workspace holds one file."""
    scenario.write("src/train.py", "print(1)")
    return scenario.job("pwd; ls", top=TOP)


def test_replicas_run_in_the_workspace(scenario, job):
    scenario.run_to_end(job)
    assert scenario.logs("job").split() == [str(scenario.folder / "src"), "train.py"]


def test_run_starts_replicas_in_the_workspace(scenario, job):
    assert str(scenario.folder / "src") in scenario.launcher("run", job).out


def test_a_changed_workspace_is_a_changed_job(scenario, job):
    scenario.run_to_end(job)
    assert scenario.actions(job) == {"job": "keep"}
    scenario.write("src/train.py", "print(2)")
    [step] = scenario.plan_document(job)["jobs"]
    assert (step["action"], step["reasons"][0]["path"]) == ("create", "workspace.digest")


def test_a_result_from_a_workspace_that_was_edited_while_the_job_waited_is_out_of_date(scenario):
    gate = scenario.gate()
    scenario.job(gate.script, name="first")
    scenario.write("src/train.py", "print(1)")
    scenario.job("cat train.py", top=f"{TOP}\nneeds: [first]")
    scenario.apply(".")
    gate.entered()
    scenario.write("src/train.py", "print(2)")
    gate.open()
    scenario.wait("job")
    assert "print(2)" in scenario.logs("job")
    scenario.write("src/train.py", "print(1)")
    step = next(each for each in scenario.plan_document(".")["jobs"] if each["key"]["job"] == "job")
    detail = "train.py of its workspace changed while it waited (attempt 1)"
    assert (step["action"], step["reasons"]) == ("rerun", [{"code": "inputs_changed", "detail": detail}])
    assert detail in scenario.plan(".", "--explain", "job")
    scenario.run_to_end(".")
    assert set(scenario.actions(".").values()) == {"keep"}


def test_a_workspace_that_changes_while_apply_waits_for_another_one_starts_nothing(
    scenario, job, monkeypatch
):
    monkeypatch.setattr("launcher.apply.apply._LONG_WAIT_S", 0.0)
    launch = load_job(job)
    scenario.write("src/train.py", "print(2)")
    with pytest.raises(StaleError, match="the workspace `src` is not what was planned: expected ws1:"):
        apply_launches([launch])
    assert (scenario.apps(), scenario.attempts()) == ([], [])
    scenario.write("src/train.py", "print(1)")
    apply_launches([launch], wait=True)
    assert [each.state for each in scenario.attempts()] == ["succeeded"]


def test_a_job_that_writes_into_its_workspace_comes_to_rest_when_that_is_taken_back(scenario):
    scenario.job("true", name="first")
    scenario.write("src/train.py", "print(1)")
    scenario.job("echo >>train.py", top=f"{TOP}\nneeds: [first]")
    scenario.run_to_end(".")
    scenario.write("src/train.py", "print(1)")
    assert set(scenario.actions(".").values()) == {"keep"}


def test_a_saved_plan_is_stale_when_its_workspace_has_changed(scenario, job):
    scenario.plan(job, "--out", "plan.json")
    scenario.write("src/train.py", "print(2)")
    done = scenario.launcher("apply", "plan.json", code=4)
    assert "default/job: the workspace `src` is not what was planned: expected ws1:sha256:" in done.err
    assert (scenario.apps(), scenario.attempts()) == ([], [])
    scenario.write("src/train.py", "print(1)")
    scenario.launcher("apply", "plan.json", "--wait")


def test_a_saved_plan_is_stale_when_its_workspace_is_gone(scenario, job):
    scenario.plan(job, "--out", "plan.json")
    shutil.rmtree(scenario.folder / "src")
    assert "No such file or directory" in scenario.launcher("apply", "plan.json", code=4).err


def test_a_plan_notes_that_a_scheduler_of_images_does_not_use_the_workspace(scenario):
    scenario.write("src/train.py", "print(1)")
    file = scenario.job("true", role=f"image: {scenario.folder}", top=f"{TOP}\nscheduler: local_dir")
    assert "the workspace `src` is not used: local_dir runs in the image" in scenario.plan(file)


def test_a_single_folder_mapped_to_the_root_is_the_same_workspace_as_the_plain_folder(scenario):
    scenario.write("src/train.py", "print(1)")
    plain = scenario.plan_document(scenario.job("true", top=TOP))["jobs"][0]["launch"]["digest"]
    mapped = scenario.plan_document(scenario.job("true", top="workspace: {src: .}"))
    assert mapped["jobs"][0]["launch"]["digest"] == plain


@pytest.fixture
def writes_into_its_workspace(scenario):
    """A job in a git repository that has written into its own workspace, and so has changed it."""
    file = scenario.job("mkdir -p out; date +%N >out/log; echo >>code/cache; cp out/log 'a b'", top=TOP)
    scenario.write("src/train.py", "print(1)")
    scenario.write("src/code/part.py", "")
    for args in (
        ["init", "-q"], ["add", "."], ["-c", "user.name=x", "-c", "user.email=x@y", "commit", "-qmx"],
    ):  # fmt: skip
        subprocess.run(["git", *args], cwd=scenario.folder, check=True)
    scenario.run_to_end(file)
    return file


@pytest.mark.slow
def test_a_plan_shows_how_to_ignore_the_files_that_a_job_writes_into_its_workspace(
    scenario, writes_into_its_workspace
):
    file = writes_into_its_workspace
    [step] = scenario.plan_document(file)["jobs"]
    [note] = [note for note in step["notes"] if "git does not track" in note]
    assert note.endswith(
        "files that git does not track: a b, code/cache, out/log; if the job writes them, the lines `a b`, "
        "`code/cache`, `out` in its .launcherignore leaves them out"
    )
    scenario.write("src/.launcherignore", "a b\ncode/cache\nout\n")
    scenario.run_to_end(file)
    assert scenario.actions(file) == {"job": "keep"}


@pytest.mark.slow
def test_a_plan_suggests_no_ignoring_of_a_changed_tracked_file(scenario, writes_into_its_workspace):
    scenario.write("src/train.py", "print(2)")
    [step] = scenario.plan_document(writes_into_its_workspace)["jobs"]
    assert not any("git does not track" in note for note in step.get("notes", ()))
