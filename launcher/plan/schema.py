"""The shape of a saved plan, launcher.plan/v3, and of a list of effects.

Plans of v1 and v2 have this shape, too: later versions added optional fields. In v3 `effects` is required.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, Final, get_args

from launcher.plan.diff import Op
from launcher.plan.shapes import (
    Anything,
    Choice,
    Either,
    Flag,
    Items,
    Number,
    Object,
    Shape,
    Table,
    Text,
    Whole,
)
from launcher.plan.step import MARKS, REASONS, UNITS, Blocked, GuardState
from launcher.specs.app import (
    ALWAYS,
    CONDITIONS,
    DOCUMENT_FIELDS,
    JSON,
    MOUNTS,
    OPTIONS,
    PROBE,
    VARIABLES,
    RoleField,
)
from launcher.specs.notify import OUTCOMES
from launcher.specs.probe import Condition

VERSION: Final = "launcher.plan/v3"
READ: Final = ("launcher.plan/v1", "launcher.plan/v2", VERSION)
EFFECTS_VERSION: Final = "launcher.effects/v1"
"""The versions that can be applied."""
MOMENT: Final = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"

_DIGEST = Text(
    "Digest of the document; the prefix names its normal form.", pattern=r"lr\d+:sha256:[0-9a-f]{64}"
)

_GUARD = Object(
    {
        "attempt": Whole("Number of the attempt; 0 for none.", least=0),
        "state": Text(
            "Its state. `submitting`: a client was submitting it; `unfinished`: its client had died; "
            "`waiting`: for attempts that it needs; `queued`: in line for its share of the machine.",
            choices=get_args(GuardState),
        ),
    },
    {
        "app_id": Text(),
        "scheduler": Text(),
        "digest": Text("Digest of the document that it ran."),
        "edition": Whole("Its edition, where that is not its own number.", least=0),
    },
    "An attempt as the plan saw it.",
)

_STOOD_ON = Object(
    {
        "job": Text("The job that is needed."),
        "attempt": Whole("Number of its attempt.", least=1),
        "edition": Whole("Edition of that attempt.", least=1),
        "app_id": Text(),
        "scheduler": Text(),
    },
    {},
    "An attempt that the new one stands on.",
)

_REASON = Object(
    {"code": Text("; ".join(f"{code}: {text}" for code, text in REASONS.items()), choices=tuple(REASONS))},
    {
        "path": Text("The field that decides."),
        "old": Anything("Its value in the latest attempt."),
        "new": Anything("Its value now."),
        "detail": Text("What is known beyond the code."),
    },
)

_CHANGE = Object(
    {
        "op": Text("+ is new, - is gone, ~ has another value.", choices=get_args(Op)),
        "path": Text("Such as `roles.trainer.args[3]`, `roles.trainer.mounts[/data]`."),
    },
    {"old": Anything("Absent for +."), "new": Anything("Absent for -.")},
)

_RESOURCE = Object(
    {},
    {
        "cpu_millis": Whole("Thousandths of a core."),
        "gpu": Whole(),
        "memory_bytes": Whole(),
        "capabilities": Table(Anything()),
        "devices": Table(Whole()),
        "tags": Table(Anything()),
    },
)

_MOUNT = Object(
    {"type": Text(choices=("bind", "volume", "device")), "src": Text(), "dst": Text()},
    {"read_only": Flag(), "permissions": Text("For devices: of r, w and m.")},
)

_PROBE = Object(
    {},
    {
        "port": Whole("Something listens there.", least=1),
        "http": Text("Path that answers with 2xx or 3xx on the port."),
        "file": Text("Made or written since the replica was started."),
        "command": Items(Text(), "Ends with 0."),
        "every": Anything("Seconds between two probes."),
        "timeout": Anything("Seconds from the start of the replica to its failure."),
    },
)

_SECRET = Object(
    {
        "secret": Text(
            "Where the value is found while submitting.", pattern=r"env:[A-Za-z_][A-Za-z0-9_]*|file:.+"
        )
    },
    {},
)

_KINDS: Final[Mapping[str, Shape]] = {
    "str": Text(),
    "bool": Flag(),
    "list[str]": Items(Text()),
    "dict[str, int]": Table(Whole()),
    VARIABLES: Table(Either(Text(), _SECRET)),
    JSON: Table(Anything()),
    OPTIONS: Table(Anything("An option of the scheduler, for this role.")),
    MOUNTS: Items(_MOUNT),
    "Resource": _RESOURCE,
    CONDITIONS: Table(Text(choices=get_args(Condition))),
    PROBE: _PROBE,
}


def _shape(field: RoleField) -> Shape:
    if isinstance(field.default, Enum):
        return Text(choices=tuple(str(choice) for choice in type(field.default)))
    return Whole(least=field.least or None) if field.kind == "int" else _KINDS[field.kind]


_ROLE = Object(
    {each.name: _shape(each) for each in DOCUMENT_FIELDS if each.name in ALWAYS},
    {each.name: _shape(each) for each in DOCUMENT_FIELDS if each.name not in ALWAYS},
)

_PROJECT = Object(
    {
        "target": Text("The folder of the workspace that it goes into; `.` for the root."),
        "digest": Text("Hash of what it holds."),
    },
    {},
    "A folder or a file.",
)

_DOCUMENT = Object(
    {"scheduler": Text(), "roles": Items(_ROLE)},
    {
        "cfg": Table(Anything("An option of the scheduler.")),
        "timeout_s": Whole(least=1),
        "workspace": Choice(
            Object(
                {
                    "path": Text("The folder, relative to the job file's."),
                    "digest": Text("Hash of what it holds."),
                },
                {},
            ),
            Object({"projects": Table(_PROJECT, "What is put together, by path.")}, {}),
            "projects",
            "The files that travel with the job: one folder, or several projects.",
        ),
        "output": Flag("Whether it asks for an output folder."),
    },
    "What the job means, in normal form: without defaults, nulls and empty containers.",
)

_LIFECYCLE = Object(
    {},
    {
        "on_change": Text(choices=("replace", "hold")),
        "on_failed": Text(choices=("hold", "rerun")),
        "on_cancelled": Text(choices=("hold", "rerun")),
        "on_lost": Text(choices=("hold", "rerun")),
        "max_attempts": Whole(least=1),
        "protect": Flag(),
        "on_edit": Text(choices=("note", "rerun")),
        "queue": Flag("`false`: it does not wait in line for its share of the machine."),
        "rerun_on": Items(
            Either(Text(choices=("every_apply",)), Object({"files": Items(Text("A glob."))}, {})),
            "What runs finished work again.",
        ),
    },
    "The policies of the job; what it does not say is absent.",
)

_DESTINATION = Object(
    {},
    {
        "url": Text("An http or https URL, or the reference of a secret that is one."),
        "command": Items(Text(), "A program and its arguments."),
        "secret": Text("The reference of the key that signs what the URL gets."),
        "on": Items(Text(choices=OUTCOMES), "The outcomes that it gets; all where it is absent."),
    },
)

_LAUNCH = Object(
    {
        "app": Text("Name of the AppDef."),
        "document": _DOCUMENT,
        "digest": _DIGEST,
        "enabled": Flag(),
        "origin": Text("Git remote of the job file (host and path), else the folder that it belongs to."),
        "path": Text("The job file, below the root of that repository."),
    },
    {
        "metadata": Table(Anything()),
        "description": Text(),
        "lifecycle": _LIFECYCLE,
        "needs": Table(
            Object({}, {"rerun": Text("`never`: its changes do not run the job again.", choices=("never",))}),
            "The jobs that have to succeed first.",
        ),
        "unresolved": Table(Text(), "Names among `needs` whose jobs are not known: each with the reason."),
        "matrix": Text("Name of the matrix that it is a job of."),
        "max_parallel": Whole("How many jobs of that matrix run at once.", least=1),
        "caps": Object(
            {},
            {
                "cpu": Anything("Cores."),
                "memory_mb": Whole("MiB.", least=1),
                "gpus": Whole(least=0),
                "max_parallel": Whole(least=1),
            },
            "How much of a machine the jobs of the project take together.",
        ),
        "budget": Object(
            {},
            {"gpu_hours": Number(), "core_hours": Number()},
            "What the jobs that one plan starts for the project and target may take together.",
        ),
        "notify": Items(_DESTINATION, "The receivers of the outcomes of its attempts."),
        "review_digest": Text(
            "Digest of the document with the values of `$<git.…>` left symbolic, where that is another one.",
            pattern=r"lr\d+:sha256:[0-9a-f]{64}",
        ),
        "trigger_digest": Text("What the files that `rerun_on` names held, one hash per glob."),
        "inputs": Items(Text(), "The globs of its input files."),
        "inputs_digest": Text("Hash of these globs and of the files that they match."),
    },
    "The job; absent where no file declares it any more.",
)

_KEY = Object({"project": Text(), "target": Text(), "job": Text()}, {}, "Which job it is.")

_RANGE = Object(
    {"median": Number(), "low": Number(), "high": Number()},
    {},
    "A median, and the bounds within which about four of five attempts end.",
)

_ESTIMATE = Object(
    {
        "attempts": Whole("How many of the last successes it goes by.", least=2),
        "same_document": Flag("They ran the document that is started; else other ones."),
        "duration_s": _RANGE,
    },
    {"core_hours": _RANGE, "gpu_hours": _RANGE},
    "How long the attempt runs and what it takes. No digest covers it.",
)

_TOTAL = Object(
    {
        "jobs": Whole("How many of the jobs that start have an estimate.", least=0),
        "unknown": Whole("How many have none.", least=0),
    },
    {"core_hours": _RANGE, "gpu_hours": _RANGE},
    "What the jobs that start take together, as far as that is known.",
)

_OVERRUN = Object(
    {
        "project": Text(),
        "target": Text(),
        "unit": Text(choices=tuple(UNITS)),
        "hours": Number("The estimate: a sum of medians."),
        "budget": Number(),
    },
    {},
    "A budget that the plan exceeds. It is not applied.",
)

_JOB = Object(
    {
        "key": _KEY,
        "action": Text("What happens to the job.", choices=tuple(MARKS)),
        "reasons": Items(_REASON, "The deciding one first."),
        "guard": _GUARD,
    },
    {
        "changes": Items(_CHANGE, "From the document of the latest attempt to the present one."),
        "launch": _LAUNCH,
        "attempt": Whole("Number of the attempt to make or to resume.", least=1),
        "app_id": Text("Its app id."),
        "edition": Whole("Its edition: the number of the attempt that last changed something.", least=1),
        "needs": Items(_STOOD_ON, "The attempts that it stands on, by job."),
        "after": Items(Text(), "Those of these jobs that have not succeeded yet: it waits for them."),
        "withdraws": Items(_GUARD, "Waiting attempts that are withdrawn first. Nothing of them has run."),
        "stops": Items(_GUARD, "Live attempts that have to be stopped."),
        "leftovers": Items(_GUARD, "Unfinished submissions that have to be removed."),
        "consented": Flag("The job itself says `on_change: replace`."),
        "blocked": Text("Which policy or lack holds what would have effects.", choices=get_args(Blocked)),
        "waits_for": Text("Who was submitting the job when the plan was made."),
        "edited": Items(Text(), "Files of the checkout, below its root, that differ from what ran."),
        "notes": Items(Text()),
        "estimate": _ESTIMATE,
        "place": Whole("Its place in the order of turns, where that is not the order of jobs.", least=1),
    },
)

_START = Object(
    {
        "key": _KEY,
        "review_digest": Text("Review digest of its document.", pattern=r"lr\d+:sha256:[0-9a-f]{64}"),
        "origin": Text("Where the job file lives."),
        "path": Text("The job file."),
        "after": Whole("Number of the job's latest attempt when the plan was made; 0 for none.", least=0),
    },
    {
        "workspace": Text("Digest of the files that travel with it."),
        "trigger": Text("Digest of the files of `rerun_on`."),
        "inputs": Text("Digest of the files of `inputs`."),
        "needs": Items(Text(), "The jobs that it needs, sorted."),
        "notify": Items(Text(), "The receivers of its outcomes."),
    },
)

_STOP = Object({"key": _KEY, "app_id": Text("The live attempt.")}, {})

EFFECTS: Final = Items(
    Object(
        {"effect": Text("Its digest.", pattern=r"le1:[0-9a-f]{20}")},
        {"start": _START, "stop": _STOP},
        "The start of a job, or the stop of an attempt.",
    ),
    "All that it starts and stops: what an approval holds.",
)

APPROVED: Final = Object(
    {
        "version": Text(choices=(EFFECTS_VERSION,)),
        "plan_id": Text("Of the plan; attempts that start under it remember it.", pattern=".+"),
        "effects": EFFECTS,
    },
    {"pull_request": Text("Number of the pull request that shows the plan.", pattern=r"[1-9]\d{0,17}")},
    "The effects of one plan, for `launcher apply --approved`.",
)

_ORPHAN = Object(
    {"key": _KEY, "path": Text(), "guard": _GUARD}, {}, "A live attempt that the plan leaves alone."
)

_PROBLEM = Object(
    {"key": _KEY, "code": Text(choices=tuple(REASONS)), "message": Text(), "hint": Text()},
    {},
    "Why a job cannot be planned.",
)

_SELECTION = Object(
    {},
    {
        "select": Items(Text()),
        "rerun": Items(Text()),
        "retry_failed": Flag(),
        "prune": Flag(),
        "take_over": Flag(),
    },
    "The flags that the plan was made with.",
)

PLAN: Final = Object(
    {
        "version": Text(choices=READ),
        "plan_id": Text("Attempts that this plan makes remember it.", pattern=".+"),
        "plan_digest": Text(
            "Of what the plan would start, followed by the live attempts that it would stop.",
            pattern=r"lp\d+:sha256:[0-9a-f]{64}(\+[^+]+)*",
        ),
        "created_at": Text(pattern=MOMENT),
        "expires_at": Text("The plan is refused after this time.", pattern=MOMENT),
        "has_changes": Flag("Whether anything would be started or stopped."),
        "counts": Object({kind: Whole(least=0) for kind in MARKS}, {}, "Jobs per action."),
        "selection": _SELECTION,
        "engines": Table(Text(), "Scheduler to identity of the engine; the plan is refused on any other."),
        "commits": Table(Text(), "Origin to git commit of its job files, with -dirty when the tree was."),
        "jobs": Items(_JOB),
    },
    {
        "effects": EFFECTS,
        "estimate": _TOTAL,
        "over_budget": Items(_OVERRUN),
        "orphans": Items(_ORPHAN),
        "problems": Items(_PROBLEM),
        "turns": Items(Text(), "Where jobs that it starts have to take turns on this machine."),
        "shared": Items(Text(), "Which lines of launcher.toml and of parents change several of its jobs."),
        "seal": Text(
            "Checksum of all bytes of the file before this field, which is the last one; an apply needs it.",
            pattern=r"sha256:[0-9a-f]{64}",
        ),
    },
    "What an apply would do, complete: `launcher apply` needs nothing else.",
)


def plan_schema() -> dict[str, Any]:
    """The JSON Schema of a saved plan."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:launcher:plan-v3",
        "title": "A saved plan of launcher",
        **PLAN.schema(),
    }
