"""`inputs`: edits of the input files of a job before, during and after its attempt."""

import json
import os
import random
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress

import pytest

from launcher.schedulers import pids
from launcher.specs import AppState
from tests import processes
from tests.lanes import sampled, seeds
from tests.scenario import Scenario
from tests.waiting import until

TOP = 'inputs: [train.py, "conf/**/*.yaml"]\n'
UNDER = "train.py changed while it waited or ran"
LARGE = 64 << 30
"""Bytes of a file without blocks that nothing reads within a test."""


@pytest.fixture
def code(scenario):
    return scenario.write("train.py", "one")


def reasons(scenario, file, job="job"):
    [found] = [each for each in scenario.plan_document(file)["jobs"] if each["key"]["job"] == job]
    return found["action"], [(each["code"], each.get("detail", "")) for each in found["reasons"]]


def is_current(scenario, file):
    return scenario.actions(file)["job"] == "keep"


def test_a_plan_names_edited_inputs_and_keeps_the_result_when_the_edit_is_undone(scenario, code):
    scenario.write("conf/a.yaml", "1")
    file = scenario.job("true", top=TOP)
    scenario.run_to_end(file)
    assert is_current(scenario, file)
    code.write_text("two")
    scenario.write("conf/deep/b.yaml", "2")
    want = "conf/deep/b.yaml (new) and train.py changed since attempt 1"
    assert reasons(scenario, file) == ("rerun", [("inputs_changed", want)])
    code.write_text("one")
    shutil.rmtree(scenario.folder / "conf/deep")
    assert is_current(scenario, file)


@pytest.mark.slow
def test_a_rerun_with_other_files_is_a_new_edition_of_the_same_document(scenario, code):
    file = scenario.job("true", top=TOP)
    scenario.run_to_end(file)
    code.write_text("two")
    scenario.run_to_end(file)
    first, second = scenario.attempts()
    assert first.digest == second.digest
    assert (second.number, second.edition, first.inputs != second.inputs) == (2, 2, True)
    assert is_current(scenario, file)
    about = json.loads(scenario.launcher("describe", "job", "--json").out)
    assert about["inputs"] == second.inputs


def test_a_plan_explains_why_a_job_that_writes_its_own_inputs_never_comes_to_rest(scenario, code):
    file = scenario.job("date +%N >train.py", top=TOP)
    scenario.run_to_end(file)
    assert "never comes to rest" in scenario.plan(file)


@pytest.mark.parametrize("put_back", ["write", "rename"])
def test_a_result_is_not_current_when_an_input_was_edited_and_put_back_while_it_ran(scenario, code, put_back):
    """The former content is written again, or the former file is moved back, as editors and git do."""
    second = scenario.gate("second")
    file, gate = scenario.running(f"cat train.py >read; {second.script}", top=TOP)
    former = code.rename(scenario.folder / "former") if put_back == "rename" else None
    code.write_text("two")
    gate.open()
    second.entered()
    code.write_text("one") if former is None else former.rename(code)
    second.open()
    scenario.wait("job")
    assert (scenario.folder / "read").read_text() == "two"
    was = "train.py was written while it waited or ran (attempt 1)"
    assert reasons(scenario, file) == ("rerun", [("inputs_changed", was)])


# Who compares, and what becomes of it


@pytest.fixture
def comparing(scenario):
    """A job whose input grew during the run: a child of its supervisor compares for minutes."""
    data = scenario.write("data.bin", "small")
    file, gate = scenario.running(top="inputs: [data.bin]")
    os.truncate(data, LARGE)
    [supervisor] = scenario.supervisors().values()  # before it has a child, which looks like it until it runs
    gate.open()
    child = _first_comparing(lambda: [supervisor])
    until(lambda: scenario.status("job")["replicas"][0]["state"] == "SUCCEEDED")  # it is recorded later
    yield file, supervisor, child
    os.truncate(data, 0)


def _first_comparing(supervisors: Callable[[], Iterable[int]]) -> int:
    """Wait until a child of one of these supervisors compares; its pid."""
    return until(lambda: [child for pid in supervisors() for child in _comparing(pid)])[0]


def _comparing(supervisor: int) -> list[int]:
    command = ["pgrep", "-P", str(supervisor), "-f", "comparison"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    return [int(pid) for pid in found.stdout.split()]


def is_gone(pid: int) -> bool:
    start = pids.start_time(pid)
    return start is None or pids.wait_for_exit(pid, start, 10)


@pytest.mark.slow
def test_a_time_limit_does_not_end_the_comparison_of_input_files(scenario: Scenario):
    data, limit_s = scenario.write("data.bin", "small"), 4
    grows = f"exec truncate -s {LARGE} {data}"  # at once: the limit counts from the start
    scenario.apply(scenario.job(grows, top=f"inputs: [data.bin]\ntimeout: {limit_s}s"))
    child = _first_comparing(lambda: scenario.supervisors().values())
    started_at = scenario.attempts()[0].started_at
    time.sleep(max(0.0, started_at + limit_s + 1 - time.time()))  # until the limit has passed
    assert pids.start_time(child) is not None
    assert scenario.state("job") is AppState.RUNNING
    scenario.cancel("job")
    assert scenario.attempts()[0].state == "succeeded"
    os.truncate(data, 0)


def test_the_comparison_of_a_killed_supervisor_ends_with_it(scenario: Scenario, comparing):
    _, supervisor, child = comparing
    os.kill(supervisor, signal.SIGKILL)
    assert is_gone(child)
    scenario.wait("job", code=None)
    [attempt] = scenario.attempts()
    assert attempt.state == "succeeded"
    assert attempt.inputs_changed == "its supervisor was killed before it compared the input files"
    assert processes.supervisors(str(scenario.home)) == {}


@pytest.mark.parametrize("top", ["inputs: [data/large]", "workspace: data"])
def test_jobs_whose_need_has_succeeded_share_the_comparison_of_their_files(scenario: Scenario, top):
    """To start one process for each of a thousand jobs would take all memory, and a minute of two cores."""
    count, large = 20, scenario.write("data/large", "small")
    _, gate = scenario.running(name="first")
    file = scenario.job("true", top=f"needs: [first]\nmatrix: {{x: {{range: [0, {count}]}}}}\n{top}")
    scenario.apply(file)
    [(holder, held)] = Counter(scenario.supervisors().values()).most_common(1)
    assert held == count - 1  # the first one keeps its supervisor
    os.truncate(large, LARGE)
    gate.open()
    records = [*scenario.home.glob("local/apps/job-*/events.jsonl")]
    assert len(records) == count
    until(lambda: all('"met"' in each.read_text() for each in records))
    assert len(until(lambda: _comparing(holder))) == 1
    scenario.cancel("job", "--yes")
    os.truncate(large, 0)


def test_a_saved_plan_is_stale_when_an_input_file_differs(scenario, code):
    file = scenario.job("true", top=TOP)
    scenario.plan(file, "--out", "plan.json")
    code.write_text("two")
    done = scenario.launcher("apply", "plan.json", code=4)
    assert "its input files are not what was planned" in done.err
    code.write_text("one")
    scenario.launcher("apply", "plan.json", "--wait")
    assert is_current(scenario, file)


def test_a_file_that_changes_between_approval_and_apply_starts_nothing(scenario, code):
    file = scenario.job("true", top=TOP)
    digest = scenario.plan_document(file)["plan_digest"]
    code.write_text("two")
    scenario.launcher("apply", file, "--yes", "--expect-digest", digest, code=4)
    assert scenario.attempts() == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", sampled(seeds(2), 0))
def test_a_kept_result_matches_the_present_inputs_after_any_edits_and_kills(scenario, code, seed):
    """Each edit is new. The job copies its inputs at its start and end: a kept attempt has read no others."""
    chance = random.Random(seed)
    needs, gate = chance.random() < 0.5, scenario.folder / "gate"
    scenario.job(f"until [ -e {gate} ]; do sleep 0.02; done", name="first")
    top = TOP + ("needs: [first]" if needs else "")
    script = "cat train.py >$LAUNCHER_ATTEMPT.first; sleep 0.1; cat train.py >$LAUNCHER_ATTEMPT.last"
    scenario.job(script, top=top + "\nlifecycle: {on_lost: rerun, on_failed: rerun}")
    gate.touch()
    for step in range(6):
        scenario.apply(".", "--rerun", "first", code=None)
        for _ in range(chance.randrange(4)):
            time.sleep(chance.random() * 0.3)
            act = chance.randrange(3)
            if act == 0:
                code.write_text(f"{seed} {step} {chance.random()}")
            elif act == 1 and (found := [*scenario.supervisors().values()]):
                with suppress(ProcessLookupError):
                    os.kill(chance.choice(found), signal.SIGKILL)
            else:
                scenario.apply(".", code=None)
        for job in ("first", "job"):
            scenario.launcher("wait", job, code=None)
        if scenario.actions(".")["job"] == "keep":
            [*_, last] = [each for each in scenario.attempts() if each.state != "skipped"]
            read = [(scenario.folder / f"{last.number}.{end}").read_text() for end in ("first", "last")]
            assert (last.state, read) == ("succeeded", [code.read_text()] * 2)
    scenario.run_to_end(".")
    assert is_current(scenario, ".")
