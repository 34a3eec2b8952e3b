"""The effects of plans, and approvals, to JSON and back."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from launcher.hashes import sha256
from launcher.plan.effects import Approval, Effect, Start, Stop
from launcher.plan.model import Plan
from launcher.plan.schema import APPROVED, EFFECTS_VERSION
from launcher.plan.shapes import Fault
from launcher.specs.launch import JobKey


def effects_json(plan: Plan) -> list[dict[str, Any]]:
    """The effects of a plan, each with its digest; starts with the number of the job's latest attempt."""
    after = {step.key: step.guard.attempt for step in plan.steps}
    return [_effect(each, after[each.key]) for each in plan.effects]


def approval_json(plan: Plan, *, pull_request: str = "") -> dict[str, Any]:
    """The effects of a stamped plan as a JSON object that `to_approval` reads."""
    number = {"pull_request": pull_request} if pull_request else {}
    return {"version": EFFECTS_VERSION, "plan_id": plan.plan_id, **number, "effects": effects_json(plan)}


def approval_faults(data: Any) -> Iterator[Fault]:
    """Yield the faults of a list of effects."""
    faults = list(APPROVED.faults(data, ""))
    yield from faults
    for index, item in enumerate(() if faults else data["effects"]):
        if ("start" in item) == ("stop" in item):
            yield f"effects[{index}]", "want `start` or `stop`"
        elif _to_effect(item).digest != item["effect"]:
            yield f"effects[{index}].effect", "does not match the effect: it was edited"


def to_approval(data: Mapping[str, Any], *, source: str) -> Approval:
    """The approval that a list of effects without faults holds."""
    effects = [(_to_effect(item), item) for item in data["effects"]]
    return Approval(
        id=data["plan_id"],
        starts={effect: item["start"]["after"] for effect, item in effects if isinstance(effect, Start)},
        stops=frozenset(effect.app_id for effect, _ in effects if isinstance(effect, Stop)),
        pull_request=data.get("pull_request", ""),
        source=source,
    )


def digest_of_v2(plan: Plan) -> str:
    """The plan digest `lp2`, which plans of earlier versions carry."""
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


def _effect(effect: Effect, after: int) -> dict[str, Any]:
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
