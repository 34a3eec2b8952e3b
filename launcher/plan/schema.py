"""The JSON Schemas of a saved plan, launcher.plan/v3, and of a list of effects.

Plans of v1 and v2 have this shape, too: later versions added optional fields. In v3 `effects` is required.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, Final, get_args

from launcher.plan.diff import Op
from launcher.plan.shapes import Schema, anything, either, flag, items, number, record, table, text, whole
from launcher.plan.step import MARKS, REASONS, UNITS, Blocked, GuardState
from launcher.specs.app import (
    ALWAYS,
    DEPENDENCIES,
    DOCUMENT_FIELDS,
    JSON,
    MOUNTS,
    OPTIONS,
    PROBE,
    VARIABLES,
    Condition,
    RoleField,
)
from launcher.specs.notify import OUTCOMES

VERSION: Final = "launcher.plan/v3"
READ: Final = ("launcher.plan/v1", "launcher.plan/v2", VERSION)
EFFECTS_VERSION: Final = "launcher.effects/v1"
"""The versions of a list of effects that can be applied."""
MOMENT: Final = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"

_DIGEST = text(
    "Digest of the document; the prefix names its normal form.", pattern=r"lr\d+:sha256:[0-9a-f]{64}"
)

_GUARD = record(
    {
        "attempt": whole("Number of the attempt; 0 for none.", least=0),
        "state": text(
            "Its state. `submitting`: a client was submitting it; `unfinished`: its client had died; "
            "`waiting`: for attempts that it needs; `queued`: in line for its share of the machine.",
            choices=get_args(GuardState),
        ),
    },
    {
        "app_id": text(),
        "scheduler": text(),
        "digest": text("Digest of the document that it ran."),
        "edition": whole("Its edition, where that is not its own number.", least=0),
    },
    "An attempt as the plan saw it.",
)

_STOOD_ON = record(
    {
        "job": text("The job that is needed."),
        "attempt": whole("Number of its attempt.", least=1),
        "edition": whole("Edition of that attempt.", least=1),
        "app_id": text(),
        "scheduler": text(),
    },
    {},
    "An attempt that the new one stands on.",
)

_REASON = record(
    {"code": text("; ".join(f"{code}: {words}" for code, words in REASONS.items()), choices=tuple(REASONS))},
    {
        "path": text("The field that decides."),
        "old": anything("Its value in the latest attempt."),
        "new": anything("Its value now."),
        "detail": text("What is known beyond the code."),
    },
)

_CHANGE = record(
    {
        "op": text("+ is new, - is gone, ~ has another value.", choices=get_args(Op)),
        "path": text("Such as `roles.trainer.args[3]`, `roles.trainer.mounts[/data]`."),
    },
    {"old": anything("Absent for +."), "new": anything("Absent for -.")},
)

_RESOURCE = record(
    {},
    {
        "cpu_millis": whole("Thousandths of a core."),
        "gpu": whole(),
        "memory_bytes": whole(),
        "capabilities": table(anything()),
        "devices": table(whole()),
        "tags": table(anything()),
    },
)

_MOUNT = record(
    {"type": text(choices=("bind", "volume", "device")), "src": text(), "dst": text()},
    {"read_only": flag(), "permissions": text("For devices: of r, w and m.")},
)

_PROBE = record(
    {},
    {
        "port": whole("Something listens there.", least=1),
        "http": text("Path that answers with 2xx or 3xx on the port."),
        "file": text("Made or written since the replica was started."),
        "command": items(text(), "Ends with 0."),
        "every": anything("Seconds between two probes."),
        "timeout": anything("Seconds from the start of the replica to its failure."),
    },
)

_SECRET = record(
    {
        "secret": text(
            "Where the value is found while submitting.", pattern=r"env:[A-Za-z_][A-Za-z0-9_]*|file:.+"
        )
    },
    {},
)

_KINDS: Final[Mapping[str, Schema]] = {
    "str": text(),
    "bool": flag(),
    "list[str]": items(text()),
    "dict[str, int]": table(whole()),
    VARIABLES: table(either(text(), _SECRET)),
    JSON: table(anything()),
    OPTIONS: table(anything("An option of the scheduler, for this role.")),
    MOUNTS: items(_MOUNT),
    "Resource": _RESOURCE,
    DEPENDENCIES: table(text(choices=get_args(Condition))),
    PROBE: _PROBE,
}


def _shape(field: RoleField) -> Schema:
    if isinstance(field.default, Enum):
        return text(choices=tuple(str(choice) for choice in type(field.default)))
    return whole(least=field.least or None) if field.kind == "int" else _KINDS[field.kind]


_ROLE = record(
    {each.name: _shape(each) for each in DOCUMENT_FIELDS if each.name in ALWAYS},
    {each.name: _shape(each) for each in DOCUMENT_FIELDS if each.name not in ALWAYS},
)

_PROJECT = record(
    {
        "target": text("The folder of the workspace that it goes into; `.` for the root."),
        "digest": text("Hash of what it holds."),
    },
    {},
    "A folder or a file.",
)

_DOCUMENT = record(
    {"scheduler": text(), "roles": items(_ROLE)},
    {
        "cfg": table(anything("An option of the scheduler.")),
        "timeout_s": whole(least=1),
        "workspace": either(
            record(
                {
                    "path": text("The folder, relative to the job file's."),
                    "digest": text("Hash of what it holds."),
                },
                {},
            ),
            record({"projects": table(_PROJECT, "What is put together, by path.")}, {}),
            "The files that travel with the job: one folder, or several projects.",
        ),
        "output": flag("Whether it asks for an output folder."),
    },
    "What the job means, in normal form: without defaults, nulls and empty containers.",
)

_LIFECYCLE = record(
    {},
    {
        "on_change": text(choices=("replace", "hold")),
        "on_failed": text(choices=("hold", "rerun")),
        "on_cancelled": text(choices=("hold", "rerun")),
        "on_lost": text(choices=("hold", "rerun")),
        "max_attempts": whole(least=1),
        "protect": flag(),
        "on_edit": text(choices=("note", "rerun")),
        "queue": flag("`false`: it does not wait in line for its share of the machine."),
        "rerun_on": items(
            either(text(choices=("every_apply",)), record({"files": items(text("A glob."))}, {})),
            "What runs finished work again.",
        ),
    },
    "The policies of the job; what it does not say is absent.",
)

_DESTINATION = record(
    {},
    {
        "url": text("An http or https URL, or the reference of a secret that is one."),
        "command": items(text(), "A program and its arguments."),
        "secret": text("The reference of the key that signs what the URL gets."),
        "on": items(text(choices=OUTCOMES), "The outcomes that it gets; all where it is absent."),
    },
)

_LAUNCH = record(
    {
        "app": text("Name of the AppDef."),
        "document": _DOCUMENT,
        "digest": _DIGEST,
        "enabled": flag(),
        "origin": text("Git remote of the job file (host and path), else the folder that it belongs to."),
        "path": text("The job file, below the root of that repository."),
    },
    {
        "metadata": table(anything()),
        "description": text(),
        "lifecycle": _LIFECYCLE,
        "needs": table(
            record({}, {"rerun": text("`never`: its changes do not run the job again.", choices=("never",))}),
            "The jobs that have to succeed first.",
        ),
        "unresolved": table(text(), "Names among `needs` whose jobs are not known: each with the reason."),
        "matrix": text("Name of the matrix that it is a job of."),
        "max_parallel": whole("How many jobs of that matrix run at once.", least=1),
        "caps": record(
            {},
            {
                "cpu": anything("Cores."),
                "memory_mb": whole("MiB.", least=1),
                "gpus": whole(least=0),
                "max_parallel": whole(least=1),
            },
            "How much of a machine the jobs of the project take together.",
        ),
        "budget": record(
            {},
            {"gpu_hours": number(), "core_hours": number()},
            "What the jobs that one plan starts for the project and target may take together.",
        ),
        "notify": items(_DESTINATION, "The receivers of the outcomes of its attempts."),
        "review_digest": text(
            "Digest of the document with the values of `$<git.…>` left symbolic, where that is another one.",
            pattern=r"lr\d+:sha256:[0-9a-f]{64}",
        ),
        "trigger_digest": text("What the files that `rerun_on` names held, one hash per glob."),
        "inputs": items(text(), "The globs of its input files."),
        "inputs_digest": text("Hash of these globs and of the files that they match."),
    },
    "The job; absent where no file declares it any more.",
)

_KEY = record({"project": text(), "target": text(), "job": text()}, {}, "Which job it is.")

_RANGE = record(
    {"median": number(), "low": number(), "high": number()},
    {},
    "A median, and the bounds within which about four of five attempts end.",
)

_ESTIMATE = record(
    {
        "attempts": whole("How many of the last successes it goes by.", least=2),
        "same_document": flag("They ran the document that is started; else other ones."),
        "duration_s": _RANGE,
    },
    {"core_hours": _RANGE, "gpu_hours": _RANGE},
    "How long the attempt runs and what it takes. No digest covers it.",
)

_TOTAL = record(
    {
        "jobs": whole("How many of the jobs that start have an estimate.", least=0),
        "unknown": whole("How many have none.", least=0),
    },
    {"core_hours": _RANGE, "gpu_hours": _RANGE},
    "What the jobs that start take together, as far as that is known.",
)

_OVERRUN = record(
    {
        "project": text(),
        "target": text(),
        "unit": text(choices=tuple(UNITS)),
        "hours": number("The estimate: a sum of medians."),
        "budget": number(),
    },
    {},
    "A budget that the plan exceeds. It is not applied.",
)

_JOB = record(
    {
        "key": _KEY,
        "action": text("What happens to the job.", choices=tuple(MARKS)),
        "reasons": items(_REASON, "The deciding one first."),
        "guard": _GUARD,
    },
    {
        "changes": items(_CHANGE, "From the document of the latest attempt to the present one."),
        "launch": _LAUNCH,
        "attempt": whole("Number of the attempt to make or to resume.", least=1),
        "app_id": text("Its app id."),
        "edition": whole("Its edition: the number of the attempt that last changed something.", least=1),
        "needs": items(_STOOD_ON, "The attempts that it stands on, by job."),
        "after": items(text(), "Those of these jobs that have not succeeded yet: it waits for them."),
        "withdraws": items(_GUARD, "Waiting attempts that are withdrawn first. Nothing of them has run."),
        "stops": items(_GUARD, "Live attempts that have to be stopped."),
        "leftovers": items(_GUARD, "Unfinished submissions that have to be removed."),
        "consented": flag("The job itself says `on_change: replace`."),
        "blocked": text("Which policy or lack holds what would have effects.", choices=get_args(Blocked)),
        "waits_for": text("Who was submitting the job when the plan was made."),
        "edited": items(text(), "Files of the checkout, below its root, that differ from what ran."),
        "notes": items(text()),
        "estimate": _ESTIMATE,
        "place": whole("Its place in the order of turns, where that is not the order of jobs.", least=1),
    },
)

_START = record(
    {
        "key": _KEY,
        "review_digest": text("Review digest of its document.", pattern=r"lr\d+:sha256:[0-9a-f]{64}"),
        "origin": text("Where the job file lives."),
        "path": text("The job file."),
        "after": whole("Number of the job's latest attempt when the plan was made; 0 for none.", least=0),
    },
    {
        "workspace": text("Digest of the files that travel with it."),
        "trigger": text("Digest of the files of `rerun_on`."),
        "inputs": text("Digest of the files of `inputs`."),
        "needs": items(text(), "The jobs that it needs, sorted."),
        "notify": items(text(), "The receivers of its outcomes."),
    },
)

_STOP = record({"key": _KEY, "app_id": text("The live attempt.")}, {})

EFFECTS: Final = items(
    record(
        {"effect": text("Its digest.", pattern=r"le1:[0-9a-f]{20}")},
        {"start": _START, "stop": _STOP},
        "The start of a job, or the stop of an attempt.",
    ),
    "All that it starts and stops: what an approval holds.",
)

APPROVED: Final = record(
    {
        "version": text(choices=(EFFECTS_VERSION,)),
        "plan_id": text("Of the plan; attempts that start under it remember it.", pattern=".+"),
        "effects": EFFECTS,
    },
    {"pull_request": text("Number of the pull request that shows the plan.", pattern=r"[1-9]\d{0,17}")},
    "The effects of one plan, for `launcher apply --approved`.",
)

_ORPHAN = record(
    {"key": _KEY, "path": text(), "guard": _GUARD}, {}, "A live attempt that the plan leaves alone."
)

_PROBLEM = record(
    {"key": _KEY, "code": text(choices=tuple(REASONS)), "message": text(), "hint": text()},
    {},
    "Why a job cannot be planned.",
)

_SELECTION = record(
    {},
    {
        "select": items(text()),
        "rerun": items(text()),
        "retry_failed": flag(),
        "prune": flag(),
        "take_over": flag(),
    },
    "The flags that the plan was made with.",
)

PLAN: Final = record(
    {
        "version": text(choices=READ),
        "plan_id": text("Attempts that this plan makes remember it.", pattern=".+"),
        "plan_digest": text(
            "Of what the plan would start, followed by the live attempts that it would stop.",
            pattern=r"lp\d+:sha256:[0-9a-f]{64}(\+[^+]+)*",
        ),
        "created_at": text(pattern=MOMENT),
        "expires_at": text("The plan is refused after this time.", pattern=MOMENT),
        "has_changes": flag("Whether anything would be started or stopped."),
        "counts": record({kind: whole(least=0) for kind in MARKS}, {}, "Jobs per action."),
        "selection": _SELECTION,
        "engines": table(text(), "Scheduler to identity of the engine; the plan is refused on any other."),
        "commits": table(text(), "Origin to git commit of its job files, with -dirty when the tree was."),
        "jobs": items(_JOB),
    },
    {
        "images": table(
            table(text()),
            "Scheduler to the ids of images by name; the plan is refused where a name means another one.",
        ),
        "effects": EFFECTS,
        "estimate": _TOTAL,
        "over_budget": items(_OVERRUN),
        "orphans": items(_ORPHAN),
        "problems": items(_PROBLEM),
        "turns": items(text(), "Where jobs that it starts have to take turns on this machine."),
        "shared": items(text(), "Which lines of launcher.toml and of parents change several of its jobs."),
        "seal": text(
            "Checksum of all bytes of the file before this field, which is the last one; an apply needs it.",
            pattern=r"sha256:[0-9a-f]{64}",
        ),
    },
    "What an apply would do, complete: `launcher apply` needs nothing else.",
)


def plan_schema() -> dict[str, Any]:
    """Return the JSON Schema of a saved plan."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:launcher:plan-v3",
        "title": "A saved plan of launcher",
        **PLAN,
    }
