"""`--check`: Slurm is asked whether it would take a request, and gets no job."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.scenario import Scenario


@pytest.fixture
def sbatch_calls(calls_of: Callable[[str], Path]) -> Path:
    """A file with a line for each call of sbatch: its options."""
    return calls_of("sbatch")


def step_of(scenario: Scenario, *argv: str | Path) -> dict:
    (step,) = scenario.plan_document(*argv, "--check")["jobs"]
    return step


def test_a_plan_without_the_check_option_does_not_call_sbatch(scenario, sbatch_calls):
    assert scenario.actions(scenario.job("true", top="cfg: {partition: nope}")) == {"job": "create"}
    assert sbatch_calls.read_text() == ""


def test_check_changes_nothing_about_a_job_that_slurm_accepts(scenario, sbatch_calls):
    file = scenario.job("true", replicas=2, top="cfg: {partition: short, nodes: 2}")
    plain, checked = scenario.plan_document(file), scenario.plan_document(file, "--check")
    assert checked["plan_digest"] == plain["plan_digest"]
    assert checked["jobs"] == plain["jobs"]
    assert sbatch_calls.read_text() == "--test-only\n"
    assert (scenario.queue(), scenario.apps()) == ([], [])


NO_NODES = "Requested node configuration is not available"
REFUSED = {
    "partition": ({"top": "cfg: {partition: nope}"}, "cfg.partition", "Invalid partition name specified"),
    "constraint": ({"top": "cfg: {constraint: nope}"}, "cfg.constraint", "Invalid feature specification"),
    "license": ({"top": "cfg: {sbatch: {licenses: nope}}"}, "cfg.sbatch.licenses",
        "Invalid license specification"),
    "node": ({"top": "cfg: {sbatch: {nodelist: n99}}"}, "cfg.sbatch.nodelist", "Invalid node name specified"),
    "plugin": ({"top": "cfg: {sbatch: {of-a-plugin: x}}"}, "cfg.sbatch.of-a-plugin", "unrecognized option"),
    "gres": ({"top": "cfg: {gres: 'gpu:nope:1'}"}, "", NO_NODES),
    "memory": ({"role": "resource: {memory: 900GiB}"}, "", NO_NODES),
    "cores": ({"role": "resource: {cpu: 17}"}, "", NO_NODES),
    "replicas": ({"replicas": 100}, "", ""),
}  # fmt: skip
"""Job → its fields, the field that Slurm refuses, if known, and words of the refusal."""


def test_a_refused_job_is_held_with_the_message_of_slurm_and_the_field(scenario):
    files = [scenario.job("true", name=name, **fields) for name, (fields, _, _) in REFUSED.items()]
    for step in scenario.plan_document(*files, "--check")["jobs"]:
        _, path, words = REFUSED[step["key"]["job"]]
        assert (step["action"], step["blocked"]) == ("hold", "refused")
        first, *others = step["reasons"]
        assert (first["code"], first.get("path", "")) == ("refused", path)
        assert words in first["detail"]
        assert [each["code"] for each in others] == ["no_attempt"]


def test_a_job_that_needs_a_refused_job_is_held_too(scenario):
    first = scenario.job("true", name="first", top="cfg: {partition: nope}")
    second = scenario.job("true", name="second", top="needs: [first]")
    jobs = scenario.plan_document(first, second, "--check")["jobs"]
    assert [(each["action"], each["reasons"][0]["code"]) for each in jobs] == [
        ("hold", "refused"),
        ("hold", "needs_failed"),
    ]


def test_a_job_that_waits_for_another_job_is_checked_without_that_dependency(scenario):
    first = scenario.job("true", name="first")
    second = scenario.job("true", name="second", top="needs: [first]")
    assert {step["action"] for step in scenario.plan_document(first, second, "--check")["jobs"]} == {"create"}


def test_apply_with_check_submits_nothing_where_slurm_refuses_one_job(scenario):
    good, bad = scenario.job("true", name="good"), scenario.job("true", name="bad", top="cfg: {partition: x}")
    refused = scenario.apply(good, bad, "--check", code=3)
    assert 'bad: cfg.partition = "x" is refused by slurm: Invalid partition name' in refused.err
    assert (scenario.queue(), scenario.apps()) == ([], [])
    scenario.launcher("plan", good, bad, "--check", "--out", "plan.json")
    assert "is refused by slurm" in scenario.launcher("apply", "plan.json", code=3).err
    assert (scenario.queue(), scenario.apps()) == ([], [])
    scenario.run_to_end(good, "--check")
    assert scenario.actions(good, "--check") == {"good": "keep"}


def test_equal_requests_of_a_matrix_are_checked_once(scenario, sbatch_calls):
    file = scenario.folder / "sweep.launcher.yaml"
    resource, axes = "resource: {cpu: $<matrix.cpu>}", "seed: {range: [0, 500]}, cpu: [1, 17]"
    role = f"entrypoint: echo, args: [$<matrix.seed>], {resource}"
    file.write_text(
        f"version: 1\nname: sweep\nscheduler: slurm\nroles: {{main: {{{role}}}}}\nmatrix: {{{axes}}}\n"
    )
    jobs = scenario.plan_document(file, "--check")["jobs"]
    assert sbatch_calls.read_text() == "--test-only\n" * 2
    assert [each["blocked"] for each in jobs if each["key"]["job"].startswith("sweep-17")] == [
        "refused"
    ] * 500
    assert [each["action"] for each in jobs if each["key"]["job"].startswith("sweep-1-")] == ["create"] * 500


def test_requests_beyond_the_first_hundred_are_not_checked(scenario, sbatch_calls):
    file = scenario.folder / "sweep.launcher.yaml"
    role = "entrypoint: 'true', num_replicas: $<matrix.n>"
    head = "version: 1\nname: sweep\nscheduler: slurm\n"
    file.write_text(f"{head}roles: {{main: {{{role}}}}}\nmatrix: {{n: {{range: [1, 104]}}}}\n")
    jobs = scenario.plan_document(file, "--check")["jobs"]
    assert sbatch_calls.read_text() == "--test-only\n" * 100
    said = "not checked whether slurm takes the request: there are 103 different requests"
    notes = {each["key"]["job"]: [note for note in each.get("notes", ()) if said in note] for each in jobs}
    assert [job for job, found in notes.items() if found] == ["sweep-101", "sweep-102", "sweep-103"]


def test_a_request_that_only_a_drained_node_could_take_stays_unchecked(broken):
    """The rehearsal of sbatch knows the available nodes alone; sbatch takes the job, which waits."""
    scenario = broken("--nodes", "3")
    drain = ("scontrol", "update", "state=drain", "reason=test")
    wide, large = (
        scenario.job("true", name="wide", replicas=48),
        scenario.job("true", role="resource: {cpu: 17}"),
    )
    old = scenario.job("true", name="old", top="cfg: {constraint: old}")
    assert scenario.actions(wide, large, old, "--check") == {"wide": "create", "job": "hold", "old": "create"}
    scenario.cluster.run(*drain, "nodename=n2")
    (step,) = (each for each in scenario.plan_document(wide, "--check")["jobs"])
    assert step["action"] == "create"
    assert step["notes"][-1] == (
        "not checked whether slurm takes the request: Requested node configuration is not available, "
        "and 1 of its partition's nodes is down or drained"
    )
    # n2 is like n3, so it would do no more for a job of one node; n1 is like no other node.
    assert scenario.actions(large, "--check") == {"job": "hold"}
    scenario.cluster.run(*drain, "nodename=n1")
    assert scenario.actions(large, old, "--check") == {"job": "create", "old": "create"}
    scenario.cluster.run("scontrol", "update", "partition=short", "state=down")
    short = scenario.job("true", name="short", top="cfg: {partition: short}")
    assert scenario.actions(short, "--check") == {"short": "create"}


def test_limits_that_a_site_enforces_are_refused_with_their_field(broken):
    scenario = broken("--nodes", "1", "--set", "EnforcePartLimits=ALL")
    words = "Requested time limit is invalid"
    for top, path in (
        ("cfg: {partition: short, time: 1h}", "cfg.time"),
        ("cfg: {partition: short}\ntimeout: 1h", "timeout_s"),
    ):
        reason = step_of(scenario, scenario.job("true", top=top))["reasons"][0]
        assert (reason["path"], words in reason["detail"]) == (path, True)


def test_a_controller_that_is_away_leaves_the_requests_unchecked(broken):
    scenario = broken("--nodes", "1", "--set", "MessageTimeout=2")
    one, two = scenario.job("true", name="one"), scenario.job("true", name="two", replicas=2)
    scenario.plan(one)  # the cluster is known
    scenario.cluster.kill("slurmctld")
    for step in scenario.plan_document(one, two, "--check")["jobs"]:
        assert step["action"] == "create"
        assert "not checked whether slurm takes the request" in step["notes"][-1]
