"""Checks that every scheduler applies before it creates anything, and notes on requests that it ignores."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import pairwise

from launcher.errors import SchedulerError
from launcher.specs.app import CAPABILITIES, AppDef, Role
from launcher.specs.check import SET_FOR_REPLICAS, Problem, check_app, macros_in
from launcher.specs.macros import needs_host
from launcher.specs.outputs import references
from launcher.specs.resources import gpu_type
from launcher.specs.runopts import get_type_name, runopts

BUILT_IMAGE = "workspace:built"
"""The image that a role without one has in checks, when its workspace is built or copied for it."""


class RejectedAppError(SchedulerError, ValueError):
    """A scheduler cannot run the AppDef. One line per problem, with its path."""


def check_runnable(app: AppDef, own: Iterable[Problem] = ()) -> None:
    """Raise RejectedAppError for an app that breaks a common rule or, if well-formed, an `own` rule.

    Args:
        own: the problems by the scheduler's rules, which are judged only if the app is well-formed.
    """
    problems = check_app(app)
    if all(problem.code != "wrong-type" for problem in problems):
        problems += own
    check_problems(app, problems)


def check_problems(app: AppDef, problems: Iterable[Problem]) -> None:
    """Raise RejectedAppError when there are problems."""
    if problems := list(problems):
        found = "\n".join(f"  {'.'.join(str(part) for part in p.path)}: {p.message}" for p in problems)
        raise RejectedAppError(f"app `{app.name}` cannot be run:\n{found}")


def unsupported(
    app: AppDef,
    supports: Collection[str] | None,
    scheduler: str,
    others: Callable[[str], Iterable[str]] = lambda _: (),
) -> Iterator[Problem]:
    """Yield a problem for each role field that is set and not in `supports`, and for unknown hosts.

    `others`: field → the schedulers that support it.
    """
    supports = supports or ()
    for role in app.roles:
        for field in CAPABILITIES:
            value = getattr(role, field.name)
            is_default = value == field.default or (not value and not field.default)
            if field.name not in supports and not is_default:
                where = " or ".join(others(field.name))
                remedy = f"run it on {where}, or leave it out" if where else "leave it out"
                message = f"{scheduler} does not support `{field.name}`: {remedy}"
                yield Problem(("roles", role.name, field.name), "constraint", message)
        if HOSTS not in supports:
            remedy = f": run it on {where}" if (where := " or ".join(others(HOSTS))) else ""
            for path, name, written in macros_in(role):
                if needs_host(name):
                    message = f"{scheduler} does not know the host in `{written}`{remedy}"
                    yield Problem(path, "reference-phase", message)


def role_option_problems(app: AppDef, opts: runopts) -> Iterator[Problem]:
    """Yield a problem for each option in a role's `cfg` that roles may not set, or whose value is wrong."""
    of_role = opts.of_role()
    for role in app.roles:
        for name, value in role.cfg.items():
            path, opt = ("roles", role.name, "cfg", name), of_role.get(name)
            if opt is None:
                known = ", ".join(name for name, _ in of_role)
                where = "; it is an option of the whole app" if opts.get(name) else ""
                yield Problem(path, "unknown-option", f"a role may set {known}, and not `{name}`{where}")
            elif (plain := opt.plain(value)) is None:
                continue
            elif not runopts.is_type(plain, opt.opt_type):
                message = f"{name} must be of type {get_type_name(opt.opt_type)}, got {value!r}"
                yield Problem(path, "wrong-type", message)
            elif fault := opt.fault(plain):
                message = f"{name} must be {fault.wanted}, got {value!r}"
                yield Problem((*path, *fault.at), fault.code, message)


HOSTS = "hosts"
"""An entry of `Scheduler.supports`: it fills in `$<rank0_host>` and `$<role.NAME.host>`."""


def refuse_outputs(app: AppDef) -> None:
    """Raise RejectedAppError for an app without a job that asks for an output folder."""
    text = "`{}` is a folder of a job, and this app has none: use launcher apply"
    found: list[tuple[tuple[str | int, ...], str]] = [(each.path, each.written) for each in references(app)]
    found += [(("output",), "output")] if app.output else []
    check_problems(app, (Problem(path, "reference-phase", text.format(written)) for path, written in found))


def add_times(opts: runopts, grace_s: float) -> None:
    """Add the options `timeout_s` and `grace_s`, for schedulers that support them."""
    limit = "seconds after which the whole app is stopped and has failed; no limit if not given"
    opts.add("timeout_s", int, limit, minimum=1, example=3600)
    grace = "seconds from TERM to KILL when the app is stopped"
    opts.add("grace_s", float, grace, default=grace_s, minimum=0)


def overridden(app: AppDef) -> list[str]:
    """Notes on variables of roles that the scheduler overwrites for every replica."""
    return [
        f"role `{role.name}`: its {name} is not used: every replica gets that from its scheduler"
        for role in app.roles
        for name in SET_FOR_REPLICAS
        if name in role.env
    ]


def without_containers(role: Role, scheduler: str, paths: str, ports: str) -> Iterator[str]:
    """Notes on requests of a role whose replicas share `paths` and `ports` with other processes."""
    if role.mounts:
        yield f"role `{role.name}`: mounts are not made by {scheduler}; the paths of {paths} are used"
    if role.port_map:
        yield f"role `{role.name}`: ports are not mapped by {scheduler}; replicas share {ports}"
    yield from all_or_none(role, scheduler)


def all_or_none(role: Role, scheduler: str) -> Iterator[str]:
    """A note where `min_replicas` of the role has no effect."""
    if role.min_replicas is not None and role.min_replicas < role.num_replicas:
        yield f"role `{role.name}`: {scheduler} starts all {role.num_replicas} replicas or none"


def gpu_type_notes(app: AppDef, scheduler: str, *, is_here: bool) -> Iterator[str]:
    """Notes on roles whose GPUs may be of another kind than asked for. `is_here`: on this machine."""
    with_gpus = [role for role in app.roles if role.resource.gpu > 0]
    kinds = {role.name: kind for role in with_gpus if (kind := gpu_type(role.resource))}
    if not kinds:
        return
    from launcher.turns.machine import gpu_names

    names = gpu_names() if is_here else ()
    for role, kind in kinds.items():
        if not names:
            unknown = "the GPUs of its machine are unknown"
            yield f"role `{role}`: {scheduler} does not look at gpu_type `{kind}`: {unknown}"
        elif not all(is_gpu_of_type(name, kind) for name in names):
            listed = ", ".join(f"{count} x {name}" for name, count in Counter(names).items())
            yield (
                f"role `{role}`: it asks for GPUs of the kind `{kind}`, and the machine has {listed};"
                f" {scheduler} takes any of them"
            )


def is_gpu_of_type(name: str, kind: str) -> bool:
    """Whether users call a GPU `kind` whose driver names it `name`, such as "NVIDIA A100-SXM4-80GB".

    True for `a100`, `A100-80GB`, `nvidia_a100-sxm4-80gb`; `rtx4090` is "NVIDIA GeForce RTX 4090".
    """
    words, wanted = (re.findall(r"[a-z0-9]+", text.lower()) for text in (name, kind))
    pairs = map("".join, pairwise(words))
    return set(wanted) <= {*words, *pairs}
