"""Read an app from the labels of its containers. They describe all of it, without any record."""

from __future__ import annotations

import json
from base64 import b64decode
from math import inf, isfinite
from zlib import decompress
from zlib import error as ZlibError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from launcher.schedulers.owner import Owner
    from launcher.specs.attempt import Attempt
    from launcher.specs.needs import StoodOn

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
"""Label of the container of a waiting or queued attempt: the watcher that holds it."""
WAITS_FOR = PREFIX + "waits-for"
"""Label of that container: the attempts that it waited for at first, as `needs.to_json` has them."""
IMAGES = PREFIX + "images"
"""Label of that container: the images of the containers that are to be made."""
TURN = PREFIX + "turn"
"""Label of a volume: how a waiting attempt goes on, see `turn.py`."""
SHARE = PREFIX + "share"
"""Label of a replica: the share of its machine that the app holds, see `share.py`."""
INPUTS = PREFIX + "inputs"
"""Label of all containers of an attempt with `inputs`: their digest, see `specs.inputs`."""
VERSION = PREFIX + "version"
TOMBSTONE = PREFIX + "tombstone"
"""Label of a volume with the outcome of an attempt: the attempt's app id."""
REPLICA_PART = "replica"
SCHEDULER = "local_docker"
TEXTS = ("digest", "origin", "path", "commit", "actor", "action", "plan_digest", "plan_id", "trigger_digest")
"""Fields of an attempt that are labels of the same names, with dashes."""
OPTIONAL_TEXTS = ("home", "inputs")
"""Such fields without a label where they are empty."""
_CONDITIONS = ("started", "ready", "succeeded")


def read_labels(labels: Mapping[str, str]) -> Labels | None:
    """The labels of a container of an app; None for any other container."""
    return Labels(labels) if labels.get(APP_ID) and labels.get(PREFIX + "scheduler") == SCHEDULER else None


class Labels:
    """The labels of one container, parsed on access, so that listing many containers is cheap.

    A damaged label reads as if it were missing.
    """

    __slots__ = ("_labels",)

    def __init__(self, labels: Mapping[str, str]) -> None:
        self._labels = labels

    def __contains__(self, name: str) -> bool:
        return name in self._labels

    def text(self, name: str) -> str:
        return self._labels.get(PREFIX + name, "")

    @property
    def app_id(self) -> str:
        return self.text("app-id")

    @property
    def session(self) -> str:
        return self.text("session")

    @property
    def name(self) -> str:
        """The job's name, or the AppDef's."""
        return self.text("name")

    @property
    def digest(self) -> str:
        return self.text("digest")

    @property
    def is_job(self) -> bool:
        return JOB in self._labels

    @property
    def role(self) -> str:
        return self.text("role")

    @property
    def replica(self) -> int:
        return int(_number(self.text("replica"), 0))

    @property
    def expected(self) -> int:
        """How many replicas the whole app has."""
        return int(_number(self.text("replicas"), 0))

    @property
    def created_at(self) -> float:
        return _number(self.text("created-at"), 0.0)

    @property
    def asked_at(self) -> float:
        """Before that the engine was asked for nothing of this app; infinite where that is not known."""
        return self.created_at or inf

    @property
    def timeout_s(self) -> int | None:
        return int(_number(self.text("timeout-s"), 0)) or None

    @property
    def grace_s(self) -> float:
        """Time from TERM to KILL when the app is stopped."""
        from launcher.schedulers.docker.options import DEFAULT_GRACE_S

        return _number(self.text("grace-s"), DEFAULT_GRACE_S)

    @property
    def owner(self) -> Owner | None:
        """The process that submits the app, or did; None where the label is missing."""
        from launcher.schedulers.owner import from_json

        return from_json(self.text("owner"))

    @property
    def holder(self) -> Owner | None:
        """The watcher that holds a waiting attempt; None where the label is missing."""
        from launcher.schedulers.owner import from_json

        return from_json(self.text("holder"))

    @property
    def waits_for(self) -> tuple[StoodOn, ...]:
        """The attempts that a waiting attempt waited for at first."""
        from launcher.specs.needs import from_json

        try:
            return from_json(json.loads(self.text("waits-for") or "[]"))
        except (ValueError, TypeError):
            return ()

    @property
    def images(self) -> list[str]:
        """The images that a waiting attempt is going to need."""
        try:
            return [str(each) for each in json.loads(self.text("images") or "[]")]
        except (ValueError, TypeError):
            return []

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
        """The attempts of other jobs that this one stands on."""
        from launcher.specs import needs

        try:
            return needs.loads(self.text("needs"))
        except (ValueError, TypeError):
            return ()

    @property
    def output(self) -> str:
        """The volume of the app's output folder; "" for none."""
        return self.text("output-volume")

    @property
    def attempt_number(self) -> int:
        return int(_number(self.text("attempt"), 0))

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
            key=JobKey(self.text("project"), self.text("target"), self.text("job")),
            number=self.attempt_number,
            app_id=self.app_id,
            scheduler=SCHEDULER,
            document=self.document,
            metadata=self.metadata,
            edition=int(_number(self.text("edition"), 0)),
            needs=self.needs,
            order_only=tuple(self.text("order-only").split()),
            output=self.output,
            inputs_changed=self.text("inputs-changed"),
            created_at=self.created_at,
            **texts,
        )


def _number(text: str, otherwise: float) -> float:
    try:
        value = float(text)
    except ValueError:
        return otherwise
    return value if isfinite(value) else otherwise


def _mapping(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text or "{}")
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _is_rule(value: object) -> bool:
    """Whether it is [max_retries, policy], or with a pause [max_retries, policy, seconds]."""
    return (
        isinstance(value, list)
        and len(value) in (2, 3)
        and all(isinstance(number, int) for number in (value[0], *value[2:]))
    )
