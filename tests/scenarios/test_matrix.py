"""A matrix gives one job for each combination, and only jobs of new combinations run."""

import json

import pytest


@pytest.fixture
def sweep(scenario):
    """Return a function that writes a matrix of items: jobs are named after their model, the group sweep."""

    def write(*items, script="echo $<matrix.model> takes $<matrix.batch> >>log", top="max_parallel: 1"):
        return scenario.write(
            "sweep.launcher.yaml",
            f"""
            version: 1
            name: $<matrix.model>-fit
            {top}
            roles:
              main: {{run: {json.dumps(script)}}}
            matrix:
              group: sweep
              include: {json.dumps(items)}
            """,
        )

    return write


SMALL = {"model": "small", "batch": 64}
LARGE = {"model": "large", "batch": 8}


def test_a_new_value_on_an_axis_plans_one_new_job_for_each_combination(scenario):
    def family(seeds):
        return scenario.job("true", name="grid", top=f"matrix: {{lr: [0.1, 0.01], seed: {seeds}}}")

    scenario.run_to_end(family("[1, 2]"))
    made = scenario.apps()
    file = family("[1, 2, 3]")
    new = {job for job, action in scenario.actions(file).items() if action != "keep"}
    assert len(made) == 4
    assert len(new) == 2
    scenario.run_to_end(file)
    assert len(scenario.apps()) == 6
    assert set(scenario.actions(file).values()) == {"keep"}


@pytest.mark.slow
def test_a_plan_notes_once_that_no_field_refers_to_an_axis(scenario):
    file = scenario.job("echo $<matrix.lr>", name="grid", top="matrix: {lr: [0.1, 0.2], seed: [1, 2, 3]}")
    shown = scenario.launcher("plan", file).out
    assert shown.count("note: nothing refers to `$<matrix.seed>`: the jobs of its 3 values are alike") == 1
    assert "matrix.lr" not in shown
    scenario.run_to_end(file)
    assert "nothing refers" not in scenario.launcher("plan", file).out


def test_include_gives_jobs_values_and_only_a_job_whose_value_changes_runs_again(scenario):
    def family(epochs):
        include = f"[{{epochs: 1}}, {{lr: 0.2, epochs: {epochs}}}, {{lr: 0.5}}]"
        top = f"matrix: {{lr: [0.1, 0.2], include: {include}}}"
        return scenario.job("echo $<matrix.lr> $<matrix.epochs> >>log", name="grid", top=top)

    scenario.run_to_end(family(7))
    log = scenario.folder / "log"
    assert sorted(log.read_text().splitlines()) == ["0.1 1", "0.2 7", "0.5 1"]
    file = family(9)
    assert scenario.actions(file) == {"grid-0p1": "keep", "grid-0p2": "create", "grid-0p5": "keep"}
    scenario.run_to_end(file)
    assert log.read_text().splitlines()[3:] == ["0.2 9"]


def test_items_without_axes_are_jobs_and_a_new_item_is_one_new_job(scenario, sweep):
    scenario.run_to_end(sweep(SMALL))
    file = sweep(SMALL, LARGE)
    assert scenario.actions(file) == {"small-fit": "keep", "large-fit": "create"}
    scenario.run_to_end(file)
    assert (scenario.folder / "log").read_text().splitlines() == ["small takes 64", "large takes 8"]


@pytest.mark.slow
def test_needs_select_and_rerun_take_the_name_of_a_group(scenario, sweep):
    file = sweep(SMALL, LARGE)
    scenario.job("echo report >>log", name="report", top="needs: [sweep]")
    scenario.job("true", name="other")
    scenario.run_to_end(".", "--select", "sweep+")
    log = scenario.folder / "log"
    first, second, last = log.read_text().splitlines()
    assert ({first, second}, last) == ({"small takes 64", "large takes 8"}, "report")
    assert scenario.attempts("other") == []
    rerun = {"small-fit": "rerun", "large-fit": "rerun"}
    assert scenario.actions(file, "--rerun", "sweep") == rerun
    scenario.run_to_end(file, "--rerun", "sweep")
    assert sorted(log.read_text().splitlines()[3:]) == ["large takes 8", "small takes 64"]
    assert scenario.actions(".", "--rerun", "sweep+")["report"] == "rerun"


def test_commands_that_take_several_apps_take_the_name_of_a_group(scenario, sweep):
    gates = {name: scenario.gate(f"{name}-fit") for name in ("small", "large")}
    scenario.apply(sweep(SMALL, LARGE, script="echo $$ >$<job.name>.enter; exec sleep 1000", top=""))
    for gate in gates.values():
        gate.entered()
    shown = json.loads(scenario.launcher("status", "sweep", "--json").out)
    assert {app["job"]: app["state"] for app in shown} == {"large-fit": "RUNNING", "small-fit": "RUNNING"}
    scenario.cancel("sweep", "--yes")
    assert scenario.supervisors() == {}
    assert scenario.wait("sweep", code=5).out.count("CANCELLED") == 2


def test_max_parallel_counts_the_jobs_of_the_group(scenario, sweep):
    items = [{"model": name, "batch": 1} for name in ("a", "b", "c", "d")]
    alone = "exec 9>>alone; flock -n 9 || echo $<job.name> >>over; echo $<job.name> >>log"
    scenario.run_to_end(sweep(*items, script=alone))
    assert (scenario.folder / "log").read_text().splitlines() == ["a-fit", "b-fit", "c-fit", "d-fit"]
    assert not (scenario.folder / "over").exists()
