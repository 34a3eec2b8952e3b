"""Encode plans as JSON objects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from datetime import datetime, timezone
from typing import Any

from launcher.plan.diff import Change
from launcher.plan.model import Plan
from launcher.plan.reasons import Reason
from launcher.plan.schema import VERSION
from launcher.plan.step import Guard, Step
from launcher.specs.launch import JobKey, Launch, Lifecycle, Trigger
from launcher.specs.needs import StoodOn


def encode(plan: Plan) -> dict[str, Any]:
    """Encode a plan as a JSON object. A plan to save has to be stamped first with an id and a time."""
    orphans = [
        {"key": _key(orphan.key), "path": orphan.path, "guard": _guard(orphan.guard)}
        for orphan in plan.orphans
    ]
    problems = [
        {"key": _key(p.key), "code": p.code, "message": p.message, "hint": p.hint} for p in plan.problems
    ]
    return {
        "version": VERSION,
        "plan_id": plan.plan_id,
        "plan_digest": plan.plan_digest,
        "created_at": _moment(plan.created_at),
        "expires_at": _moment(plan.expires_at),
        "has_changes": not plan.is_empty,
        "counts": plan.counts(),
        "selection": _filled(
            {
                **_fields(plan.selection),
                "select": list(plan.selection.select),
                "rerun": list(plan.selection.rerun),
            }
        ),
        "engines": dict(plan.engines),
        "commits": dict(plan.commits),
        "jobs": [_step(step, with_place=not plan.is_in_order) for step in plan.steps],
        **_filled({"orphans": orphans, "problems": problems, "turns": list(plan.turns)}),
    }


def _step(step: Step, *, with_place: bool) -> dict[str, Any]:
    optional = {
        "changes": [_change(change) for change in step.changes],
        "launch": None if step.launch is None else _launch(step, step.launch),
        "attempt": step.number,
        "app_id": step.app_id,
        "edition": step.edition,
        "needs": [_stood_on(each) for each in step.needs],
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
    }
    return {
        "key": _key(step.key),
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
        lifecycle["rerun_on"] = [_trigger(trigger) for trigger in launch.lifecycle.rerun_on]
    optional = {
        "metadata": dict(launch.app.metadata),
        "description": launch.description,
        "lifecycle": lifecycle,
        "needs": {need.job: {} if need.rerun else {"rerun": "never"} for need in launch.needs},
        "unresolved": dict(launch.unresolved),
        "matrix": launch.matrix,
        "max_parallel": launch.max_parallel,
        "caps": {name: value for name, value in launch.caps._asdict().items() if value is not None},
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


def _trigger(trigger: Trigger) -> str | dict[str, list[str]]:
    """The trigger as a job file writes it."""
    return "every_apply" if trigger.kind == "every_apply" else {"files": list(trigger.globs)}


def _key(key: JobKey) -> dict[str, str]:
    return {"project": key.project, "target": key.target, "job": key.job}


def _guard(guard: Guard) -> dict[str, Any]:
    edition = {} if guard.edition == guard.attempt else {"edition": guard.edition}
    return {"attempt": guard.attempt, **_filled({**_fields(guard), "edition": 0}), **edition}


def _stood_on(need: StoodOn) -> dict[str, Any]:
    return {
        "job": need.job,
        "attempt": need.number,
        "edition": need.edition,
        "app_id": need.app_id,
        "scheduler": need.scheduler,
    }


def _reason(reason: Reason) -> dict[str, Any]:
    values = {"old": reason.old, "new": reason.new}
    given = {name: value for name, value in values.items() if value is not None}
    return {"code": reason.code, **_filled({"path": reason.path, "detail": reason.detail}), **given}


def _change(change: Change) -> dict[str, Any]:
    old = {} if change.op == "+" else {"old": change.old}
    new = {} if change.op == "-" else {"new": change.new}
    return {"op": change.op, "path": change.path, **old, **new}


def _filled(optional: Mapping[str, Any]) -> dict[str, Any]:
    """The fields without None, false, 0 and empty values."""
    return {name: value for name, value in optional.items() if value}


def _fields(value: Any) -> dict[str, Any]:
    return {field.name: getattr(value, field.name) for field in fields(value)}


def _moment(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
