"""Prove a converted job file: it is valid, and on Slurm it requests what its script does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from launcher.convert.draft import Draft
from launcher.convert.sbatch_script import mebibytes, read, written
from launcher.errors import LauncherError
from launcher.jobfile.compile.compiled import Compiled
from launcher.jobfile.compile.files import compile_text
from launcher.jobfile.text.source import Source
from launcher.schedulers.registry import get_scheduler_factories
from launcher.schedulers.rules import SchedulerRules
from launcher.schedulers.slurm.options import minutes_of
from launcher.specs import Launch


class Row(NamedTuple):
    """An option of an sbatch script, and its counterpart in the job."""

    option: str
    is_kept: bool
    fate: str


_AMOUNTS: Mapping[str, tuple[str, ...]] = {
    "ntasks": ("ntasks", "cpus-per-task"),
    "ntasks-per-node": ("ntasks", "cpus-per-task"),
    "cpus-per-task": ("ntasks", "cpus-per-task"),
    "mem": ("mem", "mem-per-cpu", "ntasks", "cpus-per-task"),
    "mem-per-cpu": ("mem", "mem-per-cpu", "ntasks", "cpus-per-task"),
    "gpus": ("gpus", "gpus-per-task", "ntasks", "gres"),
    "gpus-per-task": ("gpus", "gpus-per-task", "ntasks", "gres"),
    "gpus-per-node": ("gpus", "gpus-per-task", "gres"),
}
"""Option about an amount → the options that decide this amount."""


def compiled(draft: Draft, text: str, path: str) -> Compiled:
    """Compile the text as if it were the file `path`. Raises LauncherError when it is no valid job file."""
    rules = SchedulerRules()
    result = compile_text(text, path, rules, rules=rules.problems, placeholders=True)
    if result.errors:
        found = "; ".join(each.message + (f" ({each.label})" if each.label else "") for each in result.errors)
        raise LauncherError(f"{draft.file} cannot be written as a job file: {found}")
    return result


def request_rows(draft: Draft, source: Source, launch: Launch) -> Iterator[Row]:
    """Compare the request of a job with the options of its script, one by one. Asks no cluster."""
    script = read(source).options
    scheduler = get_scheduler_factories()[launch.scheduler]("convert")
    request = scheduler.submit_dryrun(launch.app, launch.cfg).request
    ours = read(Source("request", "yaml", request.script)).options
    for name, value in script.items():
        shown = written(name, value)
        if why := draft.lost.get(shown):
            yield Row(shown, False, why)
        elif name in draft.fates:
            yield Row(shown, True, draft.fates[name])
        elif name in ours and _plain(name, ours[name]) == _plain(name, value):
            yield Row(shown, True, "the same")
        else:
            yield _amount(name, script, ours, launch)


def _amount(name: str, script: Mapping[str, str], ours: Mapping[str, str], launch: Launch) -> Row:
    option = written(name, script[name])
    if name == "chdir":
        return Row(option, launch.cfg.get("workdir") == script[name], "the option workdir")
    shown = " ".join(written(each, ours[each]) for each in _AMOUNTS.get(name, (name,)) if each in ours)
    if name in _AMOUNTS and _total(name, script) == _total(name, ours):
        return Row(option, True, f"as much: {shown}")
    return Row(option, False, f"differs: {shown or 'not requested'}")


def _plain(name: str, value: str) -> object:
    """Return an option's value in one canonical spelling."""
    if name == "time":
        return minutes_of("UNLIMITED" if value in ("0", "-1") else value)
    return mebibytes(value) if name in ("mem", "mem-per-cpu") and mebibytes(value) else value


def _total(name: str, options: Mapping[str, str]) -> object:
    """Return the amount that options request: cores or MiB of the job, or GPUs of the job or of a node."""
    nodes = _count(options.get("nodes", ""), 1)
    tasks = _count(options.get("ntasks", ""), nodes * _count(options.get("ntasks-per-node", ""), 1))
    cores = tasks * _count(options.get("cpus-per-task", ""), 1)
    if name.startswith("gpus"):
        if name == "gpus-per-node":
            return options.get(name) or options.get("gres", "").removeprefix("gpu:")
        each, whole = options.get("gpus-per-task", ""), options.get("gpus", "")
        kind, _, count = (whole or each).rpartition(":")
        return kind, _count(count, 0) * (1 if whole else tasks)
    if name.startswith("mem"):
        per_core = mebibytes(options.get("mem-per-cpu", "")) * cores
        return mebibytes(options.get("mem", "")) * nodes or per_core
    return cores


def _count(text: str, default: int) -> int:
    return int(text) if text.isdecimal() and len(text) < 9 else default
