"""Steps that need each other are carried out in order, and waiting apps are withdrawn in time."""

import json
import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import launcher
from launcher import paths
from launcher.apply import make_plan
from launcher.apply.dry_run import bind_plan, check_held, check_outputs
from launcher.apply.engines import Engines
from launcher.apply.events import Events, Outcome
from launcher.apply.execute import execute
from launcher.apply.follow import follow
from launcher.apply.gc import Rule, collect
from launcher.apply.submit import Workplace
from launcher.errors import SchedulerError
from launcher.inventory.listing import newest, what_starts
from launcher.plan.step import Guard, Step, in_order
from launcher.schedulers import pids
from launcher.schedulers.local import rundir
from launcher.schedulers.local.appview import read_state
from launcher.schedulers.registry import open_store
from launcher.specs.attempt import StoodOn
from launcher.state.store import Store
from tests.waiting import until

OPEN = "until [ -e gate ]; do sleep 0.02; done"


class World:
    """Jobs in one folder, applied as steps with needs."""

    def __init__(self, folder: Path, store: Store, engines: Engines) -> None:
        self.folder, self.store, self.engines = folder, store, engines
        self.events: list[Mapping[str, Any]] = []

    def steps(self, **scripts: str) -> dict[str, Step]:
        """Return a step for each job, as planned now."""
        for job, script in scripts.items():
            role = json.dumps({"entrypoint": "sh", "args": ["-c", f"cd {self.folder}; {script}"]})
            text = f"version: 1\nname: {job}\nroles: {{main: {role}}}\n"
            (self.folder / f"{job}.launcher.yaml").write_text(text)
        launches = [launcher.load_job(str(self.folder / f"{job}.launcher.yaml")) for job in scripts]
        plan = bind_plan(make_plan(launches), self.engines)
        return {step.key.job: replace(step, edition=step.number) for step in plan.steps}

    def carry_out(self, *steps: Step) -> dict[str, Outcome]:
        at = Workplace(engines=self.engines, store=self.store, events=Events(self.events.append))
        done = execute(steps, plan=make_plan([]), at=at)
        return {outcome.key.job: outcome for outcome in done}

    def wait(self, *outcomes: Outcome) -> dict[str, tuple[str | None, str]]:
        """Wait for the ends of apps; return their states and messages."""
        ended = follow(outcomes, engines=self.engines, store=self.store, events=Events(self.events.append))
        return {each.key.job: (each.state, each.message) for each in ended}

    def seen(self, name: str) -> list[Mapping[str, Any]]:
        return [event for event in self.events if event["event"] == name]

    def open(self) -> None:
        (self.folder / "gate").touch()


@pytest.fixture
def world(tmp_path: Path, launcher_home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.chdir(tmp_path)  # commands in messages name files from there
    with open_store() as store, Engines() as engines:
        yield World(tmp_path, store, engines)


def after(step: Step, *needs: Step, scheduler: str = "local_cwd") -> Step:
    found = tuple(StoodOn(each.key.job, each.number, each.edition, each.app_id, scheduler) for each in needs)
    return replace(step, needs=found, after=tuple(each.key.job for each in needs))


def guard(step: Step) -> Guard:
    return Guard(attempt=step.number, state="waiting", app_id=step.app_id, scheduler="local_cwd")


def chain(world: World, first: str) -> tuple[Step, Step, Step]:
    """Three steps, each of which needs the one before, given in the order of their names."""
    made = world.steps(prepare=first, train="cat data; echo model >model", evaluate="cat model >done")
    train = after(made["train"], made["prepare"])
    return after(made["evaluate"], train), made["prepare"], train


def test_jobs_are_submitted_behind_the_jobs_that_they_need(world: World) -> None:
    outcomes = world.carry_out(*chain(world, f"{OPEN}; echo data >data"))
    assert [outcomes[job].state for job in ("prepare", "train", "evaluate")] == [
        "running",
        "waiting",
        "waiting",
    ]
    assert outcomes["evaluate"].message == "waits for train"
    begun = [event["job"] for event in world.seen("reserving")]
    assert begun == ["prepare", "train", "evaluate"]
    assert [(event["job"], event["needs"]) for event in world.seen("attempt_waiting")] == [
        ("train", ["prepare"]),
        ("evaluate", ["train"]),
    ]
    assert {entry.job: entry.state for entry in world.store.live_attempts()} == {
        "prepare": "running",
        "train": "waiting",
        "evaluate": "waiting",
    }
    attempt = world.store.by_app_id(outcomes["train"].app_id)
    assert [(each.job, each.number, each.edition) for each in attempt.needs] == [("prepare", 1, 1)]
    world.open()
    assert world.wait(*outcomes.values()) == dict.fromkeys(outcomes, ("succeeded", ""))
    assert (world.folder / "done").read_text() == "model\n"
    begun = {event["job"]: event["handle"] for event in world.seen("started")}
    assert begun == {job: outcome.handle for job, outcome in outcomes.items()}
    report = [(event["event"], event["job"]) for event in world.events]
    assert report.index(("started", "train")) < report.index(("ended", "train"))


def test_a_start_records_the_end_of_the_attempt_before_that_the_plan_has_seen(world: World) -> None:
    """The end was not known yet when the apply recorded all ends, before its plan."""
    step = world.steps(train="true")["train"]
    world.carry_out(step)
    world.engines.get("local_cwd").ended_attempt(step.app_id)
    assert [each.state for each in world.store.attempts(step.key)] == ["running"]
    world.carry_out(replace(step, number=2, guard=replace(guard(step), state="succeeded")))
    assert [each.state for each in world.store.attempts(step.key)] == ["running", "succeeded"]


def test_a_start_ends_what_a_supervisor_left_that_died_after_the_apply_recorded_all_ends(
    world: World,
) -> None:
    first = world.steps(train="exec 9>>alive; flock 9; echo >up; exec sleep 1000")["train"]
    world.carry_out(first)
    until((world.folder / "up").exists)
    pid, start, _ = read_state(paths.local_app(first.app_id)).supervisor
    os.kill(pid, signal.SIGKILL)
    pids.wait_for_exit(pid, start, 10)
    again = world.steps(train="flock -n alive echo alone >seen || echo beside >seen")["train"]
    lost = replace(guard(first), state="lost")
    assert world.wait(*world.carry_out(replace(again, number=2, guard=lost)).values())
    assert (world.folder / "seen").read_text() == "alone\n"


def test_an_interrupt_begins_no_job_that_waits_for_the_submission_of_another_one(world: World) -> None:
    main = threading.main_thread().ident
    assert main is not None

    def interrupt(event: Mapping[str, Any]) -> None:
        world.events.append(event)
        if (event["event"], event["job"]) == ("starting", "prepare"):
            os.kill(os.getpid(), signal.SIGINT)
            until(lambda: "shutdown" in names_of_frames(sys._current_frames()[main]))

    steps = chain(world, "true")
    at = Workplace(engines=world.engines, store=world.store, events=Events(interrupt))
    with pytest.raises(KeyboardInterrupt):
        execute(steps, plan=make_plan([]), at=at)
    assert [event["job"] for event in world.seen("reserving")] == ["prepare"]
    report = {event["job"]: event["message"] for event in world.seen("interrupted")}
    assert (report["train"], report["evaluate"]) == ("was not begun", "was not begun")


def names_of_frames(frame: FrameType | None) -> list[str]:
    """Return the functions that a thread is in."""
    return [] if frame is None else [frame.f_code.co_name, *names_of_frames(frame.f_back)]


def test_a_job_does_not_wait_for_a_need_that_has_succeeded(world: World) -> None:
    made = world.steps(prepare="true", train="true")
    world.wait(*world.carry_out(made["prepare"]).values())
    done = world.carry_out(after(made["train"], made["prepare"]))
    assert done["train"].state == "running"
    assert world.seen("attempt_waiting") == []
    world.wait(*done.values())


def test_jobs_behind_a_failed_need_are_skipped_with_the_reason(world: World) -> None:
    outcomes = world.carry_out(*chain(world, f"{OPEN}; exit 3"))
    world.open()
    ends = world.wait(*outcomes.values())
    assert ends["train"] == ("skipped", "prepare failed")
    assert ends["evaluate"] == ("skipped", "train was skipped")
    output = {event["job"]: event["message"] for event in world.seen("attempt_skipped")}
    assert output == {"train": "prepare failed", "evaluate": "train was skipped"}
    assert [event["job"] for event in world.seen("ended")] == ["prepare"]
    assert [event["job"] for event in world.seen("started")] == ["prepare"]
    listed = {app.job: (app.state, app.message) for app in newest(10)}
    assert listed["train"] == ("skipped", "prepare failed")
    [train] = [app for app in newest(10) if app.job == "train"]
    assert what_starts(train) == "when prepare succeeds: launcher apply train.launcher.yaml"


def test_a_skipped_job_names_every_need_that_has_to_succeed_first(world: World) -> None:
    made = world.steps(fetch=f"{OPEN}; exit 3", label="true", prepare=f"{OPEN}; exit 4", train="true")
    needs = [made["fetch"], made["label"], made["prepare"]]
    outcomes = world.carry_out(*needs, after(made["train"], *needs))
    world.open()
    ends = world.wait(*outcomes.values())
    assert set(ends["train"][1].split(", ")) <= {"fetch failed", "prepare failed"}  # by the time of the first
    [train] = [app for app in newest(10) if app.job == "train"]
    assert what_starts(train) == "when fetch and prepare succeed: launcher apply train.launcher.yaml"


def test_jobs_whose_need_cannot_be_submitted_are_not_submitted(world: World) -> None:
    evaluate, prepare, train = chain(world, "true")
    role = replace(prepare.bound.app.roles[0], entrypoint="no-such-program")
    app = replace(prepare.bound.app, roles=[role])
    broken = replace(prepare, bound=prepare.bound._replace(app=app, info=None))
    other = world.steps(other="true")["other"]
    done = world.carry_out(evaluate, other, broken, train)
    assert done["other"].error == ""
    assert "no-such-program" in done["prepare"].error
    assert done["train"].error == "not submitted: it needs prepare, which could not be applied"
    assert done["evaluate"].error == "not submitted: it needs train, which could not be applied"
    assert {event["job"] for event in world.seen("failed")} == {"prepare", "train", "evaluate"}
    assert {event["job"] for event in world.seen("reserving")} == {"prepare", "other"}
    world.wait(done["other"])


@pytest.mark.slow
def test_a_waiting_app_is_withdrawn_before_its_need_is_stopped(world: World) -> None:
    evaluate, prepare, train = chain(world, "exec sleep 1000")
    world.carry_out(evaluate, prepare, train)
    again = world.steps(prepare=f"{OPEN}; echo data >data", train="cat data", evaluate="true")
    first = again["prepare"]
    assert [stop.app_id for stop in first.stops] == [prepare.app_id]
    second = replace(after(again["train"], first), withdraws=(guard(train),), stops=())
    third = replace(after(again["evaluate"], second), withdraws=(guard(evaluate),), stops=())
    world.events.clear()
    done = world.carry_out(third, first, second)
    gone = [(e["event"], e["app_id"]) for e in world.events if e["event"] in ("attempt_skipped", "stopped")]
    withdrawn = [("attempt_skipped", each.app_id) for each in (evaluate, train)]  # each reports its own end
    assert (sorted(gone[:2]), gone[2:]) == (sorted(withdrawn), [("stopped", prepare.app_id)])
    for each in (evaluate, train):  # neither was skipped for the sake of its need
        old = world.store.app(each.app_id)
        assert (old.state, old.message) == ("skipped", "withdrawn")
    world.open()
    assert {state for state, _ in world.wait(*done.values()).values()} == {"succeeded"}


def test_a_running_dependent_is_stopped_before_its_need_is_replaced(world: World) -> None:
    made = world.steps(prepare="exec sleep 1000", train="exec sleep 1000")
    world.carry_out(*made.values())
    again = world.steps(prepare="exec sleep 999", train="exec sleep 999")
    world.events.clear()
    world.carry_out(again["prepare"], after(again["train"], again["prepare"]))
    stopped = [event["app_id"] for event in world.seen("stopped")]
    assert stopped == [made["train"].app_id, made["prepare"].app_id]
    for app in world.store.live_attempts():
        world.engines.get(app.scheduler).cancel(app.app_id)


def test_an_attempt_that_has_started_meanwhile_makes_its_job_stale_and_no_other_job(world: World) -> None:
    """The attempts of the other jobs are withdrawn by then: without their replacements they would be lost."""
    made = world.steps(prepare=OPEN, train="true", other="exec sleep 1000")
    world.carry_out(made["prepare"], after(made["train"], made["prepare"]), made["other"])
    again = world.steps(train="echo changed", other="true", user="true")
    stale = replace(again["other"], withdraws=(guard(made["other"]),), stops=())
    changed = replace(after(again["train"], made["prepare"]), withdraws=(guard(made["train"]),), stops=())
    done = world.carry_out(stale, changed, after(again["user"], stale))
    assert (done["other"].code, done["other"].hint) == ("stale", "plan again")
    assert done["other"].error.endswith("other: expected attempt 1 (waiting), found running")
    assert done["user"].error == "not submitted: it needs other, which could not be applied"
    assert {done[name].code for name in ("other", "user")} == {"stale"}  # the apply exits with 4
    world.open()
    assert world.wait(done["train"]) == {"train": ("succeeded", "")}
    assert world.engines.get("local_cwd").attempt(made["other"].app_id).is_live
    world.engines.get("local_cwd").cancel(made["other"].app_id)


def test_the_error_of_an_attempt_that_is_just_starting_says_so(world: World) -> None:
    made = world.steps(prepare=OPEN, train="true")
    done = world.carry_out(made["prepare"], after(made["train"], made["prepare"]))
    rundir.decide(paths.local_app(made["train"].app_id), rundir.START)  # its holder is about to record it
    again = replace(world.steps(train="echo changed")["train"], withdraws=(guard(made["train"]),), stops=())
    assert world.carry_out(again)["train"].error.endswith("expected attempt 1 (waiting), found starting")
    world.open()
    assert world.wait(done["train"]) == {"train": ("succeeded", "")}


def test_a_need_on_an_engine_that_the_scheduler_cannot_wait_for_is_refused(world: World) -> None:
    made = world.steps(prepare="true", train="true")
    train = after(made["train"], made["prepare"], scheduler="slurm")
    with pytest.raises(SchedulerError, match="cannot wait for one of slurm") as failed:
        check_held(train, train.needs, world.engines)
    assert failed.value.hint == "apply it once `prepare` has succeeded, or run both on one engine"


@pytest.mark.parametrize("what", ["needs", "inputs"])
def test_an_app_that_is_held_elsewhere_is_refused_with_inputs_or_needs_on_another_engine(
    world, monkeypatch, what
):
    made = world.steps(prepare="true", train="true")
    train = after(made["train"], made["prepare"], scheduler="local_dir")
    check_held(train, train.needs, world.engines)
    local = world.engines.get("local_cwd")
    monkeypatch.setattr(type(local), "is_held_here", lambda *_: False)
    if what == "inputs":
        train = replace(train, launch=replace(train.launch, inputs_digest="i", inputs=("data/*",)))
    with pytest.raises(SchedulerError, match="cannot wait for one of" if what == "needs" else "its `inputs`"):
        check_held(train, train.needs if what == "needs" else (), world.engines)


def reading(step: Step, argument: str) -> Step:
    app = step.launch.app
    app = replace(app, roles=[replace(app.roles[0], args=[argument])])
    return replace(step, launch=replace(step.launch, app=app))


@pytest.mark.parametrize(("argument", "refused"), [("$<needs.prepare.output_dir>", True), ("x", False)])
def test_an_output_folder_on_another_engine_is_refused_before_anything_starts(world, argument, refused):
    made = world.steps(prepare="true", train="true")
    train = reading(after(made["train"], made["prepare"], scheduler="slurm"), argument)
    if refused:
        with pytest.raises(SchedulerError, match="output folder of `prepare`, which slurm keeps"):
            check_outputs(train, world.engines)
    else:
        check_outputs(train, world.engines)


def test_the_output_folder_of_a_matrix_is_refused(world: World) -> None:
    """The file of the matrix was not compiled: otherwise the error would be at the reference."""
    made = world.steps(**{"prepare-1": "true", "train": "true"})
    train = reading(after(made["train"], made["prepare-1"]), "$<needs.prepare.output_dir>")
    with pytest.raises(SchedulerError, match="`prepare`, which is no job that it needs") as failed:
        check_outputs(train, world.engines)
    assert "LAUNCHER_NEEDS" in str(failed.value.hint)


def test_gc_keeps_apps_that_other_apps_wait_for(world: World) -> None:
    made = world.steps(prepare="true", fetch=OPEN, train="true")
    world.wait(*world.carry_out(made["prepare"]).values())
    needing = after(made["train"], made["prepare"], made["fetch"])
    done = world.carry_out(made["fetch"], needing)

    def kept() -> list[str]:
        found = collect(world.store, world.engines, ["local_cwd"], Rule(older_than_s=0), now=2e10)
        assert found.problems == []
        return [why for _, why in found.kept]

    assert "needed by jobs that wait" in kept()
    assert world.engines.get("local_cwd").attempt(made["prepare"].app_id) is not None
    world.open()
    world.wait(*done.values())
    assert "needed by jobs that wait" not in kept()
    assert world.engines.get("local_cwd").attempt(made["prepare"].app_id) is None


def test_steps_are_ordered_behind_the_needs_of_their_jobs(world: World) -> None:
    made = world.steps(a="true", b="true", c="true", d="true")
    d = made["d"]
    c = after(made["c"], d)
    a = after(made["a"], c, made["b"])
    assert [step.key.job for step in in_order([a, made["b"], c, d])] == ["b", "d", "c", "a"]


def test_a_chain_of_thousands_of_needs_is_ordered(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    step = world.steps(job="true")["job"]
    steps: list[Step] = []
    for number in range(3000):
        made = replace(step, key=step.key._replace(job=f"job-{number}"))
        steps.append(replace(made, after=(f"job-{number - 1}",) if number else ()))
    assert in_order(steps[::-1]) == steps


def test_the_environment_of_programs_has_their_attempt_and_its_edition(world: World) -> None:
    step = world.steps(job="echo $LAUNCHER_ATTEMPT $LAUNCHER_EDITION >numbers")["job"]
    world.wait(*world.carry_out(replace(step, number=7, edition=4)).values())
    assert (world.folder / "numbers").read_text() == "7 4\n"
