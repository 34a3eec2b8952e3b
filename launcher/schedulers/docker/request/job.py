"""`DockerJob`, the request of a Docker app, and its text for users."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from launcher.schedulers.docker.options import DEFAULT_GRACE_S
from launcher.schedulers.docker.request.body import argv, engine_config, environment
from launcher.schedulers.replica_request import shown_value
from launcher.specs.sensitive import hide
from launcher.specs.yamltext import to_yaml


@dataclass
class DockerContainer:
    """The container of one replica.

    Attributes:
        kwargs: the other arguments of the Docker SDK's `containers.create`: name, hostname, environment,
            labels, network, mounts, … as plain data. They may be edited after a dry run: any parameter of
            `containers.create`, also in the SDK's types.
            Secrets in `environment` are references (`specs.secret.Secret`), never values.
    """

    image: str
    command: list[str]
    kwargs: dict[str, Any]
    role: str = ""
    replica: int = 0

    @property
    def name(self) -> str:
        return str(self.kwargs["name"])

    def body(self) -> dict[str, Any]:
        """See `engine_config`."""
        return engine_config(self.image, self.command, self.kwargs)


@dataclass(repr=False)
class DockerJob:
    """An app as containers, in the order of roles and replicas. `str(job)` is the text for users.

    Attributes:
        app_id: `$<app_id>` until the job is bound to a real one.
        scratch: name of the volume that all containers share at /launcher/scratch.
        network: of all containers.
        role_retries: role → (max_retries, retry policy).
        role_rules: role → the fields of it that the watcher follows beside these, where they are set.
        timeout_s: of the whole app, restarts included; None for no limit.
        grace_s: from TERM to KILL when the app is stopped.
        copy_env: patterns of variables to take from the submitting process when containers are created.
        image_pull: missing, always or never.
        notes: requests of the app that this scheduler fulfils differently or not at all.
        needs: job that this one needs → the volume, or the folder of this machine, that is its output folder
            when it has one; "" for one that is out of reach.
    """

    app_id: str
    containers: list[DockerContainer]

    handle: str = ""
    scratch: str = ""
    network: str = ""
    role_retries: dict[str, tuple[int, str]] = field(default_factory=dict)
    timeout_s: int | None = None
    grace_s: float = DEFAULT_GRACE_S
    copy_env: list[str] = field(default_factory=list)
    image_pull: str = "missing"
    notes: list[str] = field(default_factory=list)
    role_rules: dict[str, dict[str, Any]] = field(default_factory=dict)
    needs: dict[str, str] = field(default_factory=dict)

    @property
    def counts(self) -> dict[str, int]:
        """Role → number of its containers, also of roles that have none any more and others wait for."""
        awaited = (role for rules in self.role_rules.values() for role in rules.get("depends_on", {}))
        roles = dict.fromkeys((*self.role_rules, *awaited), 0)
        return roles | Counter(each.role for each in self.containers)

    def __str__(self) -> str:
        return _render(self)

    __repr__ = __str__


def _render(job: DockerJob) -> str:
    """The job as YAML, the same text for equal jobs. Values under sensitive-looking names are hidden."""
    head: dict[str, Any] = {
        "app_id": job.app_id,
        "handle": job.handle,
        "image_pull": job.image_pull,
        "network": job.network,
        "scratch": job.scratch,
        "timeout_s": job.timeout_s,
        "grace_s": job.grace_s,
        "copy_env": job.copy_env or None,
        "retries": {
            role: f"{most} ({policy.lower()})" for role, (most, policy) in job.role_retries.items() if most
        }
        or None,
        "rules": job.role_rules or None,
    }
    lines = [to_yaml({name: value}) for name, value in head.items() if value is not None]
    lines.append(to_yaml({"containers": [_shown(container) for container in job.containers]}))
    lines += [f"# note: {note}\n" for note in job.notes]
    return "".join(lines).rstrip("\n")


def _shown(container: DockerContainer) -> dict[str, Any]:
    kwargs = {name: value for name, value in container.kwargs.items() if value not in (None, [], {})}
    return {
        "image": container.image,
        "command": hide(argv(container.command)),
        **kwargs,
        "environment": {
            name: value and shown_value(name, value)
            for name, value in environment(container.kwargs.get("environment") or {}).items()
        },
    }
