"""The replicas of an app as values, for all schedulers: macros filled in, variables assembled. Pure.

A request is first made under the symbolic app id, escapes intact. `binder` gives it a real id.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from launcher.dataclass import dataclass, field, replace
from launcher.specs.app import AppDef, CfgVal, Role
from launcher.specs.macros import (
    SYMBOLIC_APP_ID,
    escape,
    host_variable,
    macros,
    map_text,
    serving,
    substitute,
)
from launcher.specs.outputs import OUTPUT_VARIABLE, SYMBOLIC_OUTPUT
from launcher.specs.secret import Secret, hide

RANK0_ENV = "LAUNCHER_RANK0_HOST"


def handle_of(backend: str, session: str) -> str:
    """The handle of an app under the symbolic id."""
    return f"{backend}://{escape(session)}/{SYMBOLIC_APP_ID}"


def host_variables(app: AppDef) -> dict[str, str]:
    """Variable → the role whose host it holds."""
    roles = {role.name: role for role in app.roles}
    return {RANK0_ENV: app.roles[0].name, **{host_variable(name): name for name in serving(roles)}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """The paths, hosts and values that a scheduler gives to every replica. They may hold later macros.

    Attributes:
        scratch, output: the folder that the replicas share; the app's output folder, "" for none.
        hosts: variable → host, for variables of `host_variables` whose host the scheduler knows.
        values: macro → value, beside the macros that every scheduler fills in.
    """

    handle: str
    scratch: str
    output: str = ""
    hosts: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, str] = field(default_factory=dict)
    img_root: str = ""

    def replicas(self, role: Role) -> Iterator[tuple[int, Role]]:
        """Number and role of each replica, with all macros filled in except the app id."""
        values = macros.Values(
            img_root=self.img_root, app_id=SYMBOLIC_APP_ID, replica_id="", rank0_env=RANK0_ENV
        )
        for k in range(role.num_replicas):
            known = replace(values, replica_id=str(k))
            yield k, known.apply(role, partial={"app_id"}, hosts=self.values)

    def environment(self, env: Mapping[str, str], *, error_file: str, logs: str) -> dict[str, str]:
        """The variables of a replica, with `env` of its role, the path of its structured error file, and the
        folder for logs of torchelastic. Secrets stay references."""
        return {
            "TORCHELASTIC_ERROR_FILE": error_file,
            "PET_LOG_DIR": logs,
            **env,
            "LAUNCHER_JOB_ID": self.handle,
            "LAUNCHER_SCRATCH": self.scratch,
            **self.hosts,
            **({OUTPUT_VARIABLE: self.output} if self.output else {}),
        }


def option(cfg: Mapping[str, CfgVal], name: str, kind: Callable[[Any], Any], otherwise: Any = None) -> Any:
    """The value of a run option as `kind`, or `otherwise` where it has none."""
    value = cfg.get(name)
    return otherwise if value is None else kind(value)


def retries_of(app: AppDef) -> dict[str, tuple[int, str]]:
    """Role → (max_retries, retry policy)."""
    return {role.name: (role.max_retries, str(role.retry_policy)) for role in app.roles}


def rules_of(role: Role) -> dict[str, Any]:
    """Return the rules that the holder of an app follows beside the retry policy, as plain data."""
    rules = {
        "retry_delay": role.retry_delay,
        "service": role.service,
        "ready": role.ready and role.ready.to_json(),
        "depends_on": dict(role.depends_on),
    }
    return {name: value for name, value in rules.items() if value}


def rules_of_roles(app: AppDef) -> dict[str, dict[str, Any]]:
    """Role → the fields beside the retries that the app's holder follows, for roles that set any."""
    return {role.name: rules for role in app.roles if (rules := rules_of(role))}


def binder(app_id: str, values: Mapping[str, str] | None = None) -> Callable[[Any], Any]:
    """A function that puts a real app id into plain data: it resolves macros and escapes, not secrets."""
    known = {"app_id": app_id, **(values or {})}
    return lambda data: map_text(data, lambda text: substitute(text, known))


def without_output(env: Mapping[str, Any], symbol: str = SYMBOLIC_OUTPUT) -> dict[str, Any]:
    """The variables without that of the output folder, if its value is `symbol`: for an app without a job."""
    return {name: value for name, value in env.items() if (name, value) != (OUTPUT_VARIABLE, symbol)}


# The text for users


def shown_value(name: str, value: str) -> str:
    """The value of a variable as users see it: a secret as its reference; hidden if it may be one."""
    return f"(secret {value})" if isinstance(value, Secret) else hide(value, name)


def alike(replicas: Sequence[object]) -> Iterator[tuple[int, int]]:
    """The (first, last) number of each sequence of equal replicas, which are shown once."""
    first = 0
    for k in range(1, len(replicas) + 1):
        if k == len(replicas) or replicas[k] != replicas[first]:
            yield first, k - 1
            first = k
