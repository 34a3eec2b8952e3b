"""Output folders: their places, the loss of one, and copies of their files."""

import json
import os
import shutil
import signal
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from launcher.inventory.find import find_app
from launcher.inventory.outputs import ResultRow, results_of
from tests.scenario import Scenario

WRITE = "echo data >$LAUNCHER_OUTPUT_DIR/lines"
READ = "cat $<needs.prepare.output_dir>/lines"


def folder_of(scenario: Scenario, app: str) -> Path:
    """Return the output folder that `status` names."""
    return Path(scenario.status(app)["output"])


class TestWhereItIs:
    def test_a_local_job_has_an_output_folder_whether_or_not_its_roles_name_it(self, scenario):
        scenario.job("/bin/sh -c \"$(printf 'echo x >$%s_DIR/file' LAUNCHER_OUTPUT)\"", name="quiet")
        scenario.run_to_end("quiet.launcher.yaml")
        assert (folder_of(scenario, "quiet") / "file").read_text() == "x\n"

    def test_status_describe_ledger_and_apply_name_the_same_output_folder(self, scenario):
        scenario.job(WRITE, name="prepare")
        done = scenario.run_to_end("prepare.launcher.yaml", "--format", "json")
        folder = folder_of(scenario, "prepare")
        assert (folder / "lines").read_text() == "data\n"
        described = json.loads(scenario.launcher("describe", "prepare", "--json").out)
        assert described["output"] == str(folder)
        assert json.loads(done.out)["jobs"][0]["output"] == str(folder)
        assert scenario.attempts("prepare")[-1].output == str(folder)
        assert f"output   {folder}" in scenario.launcher("status", "prepare").out

    def test_the_result_of_apply_shows_only_output_folders_that_have_files(self, scenario):
        scenario.job("true", name="empty")
        scenario.job(WRITE, name="prepare")
        out = scenario.run_to_end(".").out
        assert str(folder_of(scenario, "prepare")) in out
        assert str(folder_of(scenario, "empty")) not in out

    def test_each_combination_of_a_matrix_reads_the_output_folder_of_its_own_need(self, scenario):
        day = "matrix: {day: [1, 'B F']}"
        scenario.job("echo $<matrix.day> >$<output_dir>/day", name="prepare", top=day)
        name = "prepare-$<matrix.day>"
        read = f"cat $<needs.{name}.output_dir>/day"
        scenario.job(read, name="train", top=f"{day}\nneeds: ['{name}']")
        scenario.run_to_end(".")
        logs = [scenario.logs(f"train-{day}", "--no-prefix") for day in ("1", "bf-k6keb")]
        assert logs == ["1\n", "B F\n"]

    def test_a_waiting_attempt_has_no_output_folder(self, scenario):
        gate = scenario.gate()
        scenario.job(gate.script, name="prepare")
        scenario.job("true", name="train", top="needs: [prepare]")
        scenario.apply(".")
        gate.entered()
        assert folder_of(scenario, "prepare").is_dir()
        assert scenario.status("train")["output"] is None
        assert "has not started" in scenario.launcher("output", "train", code=1).err
        scenario.cancel("train")
        assert not Path(scenario.attempts("train")[-1].output).exists()
        gate.open()
        scenario.wait("prepare")


@pytest.fixture
def lose(scenario):
    """A function that removes the output folder of a job, as a user may."""
    return lambda job: shutil.rmtree(folder_of(scenario, job))


@pytest.fixture
def pipeline(scenario, lose):
    """prepare has succeeded, and its output folder is gone; train has never run."""
    scenario.job(WRITE, name="prepare")
    scenario.run_to_end("prepare.launcher.yaml")
    lose("prepare")
    return scenario


def steps(scenario: Scenario, *argv: str) -> dict[str, Any]:
    return {step["key"]["job"]: step for step in scenario.plan_document(*argv or ".")["jobs"]}


class TestLoss:
    @pytest.mark.slow
    def test_a_reader_of_a_lost_output_folder_is_held_until_its_need_has_run_again(self, pipeline):
        pipeline.job(READ, name="train", top="needs: [prepare]")
        found = pipeline.plan(".", code=None)
        assert "keep: attempt 1 succeeded; its output folder is gone" in found
        assert "prepare: its output folder is gone" in found
        assert "--rerun prepare" in found
        assert pipeline.actions(".") == {"prepare": "keep", "train": "hold"}
        pipeline.run_to_end(".", code=None)
        assert pipeline.attempts("train") == []
        pipeline.run_to_end(".", "--rerun", "prepare")
        assert pipeline.attempts("train")[-1].state == "succeeded"
        assert pipeline.actions(".") == {"prepare": "keep", "train": "keep"}

    def test_a_finished_reader_of_a_lost_output_folder_is_kept(self, scenario, lose):
        scenario.job(WRITE, name="prepare")
        scenario.job(READ, name="train", top="needs: [prepare]")
        scenario.run_to_end(".")
        lose("prepare")
        assert scenario.actions(".") == {"prepare": "keep", "train": "keep"}
        [_, drift] = steps(scenario)["prepare"]["reasons"]
        assert (drift["code"], drift["detail"]) == ("drift", "its output folder is gone")

    def test_a_saved_plan_is_refused_when_a_needed_output_folder_is_gone(self, scenario, lose):
        scenario.job(WRITE, name="prepare")
        scenario.run_to_end("prepare.launcher.yaml")
        scenario.job(READ, name="train", top="needs: [prepare]")
        scenario.launcher("plan", ".", "--out", "plan.json", code=None)
        lose("prepare")
        refused = scenario.launcher("apply", "plan.json", "--yes", code=None)
        assert refused.code != 0
        assert scenario.attempts("train") == []

    def test_an_attempt_without_a_recorded_output_folder_has_lost_none(self, pipeline):
        with sqlite3.connect(pipeline.home / "ledger.db") as db:  # as an older version wrote it
            db.execute("UPDATE attempts SET output = ''")
        pipeline.job(READ, name="train", top="needs: [prepare]")
        assert pipeline.actions(".") == {"prepare": "keep", "train": "create"}

    def test_the_output_folder_of_a_job_that_no_job_needs_is_not_checked(self, pipeline):
        assert "is gone" not in pipeline.plan(".")


class TestOfLocalJobs:
    @pytest.mark.slow
    def test_an_attempt_that_never_started_does_not_stand_in_for_the_lost_folder(self, scenario):
        block = scenario.folder / "block"
        scenario.job(f"while [ -e {block} ]; do sleep 0.05; done", name="first")
        scenario.job(WRITE, name="prepare", top="needs: [first]")
        scenario.run_to_end(".")
        shutil.rmtree(folder_of(scenario, "prepare"))
        block.touch()
        scenario.apply(".", "--rerun", "first", "--rerun", "prepare")
        again = scenario.attempts("prepare")[-1]
        assert (again.number, again.edition, again.state) == (2, 1, "waiting")
        scenario.cancel("prepare")
        assert not Path(again.output).exists()
        block.unlink()
        scenario.wait("first")


class TestTheCommand:
    def test_output_prints_only_the_path(self, scenario):
        scenario.job(WRITE, name="prepare")
        scenario.run_to_end("prepare.launcher.yaml")
        printed = scenario.launcher("output", "prepare").out
        assert printed == f"{folder_of(scenario, 'prepare')}\n"
        assert json.loads(scenario.launcher("output", "prepare@1", "--json").out)["output"] == printed.strip()

    def test_output_copies_the_files(self, scenario):
        more = "mkdir -p a/b; ln -s ../lines a/link; touch a/b/c; chmod +x a/b/c"
        scenario.job(f"{WRITE}; cd $LAUNCHER_OUTPUT_DIR; {more}", name="prepare")
        scenario.run_to_end("prepare.launcher.yaml")
        done = scenario.launcher("output", "prepare", "--copy", "got/it")
        got = scenario.folder / "got" / "it"
        assert (got / "lines").read_text() == (got / "a" / "link").read_text() == "data\n"
        assert os.access(got / "a" / "b" / "c", os.X_OK)
        assert (done.out, done.err) == ("", "copied 2 files, 5 B, to got/it\n")
        assert os.listdir(got.parent) == ["it"]

    def test_output_overwrites_no_file(self, scenario):
        scenario.job(WRITE, name="prepare")
        scenario.run_to_end("prepare.launcher.yaml")
        (scenario.folder / "got").mkdir()
        (scenario.folder / "got" / "mine").touch()
        refused = scenario.launcher("output", "prepare", "--copy", "got", code=1)
        assert "got is not empty" in refused.err
        assert os.listdir(scenario.folder / "got") == ["mine"]

    def test_output_shows_how_to_make_a_missing_output_folder(self, pipeline):
        gone = pipeline.launcher("output", "prepare", code=1)
        assert "is gone" in gone.err
        assert "launcher apply prepare.launcher.yaml --rerun prepare" in gone.err
        app = pipeline.launcher("run", "-s", "local_cwd", "utils.echo", code=None)
        handle = json.loads(pipeline.launcher("list", "--json").out)[0]["handle"]
        assert app.code == 0
        assert "no job file made it" in pipeline.launcher("output", handle, code=1).err

    @pytest.mark.parametrize("name", ["KILL", "INT", "TERM"])
    def test_a_stopped_copy_of_an_output_folder_leaves_no_file(self, scenario, name):
        scenario.job("truncate -s 200G $LAUNCHER_OUTPUT_DIR/huge", name="prepare")
        scenario.run_to_end("prepare.launcher.yaml")
        before = sorted(os.listdir(scenario.folder))
        copying = scenario.start("output", "prepare", "--copy", "got")
        while not any(each.stat().st_size for each in scenario.folder.glob(".got.*/files/huge")):
            assert copying.poll() is None
        copying.send_signal(getattr(signal, f"SIG{name}"))
        copying.wait(60)
        hidden = set(os.listdir(scenario.folder)) - set(before)
        assert len(hidden) == (1 if name == "KILL" else 0)
        assert "got" not in hidden
        (folder_of(scenario, "prepare") / "huge").unlink()
        scenario.launcher("output", "prepare", "--copy", "got")
        assert sorted(os.listdir(scenario.folder)) == sorted([*before, "got"])


class TestResults:
    """Numbers in metrics.json."""

    def write(self, scenario: Scenario, loss: float, then: str = "true") -> None:
        script = f"""echo '{{"loss": {loss}}}' >$LAUNCHER_OUTPUT_DIR/metrics.json; {then}"""
        scenario.job(script, name="train")

    def results(self, attempt: int) -> list[ResultRow]:
        return results_of(find_app(f"train@{attempt}"))

    def test_results_are_shown_beside_the_results_of_the_success_before(self, scenario):
        for number, (loss, then) in enumerate([(0.5, "true"), (0.4, "exit 3"), (0.25, "true")], 1):
            self.write(scenario, loss, then)
            scenario.launcher("apply", ".", "--yes", "--wait", code=None)
            assert scenario.attempts("train")[-1].number == number
        assert self.results(1) == [ResultRow("loss", None, 0.5)]
        assert self.results(3) == [ResultRow("loss", 0.5, 0.25)]
        shutil.rmtree(folder_of(scenario, "train@1"))
        assert self.results(3) == [ResultRow("loss", None, 0.25)]

    def test_a_file_of_another_attempt_in_the_same_folder_is_not_read(self, scenario):
        self.write(scenario, 0.5)
        scenario.run_to_end(".")
        file = folder_of(scenario, "train") / "metrics.json"
        written_at = file.stat().st_mtime
        for moment in (written_at - 3600, written_at + 3600):
            os.utime(file, (moment, moment))
            assert self.results(1) == []
