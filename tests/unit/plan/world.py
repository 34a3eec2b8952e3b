"""Functions for the tests of planning: desired jobs, recorded attempts, and the plan between them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from launcher.apply.observe import merge
from launcher.plan.model import Plan
from launcher.plan.reconcile import NOTHING, Choices, reconcile
from launcher.plan.snapshot import Snapshot
from launcher.plan.turns import Room
from launcher.specs import canonical
from launcher.specs.app import AppDef, Role
from launcher.specs.attempt import Attempt
from launcher.specs.launch import JobKey, Launch, Lifecycle, attempt_id

ORIGIN = "github.com/acme/vision"
ENGINES = {"local_cwd": "local:0123"}
OWNER = "pid 17 on node1"


def job(name: str = "train", *args: str, env: Mapping[str, str] | None = None, **fields: Any) -> Launch:
    """Return a job whose role `trainer` runs `python args…`; fields that no launch has are policies."""
    role = Role(name="trainer", image="", entrypoint="python", args=list(args), env=dict(env or {}))
    own = {
        k: fields.pop(k)
        for k in (
            *("scheduler", "timeout_s", "enabled", "origin", "file", "project", "target"),
            *("workspace", "trigger_digest", "needs", "inputs", "inputs_digest"),
        )
        if k in fields
    }
    return Launch(
        key=JobKey(own.pop("project", "default"), own.pop("target", "default"), name),
        app=AppDef(name=name, roles=[role]),
        lifecycle=Lifecycle(**fields),
        **{"scheduler": "local_cwd", "root": "/src", "file": f"jobs/{name}.launcher.yaml", "origin": ORIGIN,
            **own},
    )  # fmt: skip


def attempt(launch: Launch, state: str, number: int = 1, **fields: Any) -> Attempt:
    """Attempt `number` of the document of `launch`."""
    document = canonical.document(launch)
    made = Attempt(
        key=launch.key, number=number, app_id=attempt_id(launch.key, number), scheduler=launch.scheduler,
        digest=canonical.digest(document), document=document, origin=launch.origin, path=launch.file,
        actor="ann@node1", trigger_digest=launch.trigger_digest, inputs=launch.inputs_digest, state=state,
    )  # fmt: skip
    return replace(made, **fields)


def world(*attempts: Attempt, counts: Mapping[tuple[JobKey, str], int] | None = None) -> Snapshot:
    """Return a snapshot in which engines and ledger agree on these attempts."""
    return merge(ledger=attempts, engines=attempts, fingerprints=ENGINES, counts=counts)


def plan(
    desired: Launch | list[Launch],
    *attempts: Attempt,
    others: Sequence[Launch] = (),
    room: Room | None = None,
    edited: Mapping[JobKey, tuple[str, ...]] = NOTHING,
    **choices: Any,
) -> Plan:
    launches, seen = desired if isinstance(desired, list) else [desired], world(*attempts)
    return reconcile(launches, seen, Choices(**choices), others=others, room=room, edited=edited)


def lines(plan: Plan) -> list[str]:
    """Return the plan as printed, without the digest."""
    return [line for line in str(plan).splitlines() if not line.startswith("Digest: ")]
