"""Check a job against its scheduler: the options (`cfg`), and the rules for roles."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_origin

from launcher import looks
from launcher.dataclass import replace
from launcher.jobfile.compile.build import as_written, code_of
from launcher.jobfile.compile.variables import KINDS
from launcher.jobfile.diagnostic import severity_of
from launcher.jobfile.messages.collector import At, Collector, got, listing, place_name, suggest
from launcher.jobfile.model.job_file import JobFile
from launcher.jobfile.text.document import Path
from launcher.specs.app import AppDef, Role
from launcher.specs.binding import bind
from launcher.specs.check import Problem, check_app
from launcher.specs.macros import MacroError
from launcher.specs.runopts import runopts

Schedulers = Mapping[str, Callable[[], runopts]]

_KINDS = {**KINDS, "list": "a list of texts", "dict": "a mapping of texts"}

Rules = Callable[[str, AppDef, Mapping[str, Any], bool], Sequence[Problem]]
"""Maps scheduler, app with this machine's paths, its options, and whether it has a workspace, to problems."""


def check_options(
    job: JobFile,
    app: AppDef,
    defaults: Mapping[str, Any],
    schedulers: Schedulers | None,
    rules: Rules | None,
    folder: str,
    problems: Collector,
) -> tuple[AppDef, dict[str, Any]]:
    """Return the app, its roles with the options that differ from the job's, and the job's options.

    Options that equal the scheduler's defaults are left out. Wrong ones, and violations of the scheduler's
    own rules, are noted. The job file is in `folder`, and `defaults` has the project's options. Where options
    are unknown, they are checked when the job is planned.
    """
    if schedulers is None or problems.is_assumed(("scheduler",)):
        return app, {key: value for key, value in {**defaults, **job.cfg}.items() if value is not None}
    if job.scheduler not in schedulers:
        message, path = f"there is no scheduler `{job.scheduler}`", ("scheduler",)
        problems.unknown(path, "unknown-variant", message, job.scheduler, schedulers, "there are", at="value")
        return app, {}
    opts = schedulers[job.scheduler]()
    cfg = _options_of_job(job, opts, defaults, problems)
    app = _with_role_options(job, app, cfg, opts, problems)
    if rules is not None:
        _check_rules(job, app, cfg, rules, folder, problems)
    return app, cfg


def _options_of_job(
    job: JobFile, opts: runopts, defaults: Mapping[str, Any], problems: Collector
) -> dict[str, Any]:
    scheduler, cfg = job.scheduler, opts.plain(job.cfg)
    if job.timeout is not None:
        _check_timeout(scheduler, cfg.get("timeout_s"), job.timeout, opts, problems)
    # The scheduler's rules read these options, and expect the types that it declares.
    valid = {
        key: value
        for key, value in cfg.items()
        if check_option(scheduler, key, value, opts, problems, ("cfg", key))
    }
    for name, opt in opts:
        if opt.is_required and {**defaults, **cfg}.get(name) is None:
            message = f"scheduler `{scheduler}` needs the option `{name}`"
            at = ("cfg",) if "cfg" in (problems.document.value or {}) else ("scheduler",)
            label = f"add `{name}` to `cfg`"
            problems.add(at, "missing-field", message, at="key", label=label, hint=opt.help, reads=[("cfg",)])
    usual = {name: opt.default for name, opt in opts}
    return {
        key: value
        for key, value in {**defaults, **valid}.items()
        if value is not None and not (key in usual and _is_same(value, usual[key]))
    }


def _check_timeout(scheduler: str, given: Any, timeout_s: int, opts: runopts, problems: Collector) -> None:
    if opts.get("timeout_s") is None:
        message, label = f"scheduler `{scheduler}` has no timeout", "delete it, or choose another scheduler"
        problems.add(("timeout",), "unknown-option", message, at="key", label=label)
    elif given not in (None, timeout_s):
        first = problems.place(("cfg", "timeout_s"), "the other one is here")
        message, label = "the timeout is given twice", "keep one"
        problems.add(("timeout",), "conflicting-fields", message, at="key", label=label, related=(first,))


def _with_role_options(
    job: JobFile, app: AppDef, cfg: Mapping[str, Any], opts: runopts, problems: Collector
) -> AppDef:
    """Return the app without those options of its roles that are the job's, or wrong, which is noted.

    The scheduler's rules judge options of a component's roles.
    """
    of_job = {**{name: opt.default for name, opt in opts}, **cfg}

    def of_role(role: Role) -> Role:
        valid = {
            key: value
            for key, value in opts.plain(role.cfg).items()
            if job.component is not None
            or _check_role_option(job.scheduler, key, value, opts, problems, ("roles", role.name, "cfg", key))
        }
        return replace(
            role, cfg={key: value for key, value in valid.items() if not _is_same(value, of_job.get(key))}
        )

    return replace(app, roles=[of_role(role) if role.cfg else role for role in app.roles])


def _check_role_option(
    scheduler: str, key: str, value: Any, opts: runopts, problems: Collector, path: Path
) -> bool:
    """As `check_option`, for `cfg` of a role."""
    of_role = opts.of_role()
    if opts.get(key) is not None and of_role.get(key) is None:
        message = f"option `{key}` is one of the whole job, and no role can set it"
        hint = listing("a role may set", [name for name, _ in of_role])
        label = "move it to `cfg` of the job"
        problems.add(path, "unknown-option", message, at="key", label=label, hint=hint)
        return False
    if not len(of_role):
        return True  # the rules report schedulers that have no options for roles
    return check_option(scheduler, key, value, of_role, problems, path, "a role may set")


def check_option(
    scheduler: str,
    key: str,
    value: Any,
    opts: runopts,
    problems: Collector,
    path: Path,
    title: str = "its options",
) -> bool:
    """Return False, and note the problem, for an unknown option or a value that it does not take.
    The known options are listed below `title`."""
    opt = opts.get(key)
    if opt is None:
        known = [name for name, _ in opts]
        message, otherwise = f"scheduler `{scheduler}` has no option `{key}`", "it takes none"
        problems.unknown(path, "unknown-option", message, key, known, title, otherwise=otherwise)
        return False
    if value is not None and not runopts.is_type(value, opt.opt_type):
        kind = getattr(get_origin(opt.opt_type) or opt.opt_type, "__name__", str(opt.opt_type))
        is_mixed = isinstance(value, list | dict) and kind == type(value).__name__
        found = "of other values" if is_mixed else got(value)
        message = f"option `{key}` must be {_KINDS.get(kind, kind)}, not {found}"
        problems.add(path, "wrong-type", message, hint=opt.help)
        return False
    # In the run, the folder of the job file replaces it.
    fault = opt.fault(value.replace("$<job.dir>", "/job") if isinstance(value, str) else value)
    if value is None or fault is None or problems.is_assumed(path):
        return True
    message = f"option `{key}` must be {fault.wanted}, not {_found(value, fault.at, problems)}"
    label = suggest(str(value), opt.choices)
    problems.add((*path, *fault.at), fault.code, message, label=label, hint=opt.help)
    return False


def _found(value: Any, at: Path, problems: Collector) -> str:
    """Return the value, or its wrong item, in the words of messages."""
    if not at:
        return got(value)
    part = value[at[0]]
    return f"`{problems.entry(str(at[0]), part)}`" if isinstance(value, dict) else got(part)


def _is_same(value: Any, other: Any) -> bool:
    """Whether two values are equal with their types: True == 1 in Python. Wrong types were noted."""
    return bool(value == other) and isinstance(value, bool) == isinstance(other, bool)


def _check_rules(
    job: JobFile, app: AppDef, cfg: Mapping[str, Any], rules: Rules, folder: str, problems: Collector
) -> None:
    try:
        bound = bind(app, directory=folder, home=looks.expanded("~"))
    except MacroError:
        return  # the submission reports a text that cannot be written in this folder
    has_workspace = job.workspace is not None or not problems.is_sound(("workspace",))
    refused = rules(job.scheduler, bound, cfg, has_workspace)
    if not refused:
        return
    known = {found.path for found in as_written(check_app(app), job)}
    for found in as_written(refused, job):
        if found.path in known:
            continue
        if job.component is not None and found.path[0] == "roles":
            # Warnings are for the author of the component, who chose the values.
            if severity_of(found.code) == "error":
                where = ".".join(map(str, found.path))
                message = f"component `{job.component}` makes an app that {job.scheduler} refuses: {where}: "
                problems.add(("component",), "invalid-value", message + found.message)
            continue
        _note(found, problems)


def _note(found: Problem, problems: Collector) -> None:
    message, label = found.message, ""
    if found.code == "missing-field":
        message = f"{place_name(found.path[:-1])} has no `{found.path[-1]}`: {message}"
        label = f"add `{found.path[-1]}`"
    elif found.code == "unpinned-image":
        label = "name a version"
    at: At = "key" if found.code in ("missing-field", "unusable-name") else "value"
    problems.add(found.path, code_of(found), message, at=at, label=label, reads=found.reads)
