"""An attempt: one submission of a job, as engines and the ledger record it."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from launcher.dataclass import dataclass, field, fields
from launcher.holding import use
from launcher.holding.use import Use
from launcher.specs.jobkey import JobKey

if TYPE_CHECKING:
    from launcher.specs.launch import Launch

AttemptState = Literal[
    "reserved", "created", "waiting", "queued", "running", "succeeded", "failed", "cancelled", "skipped",
    "lost",
]  # fmt: skip

PENDING_STATES: frozenset[str] = frozenset({"reserved", "created"})
WAITING_STATES: frozenset[str] = frozenset({"waiting", "queued"})
UNSTARTED_STATES: frozenset[str] = PENDING_STATES | WAITING_STATES
LIVE_STATES: frozenset[str] = UNSTARTED_STATES | {"running"}
ENDED_STATES: frozenset[str] = frozenset({"succeeded", "failed", "cancelled", "skipped", "lost"})
"""`waiting`: accepted, and its holder waits for attempts of other jobs; nothing of it has run. `queued`: the
same, and its holder waits in line for its share of the machine. `skipped`: its holder has given it up, since
a need has not succeeded, or it was withdrawn; nothing of it has run."""

HOLDER = "its holder"
"""The owner of an accepted attempt, as the ledger records it."""

_OF_FILES = ("inputs", "inputs_changed", "output_digest")
_APPROVED = ("pull_request", "approval", "effect", "run_url")


class StoodOn(NamedTuple):
    """The attempt of a need that an attempt uses: bound when the attempt is reserved, never bound again.

    `edition` is the number of the last attempt of the need that changed something.
    """

    job: str
    number: int
    edition: int
    app_id: str
    scheduler: str

    def about(self) -> dict[str, Any]:
        """A JSON object, as plans and descriptions of attempts show it."""
        number = {"attempt": self.number, "edition": self.edition}
        return {"job": self.job, **number, "app_id": self.app_id, "scheduler": self.scheduler}


def needs_to_json(needs: Iterable[StoodOn]) -> list[list[Any]]:
    """Return `[[job, number, edition, app id, scheduler], …]`, sorted by job."""
    return [list(each) for each in sorted(needs)]


def needs_from_json(data: Sequence[Sequence[Any]]) -> tuple[StoodOn, ...]:
    """The inverse of `needs_to_json`. Raises TypeError or ValueError for anything else."""
    return tuple(
        StoodOn(str(job), int(number), int(edition), str(app_id), str(scheduler))
        for job, number, edition, app_id, scheduler in data
    )


def needs_to_text(needs: Iterable[StoodOn]) -> str:
    """Return the text of needs for labels and the ledger; "" without needs."""
    listed = needs_to_json(needs)
    return json.dumps(listed, separators=(",", ":")) if listed else ""


def needs_from_text(text: str) -> tuple[StoodOn, ...]:
    """The inverse of `needs_to_text`. Raises TypeError or ValueError for anything else."""
    return needs_from_json(json.loads(text)) if text else ()


class LateDocument(Mapping[str, Any]):
    """A document that is made, or read, at its first use: plans compare most jobs by digest alone."""

    __slots__ = ("_document", "_make")

    def __init__(self, make: Callable[[], dict[str, Any]]) -> None:
        self._make = make
        self._document: dict[str, Any] | None = None

    def _whole(self) -> dict[str, Any]:
        if self._document is None:
            self._document = self._make()
        return self._document

    def __getitem__(self, key: str) -> Any:
        return self._whole()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._whole())

    def __len__(self) -> int:
        return len(self._whole())

    def __repr__(self) -> str:
        return repr(self._whole())


def late_document(launch: Launch) -> LateDocument:
    """Return the document of a launch, which is made at its first use."""

    def make() -> dict[str, Any]:
        from launcher.specs import canonical

        return canonical.document(launch)

    return LateDocument(make)


_UNRECORDED = ("unreadable", "warnings")


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """The record of one attempt. An engine stores it with live objects, the ledger stores it permanently.

    Fields up to `created_at` are fixed when the attempt is reserved; the rest is what was observed. An older
    version has not recorded `reason`, `effect`, `review`, `matrix`, `home` and `output_digest`: they are "".

    Attributes:
        number: 1, 2, … per job key.
        document, digest: the normal form and its digest (`launcher.specs.canonical`).
        metadata: the AppDef's metadata, which is outside the digest.
        origin, path: where the job file lives: git remote or absolute root, and its path below that root.
        commit: git commit of the job file, with `-dirty` when the tree was; "" where there is no git.
        actor: user@host that applied it.
        action, reason: of the plan that made it: create, replace, rerun; why, in one line.
        plan_digest: of that plan, which can resume it after a kill; plan_id: its unique id if it was saved.
        trigger_digest: content hash of the files that `rerun_on` names, as they were; "" without any.
        edition: the number of the attempt that was the last to change something: its own, or that of the
            attempt that it repeats. 0 in the constructor stands for its own.
        needs: the attempts of other jobs that it uses, sorted by job.
        order_only: the jobs among `needs` with `rerun: never`.
        effect: digest of its start (`launcher.plan.effects`); review: review digest of its document.
        receivers: the receivers of its outcome that the project names, as JSON, one a line.
        approval: id of the approved plan that started it, or started the attempt that it repeats.
        pull_request: number of the pull request that showed that plan; "" without one.
        run_url: address of the CI run that applied it; "" outside of CI.
        matrix: the name that means all jobs of its matrix; "" for a job of its own.
        home: token of the state folder that made it (`launcher.paths`).
        inputs: digest of the files that `inputs` names, as the plan saw them; "" without any.
        seen: path below the root → digest of each file of the checkout that its roles name or import.
        output: address of its output folder, once that was made: a path, or the name of a volume.
        created_at, started_at, ended_at: seconds since the epoch.
        owner: the client that is submitting a reserved or created attempt ("pid 17 on host"), or the process
            that holds a waiting one; "" for none.
        message: the reason of the outcome, in a short sentence.
        exit_code: of the replica that decided a failure; None when unknown.
        inputs_changed: the files among `inputs` that changed while it waited or ran, and those of a workspace
            in which it ran that changed while it waited, as text; "" for none.
        output_digest: digest of the files in its output folder after a success, or why there is none
            (`launcher.schedulers.contents`); "" for no file.
        images: role → id of the image that its containers were made of, once they ran; {} without images.
        used: role → the use of its runs; "" → the use of processes that outlived their replica. {}
            where that is unknown.
        unstarted: replicas not started yet, although others of the attempt were; never recorded.
        drift: a change of its objects by other programs, such as "main/1 was removed by hand"; not recorded.
        elsewhere: address of its engine, if that is not the one that was asked; never recorded. The other
            fields are then the last known ones.
        unreadable: why the engine's record of it cannot be read; never recorded. As `elsewhere`.
        warnings: problems that did not end it, such as output lost to a full disk; never recorded.
    """

    key: JobKey
    number: int
    app_id: str
    scheduler: str
    digest: str
    document: Mapping[str, Any]
    metadata: Mapping[str, Any] = field(default_factory=dict)
    origin: str = ""
    path: str = ""
    commit: str = ""
    actor: str = ""
    action: str = "create"
    reason: str = ""
    plan_digest: str = ""
    plan_id: str = ""
    trigger_digest: str = ""
    edition: int = 0
    needs: tuple[StoodOn, ...] = ()
    order_only: tuple[str, ...] = ()
    effect: str = ""
    review: str = ""
    receivers: str = ""
    approval: str = ""
    pull_request: str = ""
    run_url: str = ""
    matrix: str = ""
    home: str = ""
    inputs: str = ""
    seen: Mapping[str, str] = field(default_factory=dict)
    output: str = ""
    created_at: float = 0.0

    state: AttemptState = "reserved"
    started_at: float | None = None
    ended_at: float | None = None
    owner: str = ""
    message: str = ""
    exit_code: int | None = None
    inputs_changed: str = ""
    output_digest: str = ""
    images: Mapping[str, str] = field(default_factory=dict)
    used: Mapping[str, Use] = field(default_factory=dict)
    unstarted: int = 0
    drift: str = ""
    elsewhere: str = ""
    unreadable: str = ""
    warnings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.edition:
            object.__setattr__(self, "edition", self.number)

    @property
    def session(self) -> str:
        """The session in its handle."""
        return self.key.session

    @property
    def handle(self) -> str:
        """`SCHEDULER://SESSION/APP_ID`, as `parse_app_handle` takes it apart."""
        return f"{self.scheduler}://{self.session}/{self.app_id}"

    @property
    def is_live(self) -> bool:
        """Whether it has processes or containers, or may soon have them."""
        return self.state in LIVE_STATES

    @property
    def short_commit(self) -> str:
        """`a1b2c3d`, `a1b2c3d-dirty`; "" without git."""
        commit, dash, dirty = self.commit.partition("-")
        return f"{commit[:7]}{dash}{dirty}"

    @property
    def variables(self) -> dict[str, str]:
        """The environment variables that tell its replicas which attempt they belong to."""
        return {"LAUNCHER_ATTEMPT": str(self.number), "LAUNCHER_EDITION": str(self.edition)}

    def about(self) -> dict[str, Any]:
        """Its origin, its edition with the attempts that it uses, and its document."""
        return {
            "origin": self.origin,
            "path": self.path,
            "commit": self.commit,
            "actor": self.actor,
            "action": self.action,
            "plan_digest": self.plan_digest,
            **{name: text for name in _APPROVED if (text := getattr(self, name))},
            "edition": self.edition,
            "needs": [
                {**each.about(), **({"rerun": "never"} if each.job in self.order_only else {})}
                for each in self.needs
            ],
            **{name: text for name in _OF_FILES if (text := getattr(self, name))},
            "metadata": dict(self.metadata),
            "digest": self.digest,
            "document": dict(self.document),
        }

    def to_json(self) -> dict[str, Any]:
        """A JSON object; `from_json` gives the attempt back."""
        out = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in _UNRECORDED}
        return {
            **out,
            "key": list(self.key),
            "document": dict(self.document),
            "metadata": dict(self.metadata),
            "needs": needs_to_json(self.needs) if self.needs else [],
            "order_only": list(self.order_only),
            "seen": dict(self.seen),
            "images": dict(self.images),
            "used": use.to_json(self.used) if self.used else {},
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Attempt:
        """Unknown fields, written by a later version, are left out."""
        known = {f.name: data[f.name] for f in fields(cls) if f.name in data}
        known["needs"] = needs_from_json(found) if (found := known.get("needs")) else ()
        known["used"] = use.from_json(used) if (used := known.get("used")) else {}
        known["order_only"] = tuple(known.get("order_only", ()))
        return cls(**{**known, "key": JobKey(*data["key"])})


class Recorded(NamedTuple):
    """An attempt as read from one of an engine's records.

    Attributes:
        name: of the record, such as "its containers".
        is_outcome: whether the record says how the attempt ended, and not only what its replicas show.
    """

    name: str
    attempt: Attempt
    is_outcome: bool = True


class ImageNow(NamedTuple):
    """An image that an engine has.

    Attributes:
        workspace: digest of the workspace that it was built of; "" for another image.
        digests: its `REPOSITORY@sha256:…`, by the registries that it came from.
    """

    id: str
    workspace: str = ""
    digests: Collection[str] = ()
