"""Judge a plan by approvals: which of its effects may be carried out, and under which; effects as JSON.

The effects of a plan now must be a part of the approved effects. An approval starts each of its jobs once. A
repeat needs no approval, unless the command line asks for it: the start of a job whose latest attempt made
the same start under an approval. An approved start may also stop attempts of its own job that began since,
under another approval.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from launcher.dataclass import replace
from launcher.hashes import sha256
from launcher.plan.effects import Approval, Effect, Refusal, Start, Stop, started_by
from launcher.plan.model import Orphan, Plan
from launcher.plan.schema import APPROVED, EFFECTS_VERSION
from launcher.plan.shapes import Fault, faults_in
from launcher.plan.step import Guard, Reason, Step, in_order, keys_after
from launcher.specs.attempt import Attempt
from launcher.specs.launch import JobKey

Past = Callable[[Step, int], "Attempt | None"]
"""Returns the attempt of the step's job with that number; None when nothing is known of such an attempt."""

_WORDS: Mapping[str, str] = {
    "workspace": "the files of its workspace changed",
    "review": "the job file changed",
    "trigger": "files that its `rerun_on` names changed",
    "inputs": "files that its `inputs` names changed",
    "needs": "its `needs` changed",
    "origin": "the job file lives in another repository",
    "path": "the job file has another path",
    "notify": "`[notify]` of launcher.toml changed",
}
"""Field of a start → the sentence for a start that differs in it. The first difference is named."""


def judged(plan: Plan, approvals: Sequence[Approval], past: Past) -> Plan:
    """Return the plan without unapproved effects: it holds their jobs, and names them in `unapproved`.

    Steps that start a job carry the approval of the start.
    """
    steps: dict[int, Step] = {}
    refusals: list[Refusal] = []
    held: set[JobKey] = set()
    for step in in_order(plan.steps):
        granted = _Judge(step, approvals, past)
        found = granted.refusals if step.has_effects else []
        behind = next((key for key in keys_after(step) if key in held), None) if step.starts else None
        if not found and behind is not None and (start := started_by(step)) is not None:
            found = [Refusal(start, why=f"it needs {behind.job}, which is held")]
        if found:
            held.add(step.key)
        refusals += found
        if not found or step.launch is not None:
            steps[id(step)] = _held(step, found) if found else granted.step
    orphans = [
        Orphan(key=step.key, path=step.latest.path if step.latest else "", guard=step.guard)
        for step in plan.steps
        if id(step) not in steps
    ]
    return replace(
        plan,
        steps=tuple(steps[id(step)] for step in plan.steps if id(step) in steps),
        orphans=(*plan.orphans, *orphans),
        unapproved=tuple(refusals),
    )


class _Judge:
    """Compares the effects of one step with the approvals.

    Attributes:
        refusals: the refused effects of the step.
        step: the step, with the approval that its attempt remembers.
    """

    def __init__(self, step: Step, approvals: Sequence[Approval], past: Past) -> None:
        self._approvals, self._past = approvals, past
        self.refusals: list[Refusal] = []
        self.step = step
        start = started_by(step) if step.has_effects else None
        after = 0
        if start is not None:
            after = self._grant(start)
        if start is None or not self.refusals:
            self.refusals += [
                Refusal(Stop(step.key, stop.app_id), why=f"no approval stops attempt {stop.attempt}")
                for stop in step.stops
                if not self._may_stop(stop, after)
            ]

    def _grant(self, start: Start) -> int:
        """Approve or refuse a start; returns the number of the last attempt before its approval."""
        latest = self._past(self.step, self.step.guard.attempt) if self.step.guard.attempt else None
        is_asked = any(reason.code == "requested" for reason in self.step.reasons)
        if latest is not None and latest.approval and latest.effect == start.digest and not is_asked:
            self.step = replace(self.step, approval=latest.approval, pull_request=latest.pull_request)
            return latest.number - 1
        holding = [each for each in self._approvals if start in each.starts]
        why = [self._used_up(each, each.starts[start]) for each in holding]
        if not holding:
            self.refusals.append(_unheld(start, self._approvals))
            return 0
        if "" not in why:
            self.refusals.append(Refusal(start, approved=_names(holding), why=why[-1]))
            return 0
        approval = holding[why.index("")]
        self.step = replace(self.step, approval=approval.id, pull_request=approval.pull_request)
        return approval.starts[start]

    def _used_up(self, approval: Approval, after: int) -> str:
        """Return the reason why an approval does not start the job; "" when it does."""
        latest = self.step.guard.attempt
        if latest < after:
            known = f"attempt {latest} is the latest on record" if latest else "no attempt is on record"
            return f"{known}, and attempt {after} was when it was approved: the ledger is another one"
        never_started = {guard.attempt for guard in self.step.leftovers}
        for number in range(after + 1, latest + 1):
            if number in never_started:
                continue
            made = self._past(self.step, number)
            if made is None:
                return f"attempt {number} was made since, and nothing is known of it"
            if made.approval == approval.id:
                return f"attempt {number} has used it up"
        return ""

    def _may_stop(self, stop: Guard, after: int) -> bool:
        if any(stop.app_id in each.stops for each in self._approvals):
            return True
        if not self.step.approval or stop.attempt <= after:
            return False
        made = self._past(self.step, stop.attempt)
        return made is not None and made.app_id == stop.app_id and made.approval != ""


def _unheld(start: Start, approvals: Iterable[Approval]) -> Refusal:
    """Return the refusal of a start that no approval holds, with the nearest approved start."""
    same_job = [(each, other) for each in approvals for other in each.starts if other.key == start.key]
    if not same_job:
        return Refusal(start, why=_elsewhere(start, approvals))
    holders = list(dict.fromkeys(str(each) for each, _ in same_job))
    approved = _names(each for each, _ in same_job)
    if len(holders) > 1 and all(other.workspace != start.workspace for _, other in same_job):
        names = f"{', '.join(holders[:-1])} and {holders[-1]}"
        why = f"combined: {names} change what it runs, and none shows the result of all"
        return Refusal(start, approved=approved, why=why)
    nearest = same_job[-1][1]
    differing = next(name for name in _WORDS if getattr(nearest, name) != getattr(start, name))
    return Refusal(start, approved=f"{nearest.digest} ({holders[-1]})", why=f"{_WORDS[differing]} since")


def _elsewhere(start: Start, approvals: Iterable[Approval]) -> str:
    keys = {other.key for each in approvals for other in each.starts if other.key.job == start.key.job}
    if targets := sorted(key.target for key in keys if key.project == start.key.project):
        return f"it is approved for target {', '.join(targets)} alone"
    if projects := sorted(key.project for key in keys):
        return f"it is approved for project {', '.join(projects)} alone"
    return "no approval starts it"


def _names(approvals: Iterable[Approval]) -> str:
    return ", ".join(dict.fromkeys(map(str, approvals)))


def _held(step: Step, refusals: Sequence[Refusal]) -> Step:
    reason = Reason("unapproved", detail="; ".join(each.why for each in refusals))
    nothing: dict[str, Any] = {"number": 0, "edition": 0, "needs": (), "after": (), "leftovers": ()}
    reasons = (reason, *step.reasons)
    return replace(step, kind="hold", reasons=reasons, stops=(), withdraws=(), bound=None, **nothing)


# -- effects and approvals as JSON -------------------------------------------------------------------------


def effects_json(plan: Plan) -> list[dict[str, Any]]:
    """Return a plan's effects with their digests; starts also have the number of the job's latest attempt."""
    after = {step.key: step.guard.attempt for step in plan.steps}
    return [_effect_json(each, after[each.key]) for each in plan.effects]


def approval_json(plan: Plan, *, pull_request: str = "") -> dict[str, Any]:
    """Return the approval of a stamped plan's effects as a JSON object that `to_approval` reads."""
    number = {"pull_request": pull_request} if pull_request else {}
    return {"version": EFFECTS_VERSION, "plan_id": plan.plan_id, **number, "effects": effects_json(plan)}


def approval_faults(data: Any) -> Iterator[Fault]:
    """Yield the faults of a list of effects."""
    faults = list(faults_in(APPROVED, data, ""))
    yield from faults
    for index, item in enumerate(() if faults else data["effects"]):
        if ("start" in item) == ("stop" in item):
            yield f"effects[{index}]", "want `start` or `stop`"
        elif _to_effect(item).digest != item["effect"]:
            yield f"effects[{index}].effect", "does not match the effect: it was edited"


def to_approval(data: Mapping[str, Any], *, source: str) -> Approval:
    """Return the approval that a list of effects without faults represents."""
    effects = [(_to_effect(item), item) for item in data["effects"]]
    return Approval(
        id=data["plan_id"],
        starts={effect: item["start"]["after"] for effect, item in effects if isinstance(effect, Start)},
        stops=frozenset(effect.app_id for effect, _ in effects if isinstance(effect, Stop)),
        pull_request=data.get("pull_request", ""),
        source=source,
    )


def digest_of_v2(plan: Plan) -> str:
    """Return the plan digest `lp2`, which plans of earlier versions carry."""
    effects = plan.effects
    digests = {step.key: step.digest for step in plan.steps}
    rows = sorted(
        [*start.key, digests[start.key], start.origin, start.path, *filter(None, [start.inputs])]
        for start in effects
        if isinstance(start, Start)
    )
    text = json.dumps(rows, separators=(",", ":"))
    stops = sorted({stop.app_id for stop in effects if isinstance(stop, Stop)})
    return "+".join([f"lp2:sha256:{sha256(text.encode()).hexdigest()}", *stops])


def _effect_json(effect: Effect, after: int) -> dict[str, Any]:
    key = effect.key._asdict()
    if isinstance(effect, Stop):
        return {"effect": effect.digest, "stop": {"key": key, "app_id": effect.app_id}}
    optional = {
        "workspace": effect.workspace,
        "trigger": effect.trigger,
        "inputs": effect.inputs,
        "needs": list(effect.needs),
        "notify": list(effect.notify),
    }
    start = {
        "key": key,
        "review_digest": effect.review,
        "origin": effect.origin,
        "path": effect.path,
        "after": after,
        **{name: value for name, value in optional.items() if value},
    }
    return {"effect": effect.digest, "start": start}


def _to_effect(item: Mapping[str, Any]) -> Effect:
    if "stop" in item:
        return Stop(JobKey(**item["stop"]["key"]), item["stop"]["app_id"])
    start = item["start"]
    return Start(
        key=JobKey(**start["key"]),
        review=start["review_digest"],
        workspace=start.get("workspace", ""),
        trigger=start.get("trigger", ""),
        inputs=start.get("inputs", ""),
        needs=tuple(start.get("needs", ())),
        origin=start["origin"],
        path=start["path"],
        notify=tuple(start.get("notify", ())),
    )
