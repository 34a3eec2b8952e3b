"""plan, apply and validate: formats, files, approval, and refusals."""

import json
import os
import shlex
import subprocess
import sys

import pytest

from launcher.plan.codec import seal

FAILS = "exit 3"


def test_the_plan_document_goes_into_files_beside_the_text(scenario):
    text = scenario.plan(scenario.job("true"), "--out", "plan.json", "--json-into", "copy.json")
    assert text.startswith("+   job")
    one, two = ((scenario.folder / name).read_text() for name in ("plan.json", "copy.json"))
    assert one == two
    scenario.launcher("validate", "plan.json")
    assert not scenario.home.exists()


@pytest.mark.parametrize("option", ["--out", "--json-into"])
def test_a_dash_is_refused_as_the_file_of_a_plan(scenario, option):
    done = scenario.launcher("plan", scenario.job("true"), option, "-", code=64)
    assert done.err.startswith(f"error: {option} takes a file")
    assert "`launcher plan --json` prints it to stdout" in done.err
    assert not (scenario.folder / "-").exists()


@pytest.mark.parametrize("name", ["my plan.json", "-plan.json", "it's.json"])
def test_the_command_that_applies_a_saved_plan_can_be_pasted(scenario, name):
    saved = scenario.launcher("plan", scenario.job("true"), f"--out={name}").err
    words = shlex.split(saved.rpartition("to apply it: launcher ")[2])
    assert scenario.launcher(*words, "--wait").code == 0


def test_a_job_file_is_read_from_standard_input(scenario):
    """A repository changes nothing: the user's own standard input is no link of the checkout."""
    text = scenario.job("exit 0").read_text()
    subprocess.run(["git", "init", "-q"], cwd=scenario.folder, check=True)
    for command in (("validate",), ("plan",), ("apply", "--yes", "--wait")):
        argv = [sys.executable, "-m", "launcher", *command, "/dev/stdin"]
        process = scenario.spawn(argv, stdin=subprocess.PIPE)
        out, err = process.communicate(text)
        assert process.returncode == 0, out + err
    [attempt] = scenario.attempts()
    assert attempt.state == "succeeded"
    assert "standard input is called `/dev/stdin`" in scenario.launcher("validate", "-", code=6).out


def test_a_plan_that_cannot_be_saved_is_an_error_and_leaves_nothing(scenario):
    file = scenario.job("true")
    assert "cannot write" in scenario.launcher("plan", file, "--out", "no/plan.json", code=1).err
    assert list(scenario.folder.iterdir()) == [file]


def test_the_request_is_shown_on_demand(scenario):
    assert "local_cwd://default/$<app_id>" in scenario.plan(scenario.job("echo hi"), "--show-request")


def test_without_files_the_current_directory_is_planned(scenario):
    scenario.job("true", name="one")
    scenario.job("true", name="two")
    assert set(scenario.actions()) == {"one", "two"}


@pytest.mark.slow
def test_fail_on_stops_before_anything_is_written(scenario):
    file = scenario.job(FAILS)
    scenario.run_to_end(file, code=5)
    done = scenario.launcher("plan", file, "--fail-on", "held,orphan", code=3)
    assert "held: default/job" in done.err
    scenario.apply(file, "--fail-on", "orphan")
    scenario.apply(file, "--rerun", "job", "--fail-on", "held,orphan,drift")
    scenario.wait("job", code=5)
    changed = scenario.job("true")
    scenario.apply(changed, "--rerun", "job", "--fail-on", "drift")  # an edited file is no drift
    assert len(scenario.attempts()) == 3
    scenario.wait("job")


def test_a_plan_printed_as_json_is_a_saved_plan(scenario):
    file = scenario.job("true", role='env: {A: "\\x7f\\x9b→"}')
    (scenario.folder / "plan.json").write_text(scenario.plan(file, "--format", "json"))
    scenario.launcher("apply", "plan.json", "--wait")


def test_an_edited_plan_runs_nothing_and_says_that_it_was_edited(scenario):
    """Scripts are found beside the job file: the edited path leads to another script of the same name."""
    for folder in ("mine", "other"):
        (scenario.folder / folder).mkdir()
        (scenario.folder / folder / "job.launcher.yaml").write_text(
            "version: 1\nname: job\nscheduler: local_cwd\n"
            "roles:\n  main: {entrypoint: touch, args: [$<job.dir>/ran]}\n"
        )
    (scenario.folder / "launcher.toml").write_text("")
    scenario.launcher("plan", "mine", "--out", "plan.json")
    path = scenario.folder / "plan.json"
    good = path.read_text()
    path.write_text(good.replace('"path": "mine/', '"path": "other/'))
    assert "plan.json was edited after it was saved" in scenario.launcher("apply", "plan.json", code=4).err
    assert "was edited" in scenario.launcher("validate", "plan.json", code=6).out
    assert list(scenario.folder.glob("*/ran")) == []
    path.write_text(good)
    assert "valid: 1 saved plan" in scenario.launcher("validate", "plan.json").err
    scenario.launcher("apply", "plan.json", "--wait")
    assert (scenario.folder / "mine" / "ran").exists()


def test_validate_names_every_fault_of_a_saved_plan(scenario):
    scenario.plan(scenario.job("true"), "--out", "plan.json")
    path = scenario.folder / "plan.json"
    document = json.loads(path.read_text())
    path.write_text(seal(json.dumps({**document, "jobs": "none", "extra": 1}, indent=2) + "\n"))
    printed = scenario.launcher("validate", "plan.json", code=6).out
    assert "jobs: want a list, got text" in printed
    assert "extra: not a field here" in printed
    path.write_text("{")
    assert "plan.json:1:2" in scenario.launcher("validate", "plan.json", code=6).out


def test_a_saved_plan_may_have_any_name(scenario):
    shown = scenario.launcher("plan", scenario.job("true"), "--out", "tfplan", code=0)
    assert "to apply it: launcher apply tfplan" in shown.err
    scenario.launcher("validate", "tfplan")
    scenario.launcher("apply", "tfplan", "--wait")
    assert [each.state for each in scenario.attempts()] == ["succeeded"]


def test_the_approved_digest_is_an_approval(scenario):
    file = scenario.job("true")
    digest = scenario.plan_document(file)["plan_digest"]
    assert "got lp3:" in scenario.launcher("apply", file, "--expect-digest", "lp3:sha256:00", code=4).err
    for old in ("lp1:sha256:00", "lp2:sha256:00"):
        refused = scenario.launcher("apply", file, "--expect-digest", old, code=4).err
        assert f"pass --expect-digest {digest}\n" in refused
    assert scenario.apps() == []
    scenario.launcher("apply", file, "--expect-digest", digest, "--wait")


def test_apply_answers_with_every_job_as_json(scenario):
    files = [scenario.job("true", name="good"), scenario.job(FAILS, name="bad")]
    done = scenario.launcher("apply", *files, "--yes", "--wait", "--format", "json", code=5)
    document = json.loads(done.out)
    assert document["exit"] == 5
    assert {job["job"]: job["state"] for job in document["jobs"]} == {"good": "succeeded", "bad": "failed"}


def test_apply_prints_each_event_on_a_line(scenario):
    file = scenario.job("echo hi")
    done = scenario.launcher("apply", file, "--yes", "--wait", "--logs", "--format", "jsonl")
    events = [json.loads(line) for line in done.out.splitlines()]
    assert {event["version"] for event in events} == {"launcher.event/v1"}
    names = [event["event"] for event in events]
    assert names[0] == "planned"
    assert names[-1] == "done"
    assert {"started", "log", "ended"} <= set(names)
    assert [event["text"] for event in events if event["event"] == "log"] == ["hi\n"]


def test_the_command_that_an_apply_suggests_works_in_this_directory(scenario):
    gate = scenario.gate()
    scenario.write("sub/launcher.toml", 'project = "vision"\n')
    script = scenario.job(gate.script, name="sub/job").read_text().replace("sub/job", "job")
    file = scenario.write("sub/job.launcher.yaml", script)
    suggested = scenario.apply(file).err.partition("to follow its output: ")[2].split()
    gate.entered()
    gate.open()
    assert scenario.launcher(*suggested[1:]).code == 0
    failing = scenario.job("exit 7")
    assert "launcher logs job\n" in scenario.launcher("apply", failing, "--yes", "--wait", code=5).err


@pytest.mark.slow
def test_the_end_of_an_app_is_printed_after_all_of_its_output(scenario):
    file = scenario.job("for i in 1 2 3 4 5 6 7 8 9; do echo line $i; done; printf last")
    process = scenario.start("apply", file, "--yes", "--wait", "--logs", stderr=subprocess.STDOUT)
    shown = process.communicate()[0]
    assert shown.index("last\n") < shown.index("job SUCCEEDED")
    options = ("--yes", "--wait", "--logs", "--format", "jsonl")
    again = scenario.launcher("apply", file, *options, "--rerun", "job")
    report = [json.loads(line) for line in again.out.splitlines()]
    assert [each["event"] for each in report][-2:] == ["ended", "done"]
    assert "".join(each["text"] for each in report if each["event"] == "log").endswith("line 9\nlast\n")


def test_each_log_line_of_several_jobs_names_its_job(scenario):
    files = [scenario.job("echo hi", name=name) for name in ("a", "b")]
    out = scenario.run_to_end(*files, "--logs").out
    assert "a/main/0 | hi\n" in out
    assert "b/main/0 | hi\n" in out


def test_a_command_line_given_as_entrypoint_is_shown_split(scenario):
    text = "version: 1\nname: j\nroles: {main: {entrypoint: python3 train.py --lr 1}}\n"
    done = scenario.apply(scenario.write("j.launcher.yaml", text), code=1)
    split = "`entrypoint: python3`, `args: [train.py, '--lr', '1']`"
    assert "warning[command-line]" in done.err
    assert f"its arguments are `args`: {split}" in done.err


def test_a_missing_or_broken_saved_plan_is_an_error(scenario):
    assert "--> nope.json" in scenario.launcher("apply", "nope.json", code=6).err
    scenario.write("x.json", "{}")
    assert "did you mean `x.json`?" in scenario.launcher("apply", "y.json", code=6).err
    assert "x.json" in scenario.launcher("apply", "x.json", code=1).err


@pytest.mark.slow
def test_a_closed_output_does_not_stop_an_apply(scenario):
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as closed:
        client = scenario.start("apply", scenario.job("true"), "--yes", "--wait", stdout=closed)
    _, err = client.communicate()
    assert client.returncode == 0
    assert "Traceback" not in err
    assert [attempt.state for attempt in scenario.attempts()] == ["succeeded"]


@pytest.mark.slow
def test_a_reviewed_plan_is_an_approval_of_its_effects(scenario):
    one, two = scenario.job("true", name="one"), scenario.job("true", name="two")
    scenario.plan(one, "--out", "one.json")
    refused = scenario.launcher("apply", one, two, "--approved", "one.json", code=4).err
    assert "start default/two: no approval starts it\n    approved nothing, now le1:" in refused
    assert scenario.apps() == []
    scenario.plan(two, "--out", "two.json")
    scenario.launcher("apply", one, two, "--approved", "one.json", "--approved", "two.json", "--wait")
    scenario.launcher("apply", one, two, "--approved", "one.json")
    scenario.launcher("apply", one, "--rerun", "one", "--approved", "two.json", code=4)
    (made,) = scenario.attempts("one")
    assert made.approval == json.loads((scenario.folder / "one.json").read_text())["plan_id"]


def test_a_file_that_is_no_approval_is_refused_with_its_fault(scenario):
    file = scenario.job("true")
    scenario.plan(file, "--out", "plan.json")
    text = (scenario.folder / "plan.json").read_text()
    scenario.write("edited.json", text.replace('"after": 0', '"after": 1'))
    assert (
        "was edited after it was saved"
        in scenario.launcher("apply", file, "--approved", "edited.json", code=4).err
    )
    effects = json.loads(text)
    listed = {"version": "launcher.effects/v1", "plan_id": "p", "effects": effects["effects"]}
    listed["effects"][0]["start"]["path"] = "other.launcher.yaml"
    scenario.write("list.json", json.dumps(listed))
    shown = scenario.launcher("apply", file, "--approved", "list.json", code=1).err
    assert "effects[0].effect: does not match the effect: it was edited" in shown
    scenario.launcher("apply", file, "--approved", "nothing.json", code=6)
    scenario.launcher("apply", "plan.json", "--approved", "plan.json", code=64)
    assert scenario.apps() == []


def test_a_protected_job_does_not_block_an_approved_job(scenario):
    file = scenario.job("exec sleep 1000", name="serve", top="lifecycle: {protect: true}")
    scenario.apply(file)
    changed = scenario.job("exec sleep 2000", name="serve", top="lifecycle: {protect: true}")
    other = scenario.job("true", name="other")
    scenario.plan(changed, other, "--out", "plan.json")
    scenario.launcher("apply", changed, other, "--approved", "plan.json")
    assert [made.number for made in scenario.attempts("serve")] == [1]
    assert [made.number for made in scenario.attempts("other")] == [1]
    scenario.cancel("serve")
