"""A workspace of a job in containers: in an image that the plan names, and that is built once."""

import pytest

from launcher.specs import AppState

TOP = "workspace: src"


@pytest.fixture
def job(scenario):
    scenario.write("src/words.txt", scenario.token)
    return scenario.job("cat words.txt", top=TOP)


def images(scenario):
    return {name for one in scenario.daemon.images() for name in one.name.split()}


def planned(scenario, job):
    """Return the image that the request of a plan names."""
    shown = scenario.plan(job, "--show-request")
    [name] = {word.strip("'\",") for word in shown.split() if "launcher-workspace:" in word}
    return name


def test_replicas_find_the_files_in_the_image_that_the_plan_names(scenario, job):
    image = planned(scenario, job)
    assert image not in images(scenario), "a plan builds nothing"
    scenario.run_to_end(job)
    assert scenario.logs("job", "--no-prefix") == scenario.token
    assert image in images(scenario)
    assert scenario.actions(job) == {"job": "keep"}


def test_a_changed_file_makes_another_image_and_another_attempt(scenario, job):
    scenario.run_to_end(job)
    scenario.write("src/words.txt", f"{scenario.token} changed")
    assert scenario.actions(job) == {"job": "create"}
    scenario.run_to_end(job)
    assert scenario.logs("job", "--no-prefix") == f"{scenario.token} changed"


def test_a_workspace_that_cannot_be_built_fails_with_its_output_and_leaves_no_image(scenario, job):
    scenario.write("src/Dockerfile", "ARG IMAGE\nFROM $IMAGE\nRUN echo the cause; exit 3\n")
    report = scenario.apply(job, code=None)
    assert report.code != 0
    assert "the cause" in report.out + report.err
    assert scenario.things() == []


def test_an_apply_reports_the_build_of_the_workspace_image(scenario, job):
    events = scenario.launcher("apply", job, "--yes", "--wait", "--format", "jsonl")
    assert '"building"' in events.out
    assert '"built"' in events.out
    assert scenario.state("job") is AppState.SUCCEEDED


@pytest.fixture
def projects(scenario):
    """A job whose workspace is put together of two folders and a file."""
    scenario.write("src/main.txt", scenario.token)
    scenario.write("src/lib/a.txt", "of src\n")
    scenario.write("lib/a.txt", "of lib\n")
    scenario.write("conf.ini", "")
    top = "workspace: {lib: app/lib, src: app, conf.ini: .}"
    return scenario.job("cat app/lib/a.txt; ls . app", top=top)


def test_the_files_of_several_projects_lie_where_the_workspace_maps_them(scenario, projects):
    image = planned(scenario, projects)
    scenario.run_to_end(projects)
    assert scenario.logs("job", "--no-prefix").split() == [
        "of", "lib", ".:", "app", "conf.ini", "app:", "lib", "main.txt",
    ]  # fmt: skip
    assert image in images(scenario)
    assert scenario.actions(projects) == {"job": "keep"}
    scenario.write("lib/a.txt", f"{scenario.token} changed")
    [step] = scenario.plan_document(projects)["jobs"]
    assert (step["action"], step["reasons"][0]["path"]) == ("create", "workspace.projects.lib.digest")
    assert "of lib" not in scenario.launcher("run", projects).out


def test_a_saved_plan_of_several_projects_is_stale_when_one_has_changed(scenario, projects):
    scenario.plan(projects, "--out", "plan.json")
    scenario.write("conf.ini", "x")
    assert (
        "the workspace `conf.ini` is not what was planned"
        in scenario.launcher("apply", "plan.json", code=4).err
    )
    scenario.write("conf.ini", "")
    scenario.launcher("apply", "plan.json", "--wait")
    assert scenario.state("job") is AppState.SUCCEEDED


def test_a_dockerfile_that_drops_the_image_of_a_role_is_noted(scenario, job):
    scenario.write("src/Dockerfile", "FROM other:1\n")
    for shown in (scenario.plan(job), scenario.launcher("run", job, "--dryrun").out):
        assert "is not used: the workspace's Dockerfile has no FROM $IMAGE" in shown
