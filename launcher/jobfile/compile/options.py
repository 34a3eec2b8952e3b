"""The scheduler of a job: its options (`cfg`), and the rules that it has for roles."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, get_origin

from launcher.jobfile.compile.build import as_written, code_of
from launcher.jobfile.diagnostics.diagnostic import WARNINGS, Severity
from launcher.jobfile.messages.collector import Collector
from launcher.jobfile.messages.names import got, listing, place_name, suggest
from launcher.jobfile.model.job_file import JobFile
from launcher.jobfile.text.document import Path
from launcher.specs import AppDef, check_app, runopts
from launcher.specs.binding import bind
from launcher.specs.check import Problem
from launcher.specs.macros import MacroError

Schedulers = Mapping[str, Callable[[], runopts]]

_KINDS = {
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "list": "a list of texts",
    "dict": "a mapping of texts",
}


def check_options(
    scheduler: str,
    cfg: Mapping[str, Any],
    timeout_s: int | None,
    schedulers: Schedulers | None,
    problems: Collector,
    defaults: Mapping[str, Any] = MappingProxyType({}),
) -> dict[str, Any]:
    """The options that differ from the scheduler's defaults: those of the file over the project's `defaults`.

    With `schedulers` None the options are unknown here, and are checked when the job is planned.
    """
    if schedulers is None or problems.is_assumed(("scheduler",)):
        return {key: value for key, value in {**defaults, **cfg}.items() if value is not None}
    if scheduler not in schedulers:
        label, hint = suggest(scheduler, schedulers), listing("there are", schedulers)
        problems.add(
            ("scheduler",), "unknown-variant", f"there is no scheduler `{scheduler}`", label=label, hint=hint
        )
        return {}
    opts = schedulers[scheduler]()
    cfg = {key: opt.plain(value) if (opt := opts.get(key)) else value for key, value in cfg.items()}
    _check_timeout(scheduler, cfg, timeout_s, opts, problems)
    # The rules of the scheduler read these, and expect the types that it declares.
    valid = {
        key: value
        for key, value in cfg.items()
        if check_option(scheduler, key, value, opts, problems, ("cfg", key))
    }
    for name, opt in opts:
        if opt.is_required and {**defaults, **cfg}.get(name) is None:
            message = f"scheduler `{scheduler}` needs the option `{name}`"
            at: Path = ("cfg",) if "cfg" in (problems.document.value or {}) else ("scheduler",)
            problems.add(
                at, "missing-field", message, at="key", label=f"add `{name}` to `cfg`", hint=opt.help
            )
    return {
        key: value
        for key, value in {**defaults, **valid}.items()
        if value is not None and not _is_default(opts, key, value)
    }


def check_option(
    scheduler: str, key: str, value: Any, opts: runopts, problems: Collector, path: Path
) -> bool:
    """False for an option that the scheduler does not have or a value it does not take; it is noted."""
    opt = opts.get(key)
    if opt is None:
        known = [name for name, _ in opts]
        message = f"scheduler `{scheduler}` has no option `{key}`"
        hint = listing("its options", known) or "it takes none"
        problems.add(path, "unknown-option", message, at="key", label=suggest(key, known), hint=hint)
        return False
    if value is not None and not runopts.is_type(value, opt.opt_type):
        kind = _kind(opt.opt_type)
        wanted = _KINDS.get(kind, kind)
        is_mixed = (kind == "list" and isinstance(value, list)) or (
            kind == "dict" and isinstance(value, dict)
        )
        message = f"option `{key}` must be {wanted}, not {'of other values' if is_mixed else got(value)}"
        problems.add(path, "wrong-type", message, hint=opt.help)
        return False
    # A folder of the job file will stand there in the run.
    fault = opt.fault(value.replace("$<job.dir>", "/job") if isinstance(value, str) else value)
    if value is None or fault is None or problems.is_assumed(path):
        return True
    message = f"option `{key}` must be {fault.wanted}, not {got(value)}"
    problems.add(path, fault.code, message, label=suggest(str(value), opt.choices), hint=opt.help)
    return False


def _check_timeout(
    scheduler: str, cfg: Mapping[str, Any], timeout_s: int | None, opts: runopts, problems: Collector
) -> None:
    if timeout_s is None:
        return
    if opts.get("timeout_s") is None:
        message = f"scheduler `{scheduler}` has no timeout"
        label = "delete it, or choose another scheduler"
        problems.add(("timeout",), "unknown-option", message, at="key", label=label)
    elif cfg.get("timeout_s") not in (None, timeout_s):
        first = problems.place(("cfg", "timeout_s"), "the other one is here")
        message = "the timeout is given twice"
        problems.add(
            ("timeout",), "conflicting-fields", message, at="key", label="keep one", related=(first,)
        )


def _is_default(opts: runopts, key: str, value: Any) -> bool:
    opt = opts.get(key)
    # True == 1 in Python; an option that is wrong in type was noted.
    return (
        opt is not None and value == opt.default and isinstance(value, bool) == isinstance(opt.default, bool)
    )


def _kind(opt_type: Any) -> str:
    """ "str", "int", …; "list" and "dict" whatever is inside."""
    origin = get_origin(opt_type) or opt_type
    return str(getattr(origin, "__name__", origin))


Rules = Callable[[str, AppDef, Mapping[str, Any], bool], Iterable[Problem]]
"""(scheduler, app with this machine's paths, its options, whether it has a workspace) → what is refused."""


_LABELS = {"missing-field": "add `{}`", "unpinned-image": "name a version"}


def check_rules(
    job: JobFile,
    app: AppDef,
    cfg: Mapping[str, Any],
    rules: Rules | None,
    folder: str,
    problems: Collector,
) -> None:
    """Note what the scheduler refuses, beside what every one of them does.

    Args:
        folder: of the job file.
    """
    if rules is None or problems.is_assumed(("scheduler",)):
        return
    try:
        bound = bind(app, directory=folder, home=os.path.expanduser("~"))
    except MacroError:
        return  # a text that has no spelling in this folder; submitting it reports that
    has_workspace = job.workspace is not None or problems.holds_assumed(("workspace",))
    refused = [*as_written(rules(job.scheduler, bound, cfg, has_workspace), job)]
    known = {found.path for found in as_written(check_app(app), job)} if refused else set()
    for found in refused:
        if found.path in known:
            continue
        if job.component is not None and found.path[0] == "roles":
            if found.code in WARNINGS:
                continue  # the author of the component chose it
            where = ".".join(map(str, found.path))
            message = f"component `{job.component}` makes an app that {job.scheduler} refuses: {where}: "
            problems.add(("component",), "invalid-value", message + found.message)
        elif not _is_open(found, problems):
            _note(found, problems)


def _is_open(found: Problem, problems: Collector) -> bool:
    """Whether a placeholder takes part in it. What fields do not agree on concerns the whole role."""
    part = found.path[:2] if found.code == "constraint" else found.path
    return problems.holds_assumed(part) or problems.holds_broken(found.path)


def _note(found: Problem, problems: Collector) -> None:
    path: Path = found.path
    severity: Severity = "warning" if found.code in WARNINGS else "error"
    at_key = found.code in ("missing-field", "unusable-name")
    message = found.message
    if found.code == "missing-field":
        message = f"{place_name(path[:-1])} has no `{path[-1]}`: {message}"
    problems.add(
        path,
        code_of(found),
        message,
        at="key" if at_key else "value",
        label=_LABELS.get(found.code, "").format(path[-1]),
        severity=severity,
    )
