"""examples/pipeline: prepare, train and evaluate, which hand their files on. Below docker/, in containers."""

import re
import shutil

import pytest

from tests.scenarios.test_examples import EXAMPLES

ALL = ("evaluate", "prepare", "train")
CRASH = 'if step == 150 and not first: raise SystemExit("crashed")'


class Pipeline:
    """A copy of the example that a test may edit; `on` are the arguments that choose its target."""

    def __init__(self, scenario, *on):
        self.scenario = scenario
        self.on = on
        self.target = on[1] if on else "default"
        self.folder = scenario.folder / "pipeline"
        shutil.copytree(EXAMPLES / "pipeline", self.folder)

    def apply(self, *argv, code=0):
        return self.scenario.run_to_end(self.folder, *self.on, *argv, code=code)

    def actions(self, *argv):
        return self.scenario.actions(self.folder, *self.on, *argv)

    def logs(self, job):
        return self.scenario.logs(job, "--no-prefix")

    def edit(self, name, old, new):
        text = (self.folder / name).read_text()
        assert old in text
        (self.folder / name).write_text(text.replace(old, new, 1))

    def crash_once(self):
        """Make the training fail after its first checkpoint. The edited program is no input of the job."""
        self.edit("train.py", "    errors =", f"    {CRASH}\n    errors =")


@pytest.fixture
def pipeline(scenario):
    return Pipeline(scenario)


def test_the_jobs_of_the_pipeline_run_in_order_and_only_once(pipeline):
    assert pipeline.actions() == dict.fromkeys(ALL, "create")
    pipeline.apply()
    assert pipeline.logs("prepare") == "kept 60 of 61 measurements\n"
    assert re.fullmatch(r"mean error 0\.\d\d over 60 points\n", pipeline.logs("evaluate"))
    assert pipeline.actions() == dict.fromkeys(ALL, "keep")


@pytest.mark.slow
def test_a_changed_input_reruns_all_jobs_and_a_changed_job_reruns_its_dependents(pipeline):
    pipeline.apply()
    with (pipeline.folder / "measurements.csv").open("a") as file:
        file.write("6.0,11.2\n")
    assert "keep" not in pipeline.actions().values()
    pipeline.apply()
    assert "over 61 points" in pipeline.logs("evaluate")
    pipeline.edit("train.launcher.yaml", "default: 2000", "default: 1900")
    assert pipeline.actions() == {"prepare": "keep", "train": "create", "evaluate": "rerun"}
    pipeline.apply()
    assert "start at step 0" in pipeline.logs("train")  # another edition has another folder
    pipeline.edit("evaluate.launcher.yaml", "args: [evaluate.py", "args: [-u, evaluate.py")
    assert pipeline.actions() == {"prepare": "keep", "train": "keep", "evaluate": "create"}


@pytest.mark.slow
def test_a_crashed_training_continues_from_its_checkpoint(pipeline):
    pipeline.crash_once()
    done = pipeline.apply(code=5)
    assert "train failed" in done.out + done.err
    assert pipeline.actions() == {"prepare": "keep", "train": "hold", "evaluate": "hold"}
    assert pipeline.actions("--retry-failed") == {"prepare": "keep", "train": "rerun", "evaluate": "create"}
    pipeline.apply("--retry-failed")
    assert "start at step 100" in pipeline.logs("train")
    assert "mean error" in pipeline.logs("evaluate")


@pytest.mark.slow
def test_gc_removes_the_output_folders_that_no_job_needs(pipeline):
    pipeline.apply()
    first = pipeline.scenario.attempts("train", target=pipeline.target)[0]
    pipeline.edit("train.launcher.yaml", "default: 2000", "default: 1900")
    pipeline.apply()
    pipeline.scenario.launcher("gc", "--older-than", "0")
    done = pipeline.scenario.launcher("gc", "--outputs")
    removed = re.findall(r"removed output folder (\S+) of ", done.out)
    assert [each for each in removed if not each.startswith("evaluate-1-")] == [first.app_id]
    assert len(removed) == (2 if pipeline.target == "default" else 1)  # each local job has one
    pipeline.apply("--rerun", "evaluate")
    assert "mean error" in pipeline.logs("evaluate")


def test_a_plan_names_the_job_file_of_a_need_that_never_ran(pipeline):
    done = pipeline.scenario.launcher("plan", pipeline.folder / "train.launcher.yaml", code=1)
    assert "it needs `prepare`, which never ran" in done.err
    assert "pipeline/prepare.launcher.yaml as well" in done.err


@pytest.mark.slow
def test_a_need_may_name_a_matrix_of_another_file(scenario):
    shutil.copytree(EXAMPLES / "sweep", scenario.folder / "sweep")
    scenario.write("launcher.toml", "")
    best = scenario.job("true", name="best", top="needs: [sweep]")
    done = scenario.launcher("plan", best, code=1)
    assert "Plan: 1 cannot be planned" in done.out
    assert "it needs `sweep-0p1-1`" in done.err
    scenario.run_to_end(scenario.folder / "sweep")
    assert scenario.actions(best) == {"best": "create"}
