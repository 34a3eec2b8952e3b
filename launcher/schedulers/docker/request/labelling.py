"""Make the labels that describe an app, for each of its containers; `labels.py` reads them.

Every user of the engine can read labels: they may contain references to secrets, never values.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterable, Mapping
from typing import Any
from zlib import compress

from launcher import __version__
from launcher.schedulers.docker.labels import (
    OPTIONAL_TEXTS,
    PART,
    PREFIX,
    REPLICA,
    REPLICA_PART,
    RESERVATION_PART,
    ROLE,
    SCHEDULER,
    TEXTS,
)
from launcher.schedulers.docker.options import DEFAULT_GRACE_S
from launcher.schedulers.docker.request.job import DockerJob
from launcher.schedulers.order import has_order
from launcher.schedulers.owner import Owner
from launcher.specs import needs
from launcher.specs.app import AppDef, CfgVal
from launcher.specs.attempt import Attempt
from launcher.specs.canonical import digest, document_of

_IN_ORDER = ("service", "ready", "depends_on")


def attempt_labels(attempt: Attempt, owner: Owner | None = None) -> dict[str, str]:
    """The labels of all objects of a job's attempt. `owner`: the process that submits it."""
    key = {"project": attempt.key.project, "target": attempt.key.target, "job": attempt.key.job}
    facts = {
        **_common(attempt.app_id, attempt.key.session, attempt.key.job, attempt.document, attempt.metadata),
        **key,
        "attempt": str(attempt.number),
        **{name.replace("_", "-"): getattr(attempt, name) for name in TEXTS},
        "created-at": repr(attempt.created_at),
        "owner": owner.to_json() if owner else "",
        **_standing(attempt),
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
    """The labels of all objects of an app without a job. `cfg`: resolved."""
    document = document_of(app, cfg, SCHEDULER)
    facts = {
        **_common(app_id, session, app.name, document, app.metadata),
        "digest": digest(document),
        "created-at": repr(created_at),
        "owner": owner.to_json() if owner else "",
    }
    return {PREFIX + name: value for name, value in facts.items()}


def job_labels(job: DockerJob) -> dict[str, str]:
    """The labels from fields of a request that may be edited. They win over `app_labels`."""
    facts = {
        "replicas": str(len(job.containers)),
        "grace-s": repr(float(job.grace_s)),
        "timeout-s": str(job.timeout_s or ""),
        **_order(job.role_rules, job.counts),
    }
    return {PREFIX + name: value for name, value in facts.items()}


def replica_labels(role: str, k: int) -> dict[str, str]:
    """The further labels of a replica's container."""
    return {ROLE: role, REPLICA: str(k), PART: REPLICA_PART}


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
        **_order({each["name"]: each for each in roles}, _counts(roles)),
        **({"timeout-s": str(timeout_s)} if timeout_s else {}),
    }


def _standing(attempt: Attempt) -> dict[str, str]:
    """Edition, needs, inputs, output folder and state folder.

    Without labels that are empty or the default.
    """
    facts = {
        "edition": str(attempt.edition) if attempt.edition != attempt.number else "",
        "needs": needs.dumps(attempt.needs),
        "order-only": " ".join(attempt.order_only),
        **{name: getattr(attempt, name) for name in OPTIONAL_TEXTS},
        "output-volume": attempt.output,
    }
    return {name: value for name, value in facts.items() if value}


def _counts(roles: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    return {role["name"]: role.get("num_replicas", 1) for role in roles}


def _order(rules: Mapping[str, Mapping[str, Any]], counts: Mapping[str, int]) -> dict[str, str]:
    """The rules over services, probes and conditions; nothing where there are none."""
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
