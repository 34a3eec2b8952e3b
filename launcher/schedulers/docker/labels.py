"""The labels of an app's containers, made at its submission for all clients. They describe the whole app.

Every user of the engine can read labels: they may contain references to secrets, never values.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from math import inf, isfinite
from zlib import compress, decompress, error as ZlibError

from launcher import __version__
from launcher.holding.replica import has_order

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any, TypeVar

    from launcher.schedulers.owner import Owner
    from launcher.specs.app import AppDef, CfgVal
    from launcher.specs.attempt import Attempt, StoodOn

    S = TypeVar("S")
    T = TypeVar("T")

PREFIX = "launcher."
APP_ID = PREFIX + "app-id"
JOB = PREFIX + "job"
OWNER = PREFIX + "owner"
PART = PREFIX + "part"
ROLE = PREFIX + "role"
REPLICA = PREFIX + "replica"
RESERVATION_PART = "reservation"
WAITING_PART = "waiting"
HOLDER = PREFIX + "holder"
"""Label of the container of a waiting or queued attempt: the watcher that holds the attempt."""
WAITS_FOR = PREFIX + "waits-for"
"""Label of the same container: the attempts that its attempt waited for at first, by `needs_to_json`."""
IMAGES = PREFIX + "images"
"""Label of the same container: the images of the containers that are to be made."""
TURN = PREFIX + "turn"
"""Label of a volume: the decision about a waiting attempt, see `tombstones.py`."""
SHARE = PREFIX + "share"
"""Label of a replica: the share of its machine that the app holds, see `share.py`."""
INPUTS = PREFIX + "inputs"
"""Label of all containers of an attempt with `inputs`: their digest, see `specs.inputs`."""
WATCHER = PREFIX + "watcher"
"""Label of an app whose watcher is on the engine, and of the watcher's container: the container's name."""
WATCHER_PART = "watcher"
TURNS_PART = "turns"
"""The volume of the tables that all watchers on the engine share."""
WATCHER_IMAGE = "python:3.12-slim"
"""The image of a watcher on the engine, unless the app names another one."""
VERSION = PREFIX + "version"
WORKSPACE_LABEL = PREFIX + "workspace"
"""Label of every image that is built from a workspace: its digest. Its other labels begin in the same way."""
TOMBSTONE = PREFIX + "tombstone"
"""Label of a volume with the outcome of an attempt: the attempt's app id."""
REPLICA_PART = "replica"
SCHEDULER = "local_docker"
DEFAULT_GRACE_S = 10.0
TEXTS = ("digest", "origin", "path", "commit", "actor", "action", "plan_digest", "plan_id", "trigger_digest")
"""Fields of an attempt that are labels of the same names, with dashes."""
OPTIONAL_TEXTS = (
    "home", "inputs", "effect", "approval", "review", "receivers", "pull_request", "run_url", "matrix",
    "reason",
)  # fmt: skip
"""Fields of an attempt that have no label where they are empty."""
_CONDITIONS = ("started", "ready", "succeeded")


def read_labels(labels: Mapping[str, str]) -> Labels | None:
    """The labels of a container of an app; None for any other container."""
    return Labels(labels) if labels.get(APP_ID) and labels.get(PREFIX + "scheduler") == SCHEDULER else None


class Labels:
    """The labels of one container, parsed on access, so that listing many containers is cheap.

    A damaged label, and an empty one, reads as if it were missing.
    """

    __slots__ = ("_labels",)

    def __init__(self, labels: Mapping[str, str]) -> None:
        self._labels = labels

    def __contains__(self, name: str) -> bool:
        return bool(self._labels.get(name))

    def text(self, name: str) -> str:
        return self._labels.get(PREFIX + name, "")

    def _read(self, name: str, parse: Callable[[str], T], otherwise: S) -> T | S:
        """The value of a label; `otherwise` where it is missing, empty or damaged."""
        text = self.text(name)
        try:
            return parse(text) if text else otherwise
        except (ValueError, TypeError):
            return otherwise

    def number(self, name: str, otherwise: S) -> float | S:
        """The number in a label; `otherwise` where it is missing, damaged or infinite."""
        return self._read(name, _finite, otherwise)

    @property
    def app_id(self) -> str:
        return self.text("app-id")

    @property
    def name(self) -> str:
        """The job's name, or the AppDef's."""
        return self.text("name")

    @property
    def key(self) -> tuple[str, str, str]:
        """Project, target and job; the last is "" for an app without a job."""
        return self.text("project"), self.text("target"), self.text("job")

    @property
    def digest(self) -> str:
        return self.text("digest")

    @property
    def is_job(self) -> bool:
        return JOB in self

    @property
    def role(self) -> str:
        return self.text("role")

    @property
    def replica(self) -> int:
        return int(self.number("replica", 0))

    @property
    def expected(self) -> int:
        """The number of replicas of the whole app."""
        return int(self.number("replicas", 0))

    @property
    def created_at(self) -> float:
        return self.number("created-at", 0.0)

    @property
    def asked_at(self) -> float:
        """The time of the first request for this app to the engine; infinite where it is unknown."""
        return self.created_at or inf

    @property
    def timeout_s(self) -> int | None:
        return int(self.number("timeout-s", 0)) or None

    @property
    def grace_s(self) -> float:
        """Time from TERM to KILL when the app is stopped."""
        return self.number("grace-s", DEFAULT_GRACE_S)

    @property
    def owner(self) -> Owner | None:
        """The process that submits, or submitted, the app; None where the label is missing."""
        from launcher.schedulers.owner import from_json

        return from_json(self.text("owner"))

    @property
    def holder(self) -> Owner | None:
        """The watcher that holds a waiting attempt; None where the label is missing."""
        from launcher.schedulers.owner import from_json

        return from_json(self.text("holder"))

    @property
    def watcher(self) -> str:
        """The container of the app's watcher; "" where the watcher is not on the engine."""
        return self.text("watcher")

    @property
    def waits_for(self) -> tuple[StoodOn, ...]:
        """The attempts that a waiting attempt waited for at first."""
        from launcher.specs.attempt import needs_from_json

        return self._read("waits-for", lambda text: needs_from_json(json.loads(text)), ())

    @property
    def images(self) -> list[str]:
        """The images that a waiting attempt is going to need."""
        return self._read("images", lambda text: [str(each) for each in json.loads(text)], [])

    @property
    def retries(self) -> dict[str, tuple[int, str, int]]:
        """Role → (max_retries, retry policy, seconds before the first restart)."""
        found = _mapping(self.text("retries")).items()
        return {
            role: (rule[0], str(rule[1]), rule[2] if rule[2:] else 0)
            for role, rule in found
            if _is_rule(rule)
        }

    @property
    def order(self) -> list[tuple[str, int, dict[str, Any]]]:
        """Each role with the number of its replicas and its `service`, `ready` and `depends_on`, where set.

        [] for an app whose roles all start at once and must all succeed.
        """
        text = self.text("order")
        if not text:
            return []
        try:
            listed = json.loads(text)
            found = [(str(role), int(count), dict(rules)) for role, count, rules in listed]
            names = {role for role, _, _ in found}
            waits = [each for _, _, rules in found for each in dict(rules.get("depends_on", {})).items()]
        except (ValueError, TypeError):
            return []
        return found if all(role in names and how in _CONDITIONS for role, how in waits) else []

    @property
    def metadata(self) -> dict[str, Any]:
        return _mapping(self.text("metadata"))

    @property
    def document(self) -> dict[str, Any]:
        """The normal form of the app (`specs.canonical`), {} when it cannot be read."""
        try:
            return _mapping(decompress(b64decode(self.text("document"))).decode("utf-8", "surrogatepass"))
        except (ValueError, ZlibError):
            return {}

    @property
    def needs(self) -> tuple[StoodOn, ...]:
        """The attempts of other jobs that this attempt needs."""
        from launcher.specs.attempt import needs_from_text

        return self._read("needs", needs_from_text, ())

    @property
    def output(self) -> str:
        """The volume of the app's output folder; "" for none."""
        return self.text("output-volume")

    @property
    def image_ids(self) -> Mapping[str, str]:
        """Role → the id of the image that ran, from the labels of a tombstone."""
        return {role: str(image) for role, image in _mapping(self.text("image-ids")).items()}

    @property
    def attempt_number(self) -> int:
        return int(self.number("attempt", 0))

    @property
    def attempt(self) -> Attempt | None:
        """The attempt of a job as it was reserved; None for an app without a job."""
        if not self.is_job:
            return None
        from launcher.specs.attempt import Attempt
        from launcher.specs.jobkey import JobKey

        texts: dict[str, Any] = {
            name: self.text(name.replace("_", "-")) for name in (*TEXTS, *OPTIONAL_TEXTS)
        }
        return Attempt(
            key=JobKey(*self.key),
            number=self.attempt_number,
            app_id=self.app_id,
            scheduler=SCHEDULER,
            document=self.document,
            metadata=self.metadata,
            edition=int(self.number("edition", 0)),
            needs=self.needs,
            order_only=tuple(self.text("order-only").split()),
            output=self.output,
            inputs_changed=self.text("inputs-changed"),
            output_digest=self.text("output-digest"),
            images=self.image_ids,
            created_at=self.created_at,
            **texts,
        )


def _finite(text: str) -> float:
    value = float(text)
    if not isfinite(value):
        raise ValueError(text)
    return value


def _mapping(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text or "{}")
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def is_by_engine(rule: tuple[int, str, int], *, is_probed: bool) -> bool:
    """Whether the engine restarts the replicas of a role: it has the policy REPLICA, without a pause.

    Only the watcher knows whether a probed replica has failed.
    """
    _, policy, delay_s = rule
    return policy not in ("APPLICATION", "ROLE", "REPLICA") or (
        policy == "REPLICA" and not (delay_s or is_probed)
    )


def _is_rule(value: object) -> bool:
    """Whether the value is [max_retries, policy], or with a pause [max_retries, policy, seconds]."""
    return (
        isinstance(value, list)
        and len(value) in (2, 3)
        and all(isinstance(number, int) for number in (value[0], *value[2:]))
    )


_IN_ORDER = ("service", "ready", "depends_on")


def attempt_labels(attempt: Attempt, owner: Owner | None = None) -> dict[str, str]:
    """The labels of all objects of a job's attempt. `owner`: the process that submits it."""
    from launcher.specs.attempt import needs_to_text

    optional = {
        "edition": str(attempt.edition) if attempt.edition != attempt.number else "",
        "needs": needs_to_text(attempt.needs),
        "order-only": " ".join(attempt.order_only),
        **{name.replace("_", "-"): getattr(attempt, name) for name in OPTIONAL_TEXTS},
        "output-volume": attempt.output,
    }
    facts = {
        **_common(attempt.app_id, attempt.session, attempt.key.job, attempt.document, attempt.metadata),
        "project": attempt.key.project,
        "target": attempt.key.target,
        "job": attempt.key.job,
        "attempt": str(attempt.number),
        **{name.replace("_", "-"): getattr(attempt, name) for name in TEXTS},
        "created-at": repr(attempt.created_at),
        "owner": owner.to_json() if owner else "",
        **{name: value for name, value in optional.items() if value},
    }
    return {PREFIX + name: value for name, value in facts.items()}


def app_labels(
    app: AppDef,
    cfg: Mapping[str, CfgVal],
    app_id: str,
    session: str,
    created_at: float,
    owner: Owner | None = None,
) -> dict[str, str]:
    """Return the labels of all objects of an app without a job.

    Args:
        cfg: run options, with defaults filled in.
    """
    from launcher.specs.canonical import digest, document_of

    document = document_of(app, cfg, SCHEDULER)
    facts = {
        **_common(app_id, session, app.name, document, app.metadata),
        "digest": digest(document),
        "created-at": repr(created_at),
        "owner": owner.to_json() if owner else "",
    }
    return {PREFIX + name: value for name, value in facts.items()}


def replica_labels(role: str, k: int) -> dict[str, str]:
    """The further labels of a replica's container."""
    return {ROLE: role, REPLICA: str(k), PART: REPLICA_PART}


def not_inherited(image: Mapping[str, str], labels: Mapping[str, str]) -> dict[str, str]:
    """The labels of a container of an image, with an empty one for each that it would inherit.

    `docker commit` gives an image the labels of its container: those of another app, such as its output
    volume and time limit. A request can replace inherited labels, and cannot remove them.

    Args:
        image: the labels of the image. Those of a workspace describe the image itself, and stay.
    """
    ours = (name for name in image if name.startswith(PREFIX) and not name.startswith(WORKSPACE_LABEL))
    return {**dict.fromkeys(ours, ""), **labels}


RESERVATION_LABELS = {PART: RESERVATION_PART}
"""The further labels of the container that reserves an app id until all others exist."""


def _common(
    app_id: str, session: str, name: str, document: Mapping[str, Any], metadata: Mapping[str, Any]
) -> dict[str, str]:
    roles, cfg = document.get("roles", []), document.get("cfg", {})
    timeout_s = document.get("timeout_s") or cfg.get("timeout_s")
    return {
        "version": __version__,
        "app-id": app_id,
        "session": session,
        "name": name,
        "scheduler": SCHEDULER,
        "replicas": str(sum(_counts(roles).values())),
        "document": b64encode(compress(_json(document).encode("utf-8", "surrogatepass"))).decode(),
        "metadata": _json({str(key): value for key, value in metadata.items()}),
        "retries": _json({role["name"]: _retries(role) for role in roles}),
        "grace-s": repr(float(cfg.get("grace_s", DEFAULT_GRACE_S))),
        **order_label({each["name"]: each for each in roles}, _counts(roles)),
        **({"timeout-s": str(timeout_s)} if timeout_s else {}),
    }


def _counts(roles: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    return {role["name"]: role.get("num_replicas", 1) for role in roles}


def order_label(rules: Mapping[str, Mapping[str, Any]], counts: Mapping[str, int]) -> dict[str, str]:
    """The label with the rules for services, probes and conditions; {} where there are none."""
    if not has_order(rules):
        return {}
    listed = [
        [role, count, {name: rules[role][name] for name in _IN_ORDER if rules.get(role, {}).get(name)}]
        for role, count in counts.items()
    ]
    return {"order": json.dumps(listed, separators=(",", ":"))}  # not sorted: conditions have an order


def _retries(role: Mapping[str, Any]) -> list[Any]:
    """[max_retries, policy], and the pause before the first restart where there is one."""
    delay_s = role.get("retry_delay", 0)
    return [
        role.get("max_retries", 0),
        role.get("retry_policy", "APPLICATION"),
        *([delay_s] if delay_s else []),
    ]


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True, default=str)
