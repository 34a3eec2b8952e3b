"""Plans to JSON and back, sealed. Reading is strict and reports every fault at once, with its path."""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

from launcher.dataclass import fields
from launcher.errors import LauncherError
from launcher.hashes import sha256
from launcher.indented import indented
from launcher.plan.approved import approval_faults, approval_json, digest_of_v2, effects_json, to_approval
from launcher.plan.diff import Change
from launcher.plan.effects import Approval
from launcher.plan.model import Orphan, Plan, PlanProblem, Selection, overruns, total_of
from launcher.plan.schema import EFFECTS_VERSION, PLAN, READ, VERSION
from launcher.plan.shapes import Fault, faults_in
from launcher.plan.step import Guard, Reason, Step, to_estimate
from launcher.specs import canonical
from launcher.specs.attempt import StoodOn
from launcher.specs.launch import Budget, Caps, JobKey, Launch, Lifecycle, Need, Trigger
from launcher.specs.notify import from_json

_FAULTS_SHOWN = 20
_SEAL = re.compile(rb',\n  "seal": "sha256:([0-9a-f]{64})"\n}\n\Z')
"""The last field of a saved plan: a checksum of everything before it."""


class PlanFileError(LauncherError):
    """A file is not a saved plan, or a newer version saved it."""

    code = "plan-file"


class SealError(PlanFileError):
    """A saved plan was edited, or an older version saved it without a seal. It is refused as stale."""

    exit_code = 4
    code = "stale"


def dumps(plan: Plan) -> str:
    """Return the text of a saved plan, with its seal. Equal plans have equal texts, in ASCII alone."""
    return seal(indented(encode(plan)) + "\n")


def seal(text: str) -> str:
    """Return the file of a plan: a JSON object in ASCII, indented by two, with `seal` as its last field."""
    body = text.removesuffix("\n}\n")
    return f'{body},\n  "seal": "sha256:{sha256(body.encode()).hexdigest()}"\n}}\n'


def is_sealed(data: bytes) -> bool:
    """Whether `data` is exactly what `seal` returned."""
    found = _SEAL.search(data)
    return found is not None and found[1].decode() == sha256(data[: found.start()]).hexdigest()


def loads(text: str | bytes, *, name: str = "plan.json") -> Plan:
    """Read a plan that `dumps` wrote; messages call the file `name`.

    Raises SealError when a byte of it was edited, PlanFileError when the text is not a saved plan.
    """
    raw = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    if not is_sealed(raw):
        raise _unsealed(raw, name)
    return decode(_parsed(raw, name), name=name)


def loads_approval(raw: bytes, *, name: str = "plan.json") -> Approval:
    """Read the effects of a saved plan, or a list of effects, as an approval. Raises what `loads` raises."""
    data = _parsed(raw, name)
    if not isinstance(data, dict) or data.get("version") != EFFECTS_VERSION:
        data = approval_json(loads(raw, name=name))
    if faults := list(approval_faults(data)):
        raise _refusal(name, faults)
    return to_approval(data, source=name)


def _parsed(raw: bytes, name: str) -> Any:
    try:
        return json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise _no_plan(name, str(error)) from error


def _no_plan(name: str, why: str) -> PlanFileError:
    save = "save one with `launcher plan FILE --out plan.json`"
    hint = f"{save}; job files end in .launcher.yaml or .launcher.toml"
    return PlanFileError(f"{name} is not a saved plan: {why}", hint=hint)


def _unsealed(raw: bytes, name: str) -> PlanFileError:
    """Return the error for a text without a valid seal."""
    edited = SealError(
        f"{name} was edited after it was saved: its checksum does not match",
        hint="make a new plan; a saved plan is applied byte for byte as `launcher plan --out` wrote it",
    )
    try:
        data = _parsed(raw, name)
    except PlanFileError as error:
        return edited if b'"seal"' in raw else error
    fields = data if isinstance(data, dict) else {}
    if (newer := _of_other_version(fields, name)) is not None:
        return newer
    if "seal" in fields:
        return edited
    if "version" in fields:
        return SealError(
            f"{name} has no seal: an older version of launcher saved it, or its seal was removed",
            hint="make a new plan",
        )
    return _no_plan(name, "it has no `version`")


def _of_other_version(data: Mapping[str, Any], name: str) -> PlanFileError | None:
    version = data.get("version")
    if not isinstance(version, str) or not version.startswith("launcher.plan/") or version in READ:
        return None
    problem = f"{name} is a {version}, and this version reads {VERSION}"
    return PlanFileError(problem, hint="make a new plan, or update")


def decode(data: Any, *, name: str = "plan.json") -> Plan:
    """Make a plan from a JSON object without checking its seal; `recheck.located` sets the root of its jobs.

    Raises PlanFileError with every fault, also when a document or effects do not match their digests.
    """
    if isinstance(data, dict) and (other := _of_other_version(data, name)) is not None:
        raise other
    if faults := list(faults_in(PLAN, data, "")) or list(_cross_faults(data)):
        raise _refusal(name, faults)
    plan = _plan(data)
    digest = plan.plan_digest if data["version"] == VERSION else digest_of_v2(plan)
    if digest != data["plan_digest"]:
        raise _refusal(name, [("plan_digest", "does not match the jobs: the plan was edited")])
    if data["version"] == VERSION and data.get("effects", []) != effects_json(plan):
        raise _refusal(name, [("effects", "do not match the jobs: the plan was edited")])
    return plan


def _refusal(name: str, faults: Sequence[Fault]) -> PlanFileError:
    lines = [f"\n  {path or 'the whole'}: {message}" for path, message in faults[:_FAULTS_SHOWN]]
    if len(faults) > _FAULTS_SHOWN:
        lines.append(f"\n  and {len(faults) - _FAULTS_SHOWN} more")
    return PlanFileError(f"{name} is not a usable plan:{''.join(lines)}", hint="make a new plan")


def _cross_faults(data: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield the faults that the schema cannot express, in a plan that matches the schema."""
    for name in ("created_at", "expires_at"):
        if _seconds(data[name]) is None:
            yield name, f"no such time: {data[name]}"
    if data["expires_at"] < data["created_at"]:
        yield "expires_at", "is before created_at"
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
    path_ = launch["path"]
    first = posixpath.normpath(path_).partition("/")[0]
    if not path_ or "\0" in path_ or first in ("", ".", ".."):
        yield f"{path}.path", f"must be a file below the root of the repository, got {path_!r}"
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


def _plan(data: Mapping[str, Any]) -> Plan:
    selection = data["selection"]
    words = {name: tuple(selection.get(name, ())) for name in ("select", "rerun")}
    return Plan(
        steps=tuple(_to_step(job) for job in data["jobs"]),
        orphans=tuple(
            Orphan(key=JobKey(**item["key"]), path=item["path"], guard=_to_guard(item["guard"]))
            for item in data.get("orphans", ())
        ),
        turns=tuple(data.get("turns", ())),
        shared=tuple(data.get("shared", ())),
        problems=tuple(
            PlanProblem(**{**item, "key": JobKey(**item["key"])}) for item in data.get("problems", ())
        ),
        selection=Selection(**{**selection, **words}),
        engines=data["engines"],
        images=data.get("images", {}),
        commits=data["commits"],
        plan_id=data["plan_id"],
        created_at=_seconds(data["created_at"]) or 0,
        expires_at=_seconds(data["expires_at"]) or 0,
    )


def _to_step(job: Mapping[str, Any]) -> Step:
    key = JobKey(**job["key"])
    launch = job.get("launch", {})
    lists: dict[str, Any] = {
        name: tuple(map(make, job.get(name, ()))) for name, make in _LISTS_OF_STEP.items()
    }
    return Step(
        key=key,
        kind=job["action"],
        launch=_to_launch(key, launch) if launch else None,
        document=launch.get("document", {}),
        digest=launch.get("digest", ""),
        number=job.get("attempt", 0),
        guard=_to_guard(job["guard"]),
        estimate=to_estimate(job["estimate"]) if "estimate" in job else None,
        **lists,
        **_known(job, "edition", "consented", "blocked", "waits_for", "place"),
    )


def _known(data: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Return the fields that are there; the others keep their defaults."""
    return {name: data[name] for name in names if name in data}


def _to_need(need: Mapping[str, Any]) -> StoodOn:
    return StoodOn(**{"number" if name == "attempt" else name: value for name, value in need.items()})


def _to_guard(guard: Mapping[str, Any]) -> Guard:
    return Guard(**{"edition": guard["attempt"], **guard})


_DIGESTS = ("review_digest", "trigger_digest", "inputs_digest")
_LISTS_OF_STEP: Mapping[str, Callable[[Any], Any]] = {
    "reasons": lambda reason: Reason(**reason),
    "changes": lambda change: Change(**change),
    "needs": _to_need,
    **dict.fromkeys(("withdraws", "stops", "leftovers"), _to_guard),
    **dict.fromkeys(("after", "edited", "notes"), str),
}
"""The fields of a step with several values, each with the function that makes one."""


def _to_launch(key: JobKey, launch: Mapping[str, Any]) -> Launch:
    document, policies = launch["document"], launch.get("lifecycle", {})
    triggers = (
        Trigger("files", tuple(item["files"])) if isinstance(item, dict) else Trigger("every_apply")
        for item in policies.get("rerun_on", ())
    )
    return Launch(
        key=key,
        app=canonical.app_from_document(document, launch["app"], launch.get("metadata", {})),
        scheduler=document["scheduler"],
        workspace=canonical.to_workspace(document.get("workspace")),
        lifecycle=Lifecycle(**{**policies, "rerun_on": tuple(triggers)}),
        needs=tuple(Need(job, "rerun" not in how) for job, how in launch.get("needs", {}).items()),
        caps=Caps(**launch.get("caps", {})),
        budget=Budget(**launch.get("budget", {})),
        notify=tuple(map(from_json, launch.get("notify", ()))),
        inputs=tuple(launch.get("inputs", ())),
        root="",
        file=launch["path"],
        enabled=launch["enabled"],
        origin=launch["origin"],
        **_known(document, "cfg", "timeout_s"),
        **_known(launch, "unresolved", "matrix", "max_parallel", "description", *_DIGESTS),
    )


def _seconds(moment: str) -> int | None:
    """Return a moment in seconds since the epoch; None for a date or time that does not exist."""
    try:
        time = datetime.fromisoformat(moment.removesuffix("Z"))
    except ValueError:
        return None
    return int(time.replace(tzinfo=timezone.utc).timestamp())


def encode(plan: Plan) -> dict[str, Any]:
    """Encode a plan as a JSON object. `stamped` has to give a plan its id and time before it is saved."""
    orphans = [{"key": o.key._asdict(), "path": o.path, "guard": _guard(o.guard)} for o in plan.orphans]
    problems = [{**_fields(problem), "key": problem.key._asdict()} for problem in plan.problems]
    words = {name: list(getattr(plan.selection, name)) for name in ("select", "rerun")}
    total = total_of(plan.steps)
    with_place = not plan.is_in_order
    return {
        "version": VERSION,
        "plan_id": plan.plan_id,
        "plan_digest": plan.plan_digest,
        "created_at": _moment(plan.created_at),
        "expires_at": _moment(plan.expires_at),
        "has_changes": not plan.is_empty,
        "counts": plan.counts(),
        "selection": _filled({**_fields(plan.selection), **words}),
        "engines": dict(plan.engines),
        "commits": dict(plan.commits),
        "jobs": [_step(step, with_place=with_place) for step in plan.steps],
        **_filled(
            {
                "images": {name: dict(ids) for name, ids in plan.images.items()},
                "effects": effects_json(plan),
                "estimate": total.to_json() if total.jobs else None,
                "over_budget": [each.to_json() for each in overruns(plan.steps)],
                "orphans": orphans,
                "problems": problems,
                **{key: list(getattr(plan, key)) for key in ("turns", "shared")},
            }
        ),
    }


def _step(step: Step, *, with_place: bool) -> dict[str, Any]:
    optional = {
        "changes": [_change(change) for change in step.changes],
        "launch": None if step.launch is None else _launch(step, step.launch),
        "attempt": step.number,
        "app_id": step.app_id,
        "edition": step.edition,
        "needs": [need.about() for need in step.needs],
        "after": list(step.after),
        "withdraws": [_guard(waiting) for waiting in step.withdraws],
        "stops": [_guard(stop) for stop in step.stops],
        "leftovers": [_guard(leftover) for leftover in step.leftovers],
        "consented": step.consented,
        "blocked": step.blocked,
        "waits_for": step.waits_for,
        "edited": list(step.edited),
        "notes": list(step.notes),
        "place": step.place if with_place else 0,
        "estimate": step.estimate and step.estimate.to_json(),
    }
    return {
        "key": step.key._asdict(),
        "action": step.kind,
        "reasons": [_reason(reason) for reason in step.reasons],
        "guard": _guard(step.guard),
        **_filled(optional),
    }


def _launch(step: Step, launch: Launch) -> dict[str, Any]:
    lifecycle = {
        name: value
        for name, value in _fields(launch.lifecycle).items()
        if value != getattr(Lifecycle(), name)
    }
    if launch.lifecycle.rerun_on:
        lifecycle["rerun_on"] = [
            "every_apply" if each.kind == "every_apply" else {"files": list(each.globs)}
            for each in launch.lifecycle.rerun_on
        ]
    optional = {
        "metadata": dict(launch.app.metadata),
        "description": launch.description,
        "lifecycle": lifecycle,
        "needs": {need.job: {} if need.rerun else {"rerun": "never"} for need in launch.needs},
        "unresolved": dict(launch.unresolved),
        "matrix": launch.matrix,
        "max_parallel": launch.max_parallel,
        "caps": _given(launch.caps._asdict()),
        "budget": _given(launch.budget._asdict()),
        "notify": [each.to_json() for each in launch.notify],
        "review_digest": launch.review_digest,
        "trigger_digest": launch.trigger_digest,
        "inputs": list(launch.inputs),
        "inputs_digest": launch.inputs_digest,
    }
    return {
        "app": launch.app.name,
        "document": dict(step.document),
        "digest": step.digest,
        "enabled": launch.enabled,
        "origin": launch.origin,
        "path": launch.file,
        **_filled(optional),
    }


def _given(limits: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in limits.items() if value is not None}


def _guard(guard: Guard) -> dict[str, Any]:
    edition = {} if guard.edition == guard.attempt else {"edition": guard.edition}
    return {"attempt": guard.attempt, **_filled({**_fields(guard), "edition": 0}), **edition}


def _reason(reason: Reason) -> dict[str, Any]:
    given = _given({"old": reason.old, "new": reason.new})
    return {"code": reason.code, **_filled({"path": reason.path, "detail": reason.detail}), **given}


def _change(change: Change) -> dict[str, Any]:
    old = {} if change.op == "+" else {"old": change.old}
    new = {} if change.op == "-" else {"new": change.new}
    return {"op": change.op, "path": change.path, **old, **new}


def _filled(optional: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields without None, false, 0 and empty values."""
    return {name: value for name, value in optional.items() if value}


def _fields(value: Any) -> dict[str, Any]:
    return {field.name: getattr(value, field.name) for field in fields(value)}


def _moment(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
