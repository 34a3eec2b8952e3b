"""Racing clients in two clones of a repository apply random job files of several roles, under SIGKILL.

Records and plans are compared with the ledger in which each replica has noted what it read and did.

By hand, for more: LAUNCHER_KILL_SEEDS=0-199 and `-m ""`.
"""

import json
import random
import re
from pathlib import Path

import pytest

from launcher.schedulers.local import rundir
from tests import processes
from tests.lanes import sampled, seeds
from tests.random_roles import World
from tests.waiting import until

pytestmark = pytest.mark.timeout(600)


def version_of(text):
    return re.search(r"['\"](v\d+)['\"]", text)[1]


def outputs(lines):
    """Return the contents of the output folder of a success, in the order of the paths."""
    found = {f"{each['role']}.{each['k']}": each["value"] for each in lines if each.get("code") == 0}
    return [found[path] for path in sorted(found)]


def assert_records_agree(world):
    """Check that all that ran is on record, ran once, in order, and ended as recorded."""
    seen = world.lines()
    left = dict(seen)
    for job in world.names:
        before, latest, ended_at = None, None, -1
        for each in world.scenario.attempts(job):
            mine = left.pop(each.app_id, [])
            assert_ended_as_recorded(world, each, mine)
            if before is not None and before.state == "succeeded" and each.state != "skipped":
                stands = {
                    (of.digest, of.inputs, frozenset((need.job, need.edition) for need in of.needs))
                    for of in (before, latest, each)
                }
                assert job in world.asked or before.inputs_changed or len(stands) > 1, (
                    f"{each.app_id} repeats {before.app_id}: {each.reason}"
                )
            latest = each
            if each.state == "skipped":
                continue
            if mine:
                assert mine[0]["at"] > ended_at, f"{each.app_id} began beside the attempt before"
                ended_at = mine[-1]["at"]
            for need in each.needs:
                for line in mine:
                    assert all(line["at"] > other["at"] for other in seen[need.app_id])
                    if line["what"] == "begin":
                        assert line["needs"][need.job] == outputs(seen[need.app_id])
            before = each
    assert not left, "ran, and is not on record"


def assert_ended_as_recorded(world, attempt, lines):
    report = f"{attempt.app_id} {attempt.state} {attempt.message!r}: {lines}"
    assert not [each for each in lines if each["what"] == "beside"], report
    begun = [(each["role"], each["k"], each["restart"]) for each in lines if each["what"] == "begin"]
    assert len(begun) == len({*begun}), report
    for each in lines:
        assert each["restart"] == 0 or any(e["at"] < each["at"] and e.get("code") for e in lines), report
        assert each.get("version", of := version_of(str(attempt.document))) == of, report
    assert_in_order(attempt, lines, report)
    ends = {(each["role"], each["k"]): each.get("code") for each in lines}
    match attempt.state:
        case "succeeded":
            for role in attempt.document["roles"]:
                codes = {ends.get((role["name"], str(k))) for k in range(role.get("num_replicas", 1))}
                assert role.get("service") or codes == {0}, report
        case "failed":
            role, k, code = re.search(r"(\w+)/(\d+) exited with (\d+)", attempt.message).groups()
            assert ends[role, k] == int(code), report
        case "lost":
            assert attempt.app_id in world.killed, report
        case "skipped":
            assert not lines, report
        case "waiting" | "queued":  # its holder was killed, and no file declares the job any more
            assert attempt.app_id in world.killed, report
            assert not lines, report
        case _:
            assert attempt.state == "cancelled", report
    record = Path(rundir.events(str(world.scenario.home / "local/apps" / attempt.app_id)))
    if record.exists() and attempt.app_id not in world.killed:
        events = [json.loads(line) for line in record.read_text().splitlines()]
        spawned = [(e["role"], str(e["k"]), e["restart"]) for e in events if e["e"] == "spawn"]
        assert {*begun} <= {*spawned}, f"{report} {events}"
        assert len(spawned) == len({*spawned}), f"{report} {events}"


def assert_in_order(attempt, lines, report):
    """Check that a role began after those that it waits for; a `started` one may write its line later."""
    numbers = {each["name"]: each.get("num_replicas", 1) for each in attempt.document["roles"]}
    for role in attempt.document["roles"]:
        begun = [each["at"] for each in lines if each["role"] == role["name"]]
        for other, when in role.get("depends_on", {}).items() if begun else ():
            kinds = {"succeeded": [0], "ready": [0, None]}.get(when)
            of = [each for each in lines if each["role"] == other and each["at"] < begun[0]]
            done = {each["k"] for each in of if kinds and each.get("code") in kinds}
            assert kinds is None or len(done) == numbers[other], report


def assert_plan_tells_the_truth(world, clone):
    """Check the action and reason of each job whose last attempt has ended."""
    before = {job: (last := world.last(job)) and (last.app_id, last.state) for job in world.names}
    plan, seen = world.plan(clone), world.lines()
    for job, planned in plan.items():
        last = world.last(job)
        if (last and (last.app_id, last.state)) != before[job] or (last is not None and last.is_live):
            continue
        must, may = ({"no_attempt"}, set()) if last is None else reasons(world, clone, plan, last, seen)
        codes = [each["code"] for each in planned["reasons"]]
        report = f"{clone} {job} {planned['action']} {codes} {must} {may} {planned} {last}"
        if planned["action"] == "keep":
            assert (last.state, must) == ("succeeded", set()), report
        elif planned["action"] == "hold":
            assert "needs_failed" in codes or last.state in ("failed", "cancelled", "lost"), report
        else:
            assert codes[0] in {*must, *may, "interrupted"}, report


def reasons(world, clone, plan, last, seen):
    """Return the reasons by which a job must run again, and those that other jobs or the record may give."""
    job, lines = last.key.job, seen[last.app_id]
    text, may = (clone / f"{job[0]}.launcher.yaml").read_text(), {f"last_{last.state}", "policy"}
    must = set() if version_of(text) == version_of(str(last.document)) else {"spec_changed"}
    if last.inputs_changed:
        may.add("inputs_changed")
    if not lines:  # it read nothing: its files as the plan found them count
        may.add("inputs_changed")
    elif {each["data"] for each in lines} - {(clone / f"data.{job}").read_text()}:
        must.add("inputs_changed")
    named = re.search(r"(?m)^needs: \[(.*)\]", text)[1].split(", ")
    asked = {each for each in plan if each in named or each.partition("-")[0] in named}
    if asked != {need.job for need in last.needs}:
        must.add("needs_changed")
    for need in asked & {need.job for need in last.needs}:
        success = [each for each in world.scenario.attempts(need) if each.state == "succeeded"][-1:]
        reads = [each["needs"][need] for each in lines if each["what"] == "begin"]
        if plan[need]["action"] not in ("keep", "hold") or world.last(need).is_live:
            may.add("needs_changed")
        elif success and any(each != outputs(seen[success[0].app_id]) for each in reads):
            must.add("needs_changed")
    return must, may


@pytest.mark.parametrize("seed", sampled(seeds(4)))
def test_records_and_plans_agree_with_the_replicas_after_races_and_kills(scenario, seed):
    world = World(scenario, random.Random(seed))
    for _ in range(6):
        world.race()
        assert_plan_tells_the_truth(world, world.chance.choice(world.clones))
    world.settle()
    until(lambda: not scenario.supervisors())
    scenario.launcher("list")  # which records the ends that no command has seen
    assert_records_agree(world)
    for clone in world.clones:
        assert_plan_tells_the_truth(world, clone)
    assert processes.of_home(str(scenario.home)) == []
