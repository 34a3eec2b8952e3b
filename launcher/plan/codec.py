"""Plans to JSON and back. Reading is strict: every fault at once, each with its path."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

from launcher.errors import LauncherError
from launcher.plan.diff import Change
from launcher.plan.encode import encode
from launcher.plan.model import Orphan, Plan, Problem, Selection
from launcher.plan.reasons import Reason
from launcher.plan.schema import PLAN, VERSION, plan_schema
from launcher.plan.shapes import Fault
from launcher.plan.step import Guard, Step
from launcher.specs import canonical
from launcher.specs.launch import JobKey, Launch, Lifecycle, Trigger

__all__ = ["PlanFileError", "decode", "dumps", "encode", "loads", "plan_schema"]

_FAULTS_SHOWN = 20


class PlanFileError(LauncherError):
    """A saved plan cannot be read: no plan, of a newer version, or edited by hand."""


def dumps(plan: Plan) -> str:
    """The text of a saved plan. Stable for equal plans; ASCII, so that any string survives any file."""
    return json.dumps(encode(plan), indent=2) + "\n"


def loads(text: str | bytes, *, name: str = "plan.json") -> Plan:
    """The plan of a text; `name` is for messages. Raises PlanFileError."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise PlanFileError(f"{name} is not a saved plan: {error}") from error
    return decode(data, name=name)


def decode(data: Any, *, name: str = "plan.json") -> Plan:
    """The plan of a JSON object. The `root` of its launches is "": `recheck.located` sets it.

    Raises PlanFileError with every fault; also for a document or effects that do not match their digests.
    """
    version = data.get("version") if isinstance(data, dict) else None
    if isinstance(version, str) and version.startswith("launcher.plan/") and version != VERSION:
        raise PlanFileError(
            f"{name} is a {version}, and this version reads {VERSION}", hint="make a new plan, or update"
        )
    faults = list(PLAN.faults(data, "")) or list(_cross_faults(data))
    if faults:
        raise _refusal(name, faults)
    plan = _plan(data)
    if plan.plan_digest != data["plan_digest"]:
        raise _refusal(name, [("plan_digest", "does not match the jobs: the plan was edited")])
    return plan


def _refusal(name: str, faults: Sequence[Fault]) -> PlanFileError:
    lines = [f"\n  {path or 'the whole'}: {message}" for path, message in faults[:_FAULTS_SHOWN]]
    if len(faults) > _FAULTS_SHOWN:
        lines.append(f"\n  and {len(faults) - _FAULTS_SHOWN} more")
    return PlanFileError(f"{name} is not a usable plan:{''.join(lines)}", hint="make a new plan")


def _cross_faults(data: Mapping[str, Any]) -> Iterator[Fault]:
    """What no shape can say, of a plan whose shape is good."""
    for name in ("created_at", "expires_at"):
        if _seconds(data[name]) is None:
            yield name, f"no such time: {data[name]}"
    for index, job in enumerate(data["jobs"]):
        path = f"jobs[{index}]"
        if not job["reasons"]:
            yield f"{path}.reasons", "want at least one"
        if job["action"] in ("create", "replace", "rerun", "resume"):
            yield from ((f"{path}.{name}", "is missing") for name in ("launch", "attempt") if name not in job)
        elif job["action"] != "destroy" and "launch" not in job:
            yield f"{path}.launch", "is missing"
        if "launch" in job:
            yield from _launch_faults(job["launch"], f"{path}.launch")


def _launch_faults(launch: Mapping[str, Any], path: str) -> Iterator[Fault]:
    document = launch["document"]
    try:
        normal = canonical.renormalise(document)
    except LauncherError as error:
        yield f"{path}.document", str(error)
        return
    if normal != document:
        yield f"{path}.document", "is not in normal form"
    elif canonical.digest(document) != launch["digest"]:
        yield f"{path}.digest", "does not match the document: the plan was edited"


# What has been checked, as values


def _plan(data: Mapping[str, Any]) -> Plan:
    selection = data["selection"]
    return Plan(
        steps=tuple(_to_step(job) for job in data["jobs"]),
        orphans=tuple(
            Orphan(key=JobKey(**item["key"]), path=item["path"], guard=Guard(**item["guard"]))
            for item in data.get("orphans", ())
        ),
        problems=tuple(
            Problem(**{**item, "key": JobKey(**item["key"])}) for item in data.get("problems", ())
        ),
        selection=Selection(**{**selection, "rerun": tuple(selection.get("rerun", ()))}),
        engines=data["engines"],
        commits=data["commits"],
        plan_id=data["plan_id"],
        created_at=_seconds(data["created_at"]) or 0,
        expires_at=_seconds(data["expires_at"]) or 0,
    )


def _to_step(job: Mapping[str, Any]) -> Step:
    key = JobKey(**job["key"])
    launch = job.get("launch", {})
    return Step(
        key=key,
        kind=job["action"],
        reasons=tuple(Reason(**reason) for reason in job["reasons"]),
        changes=tuple(Change(**change) for change in job.get("changes", ())),
        launch=_to_launch(key, launch) if launch else None,
        document=launch.get("document", {}),
        digest=launch.get("digest", ""),
        number=job.get("attempt", 0),
        stops=tuple(Guard(**stop) for stop in job.get("stops", ())),
        leftovers=tuple(Guard(**leftover) for leftover in job.get("leftovers", ())),
        guard=Guard(**job["guard"]),
        consented=job.get("consented", False),
        blocked=job.get("blocked"),
        waits_for=job.get("waits_for", ""),
        notes=tuple(job.get("notes", ())),
    )


def _to_launch(key: JobKey, launch: Mapping[str, Any]) -> Launch:
    document = launch["document"]
    return Launch(
        key=key,
        app=canonical.app_from_document(document, launch["app"], launch.get("metadata", {})),
        scheduler=document["scheduler"],
        cfg=document.get("cfg", {}),
        timeout_s=document.get("timeout_s"),
        workspace=canonical.to_workspace(document.get("workspace")),
        lifecycle=_to_lifecycle(launch.get("lifecycle", {})),
        trigger_digest=launch.get("trigger_digest", ""),
        enabled=launch["enabled"],
        description=launch.get("description", ""),
        root="",
        file=launch["path"],
        origin=launch["origin"],
    )


def _to_lifecycle(policies: Mapping[str, Any]) -> Lifecycle:
    triggers = (
        Trigger("files", tuple(item["files"])) if isinstance(item, dict) else Trigger("every_apply")
        for item in policies.get("rerun_on", ())
    )
    return Lifecycle(**{**policies, "rerun_on": tuple(triggers)})


def _seconds(moment: str) -> int | None:
    """Seconds since the epoch; None for what the calendar does not have."""
    try:
        time = datetime.fromisoformat(moment.removesuffix("Z"))
    except ValueError:
        return None
    return int(time.replace(tzinfo=timezone.utc).timestamp())
