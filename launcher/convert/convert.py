"""Convert a file of another tool to a verified job file, and report the parts that are lost."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from launcher.convert import compose, procfile, sbatch
from launcher.convert.draft import Draft
from launcher.convert.sbatch_script import mebibytes, read, written
from launcher.dataclass import dataclass
from launcher.errors import LauncherError, UsageError
from launcher.git import repository
from launcher.jobfile.compile.compiled import Compiled
from launcher.jobfile.compile.files import compile_text
from launcher.jobfile.diagnostic import Diagnostic, job_file_error
from launcher.jobfile.text.document import Document, Source, read_source
from launcher.jobfile.text.parse import PROCFILE, kind_of_file, parse_values
from launcher.schedulers.registry import SchedulerRules, get_scheduler_factories
from launcher.schedulers.slurm.options import minutes_of
from launcher.specs.launch import Launch

KINDS = ("sbatch", "compose", "procfile")
_READS = (
    "it reads sbatch scripts (with #SBATCH lines), compose files (with `services`) and Procfiles"
    " (lines of `NAME: COMMAND`); --from says which one it is"
)
_SUFFIXES = (".yaml", ".yml", ".json", ".toml", ".sbatch", ".slurm", ".sl", ".job", ".batch")


@dataclass(frozen=True, slots=True)
class Converted:
    """A job file that is not written yet.

    Attributes:
        text: in YAML, as `launcher fmt` writes it.
        lost: each part of the file that has no place, and why.
        rows: for an sbatch script: each option, and its counterpart in the request of the job.
        warnings: the warnings of `launcher validate` on the job file.
    """

    text: str
    lost: Mapping[str, str]
    rows: tuple[OptionRow, ...]
    warnings: tuple[Diagnostic, ...]

    @property
    def is_whole(self) -> bool:
        """Whether the job file keeps the whole meaning of the file, and `validate --strict` accepts it."""
        return not self.lost and not self.warnings and all(row.is_kept for row in self.rows)


def is_file(word: str) -> bool:
    """Whether a word of a command line names a file rather than a component."""
    if ".py:" in word or word.endswith(".py"):
        return False
    is_named = os.sep in word or word.endswith(_SUFFIXES) or os.path.basename(word).startswith("Procfile")
    return is_named or os.path.lexists(word)


def convert(
    file: str,
    *,
    kind: str = "",
    name: str = "",
    scheduler: str = "",
    more: Callable[[str], Mapping[str, Any]] | None = None,
) -> Converted:
    """Convert a file. Reads no other file, runs nothing, asks no engine and no environment.

    Args:
        file: path. The job file is meant to be beside it.
        kind: one of KINDS; "" to judge by the content.
        name: of the job; "" for the name in the file.
        scheduler: of a Procfile's job; the other kinds are written for one scheduler.
        more: gives further fields of the job, for a scheduler; `cfg` is laid over that of the file.

    Raises JobFileError for a file that cannot be read, UsageError for a file of another kind, LauncherError
    for a file that no job file can express.
    """
    document = _read(file)
    kind = kind or _kind(document)
    source = document.source
    if kind == "compose":
        if errors := _errors(document):
            raise job_file_error(errors)
        draft = compose.convert(document, name)
    else:
        draft = (sbatch if kind == "sbatch" else procfile).convert(source, name)
    own = draft.fields.get("scheduler", "")
    if scheduler and own and scheduler != own:
        raise UsageError(f"{file} becomes a job of {own}", hint="leave out --scheduler")
    for key, value in (more(own or scheduler) if more else {}).items():
        draft.put((key,), {**draft.fields.get(key, {}), **value} if isinstance(value, dict) else value)
    text = draft.text()
    result = compiled(draft, text, os.path.join(os.path.dirname(os.path.abspath(file)), "job.launcher.yaml"))
    rows = request_rows(draft, source, result.launches[0]) if kind == "sbatch" else ()
    return Converted(text, draft.lost, tuple(rows), result.diagnostics)


def _read(file: str) -> Document:
    path = os.path.abspath(file)
    tree = repository(os.path.dirname(path))
    source = read_source(file, path, os.path.realpath(tree.root) if tree else "")
    if isinstance(source, Diagnostic):
        raise job_file_error([source])
    text = source.text.replace("\r\n", "\n")
    if odd := re.search(r"[\x00-\x08\x0e-\x1a\x7f]", text):
        line = text.count("\n", 0, odd.start()) + 1
        raise LauncherError(f"{file}:{line}: the character U+{ord(odd[0]):04X} is in no text file")
    return parse_values(Source(file, "yaml", text))


def _errors(document: Document) -> list[Diagnostic]:
    return [each for each in document.problems if each.severity == "error"]


def _kind(document: Document) -> str:
    """The kind of a file by its content. Raises UsageError for one that this command does not read."""
    source = document.source
    if re.search(r"^#SBATCH\s", source.text, re.MULTILINE):
        return "sbatch"
    if compose.is_compose(document.value):
        return "compose"
    base = os.path.basename(source.file)
    if re.fullmatch(r"(?:docker-)?compose(?:[.-][\w.-]+)?\.ya?ml", base):
        return "compose"
    what = kind_of_file(document)
    is_data = base.endswith((".yaml", ".yml", ".json"))
    if is_data and (errors := _errors(document)) and what in ("", PROCFILE, "a Makefile"):
        raise job_file_error(errors)
    is_job = isinstance(document.value, dict) and bool({"roles", "component"} & document.value.keys())
    is_lines = base.startswith("Procfile") or (not is_data and procfile.is_procfile(source.text))
    if is_lines and not is_job and what in ("", PROCFILE):
        return "procfile"
    if is_job:
        raise UsageError(f"{source.file} is a job file already", hint="`launcher validate` checks it")
    raise UsageError(f"{source.file} is {what or 'of no kind that convert knows'}", hint=_READS)


class OptionRow(NamedTuple):
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
"""Option about an amount → all options that determine the amount."""


def compiled(draft: Draft, text: str, path: str) -> Compiled:
    """Compile the text as if it were the file `path`. Raises LauncherError when it is no valid job file."""
    rules = SchedulerRules()
    result = compile_text(text, path, rules, rules=rules.problems, placeholders=True)
    if result.errors:
        found = "; ".join(each.message + (f" ({each.label})" if each.label else "") for each in result.errors)
        raise LauncherError(f"{draft.file} cannot be written as a job file: {found}")
    return result


def request_rows(draft: Draft, source: Source, launch: Launch) -> Iterator[OptionRow]:
    """Compare the request of a job with the options of its script, one by one. Asks no cluster."""
    script = read(source).options
    scheduler = get_scheduler_factories()[launch.scheduler]("convert")
    request = scheduler.submit_dryrun(launch.app, launch.cfg).request
    ours = read(Source("request", "yaml", request.script)).options
    for name, value in script.items():
        shown = written(name, value)
        if why := draft.lost.get(shown):
            yield OptionRow(shown, False, why)
        elif name in draft.fates:
            yield OptionRow(shown, True, draft.fates[name])
        elif name in ours and _plain(name, ours[name]) == _plain(name, value):
            yield OptionRow(shown, True, "the same")
        else:
            yield _amount(name, script, ours, launch)


def _amount(name: str, script: Mapping[str, str], ours: Mapping[str, str], launch: Launch) -> OptionRow:
    option = written(name, script[name])
    if name == "chdir":
        return OptionRow(option, launch.cfg.get("workdir") == script[name], "the option workdir")
    shown = " ".join(written(each, ours[each]) for each in _AMOUNTS.get(name, (name,)) if each in ours)
    if name in _AMOUNTS and _total(name, script) == _total(name, ours):
        return OptionRow(option, True, f"as much: {shown}")
    return OptionRow(option, False, f"differs: {shown or 'not requested'}")


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
