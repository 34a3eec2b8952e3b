"""An sbatch script as a job of Slurm.

A script without `srun`, or whose steps have one task each, becomes one replica. A script with one `srun`
becomes a role with a replica for each task: launcher starts them by its own `srun`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence

from launcher.convert.draft import Draft, label, masked, memory_text
from launcher.convert.sbatch_script import (
    NO_VALUE,
    SHORT_OF_SRUN,
    Script,
    here_documents,
    mebibytes,
    pairs,
    read,
    written,
)
from launcher.dataclass import dataclass
from launcher.errors import LauncherError
from launcher.jobfile.compile.matrix import MAX_JOBS
from launcher.jobfile.text.document import Source
from launcher.schedulers.slurm.options import KNOWN, OWN_OPTION, REFUSED
from launcher.specs.secret import is_sensitive
from launcher.text import nearest, plural

ROLE = "main"
_SAME = """
    cpus-per-task exact exclusive gpus gpus-per-task kill-on-bad-exit label mem mem-per-cpu nodes ntasks
    ntasks-per-node overlap unbuffered
"""
_OF_TASKS = frozenset(_SAME.split())
"""Options of `srun` that launcher's own `srun` sets, or that have no meaning for it."""

_SHELLS = {"bash": "-c", "sh": "-c", "dash": "-c", "zsh": "-c", "ksh": "-c", "fish": "-c", "csh": "-c"}
_PROGRAMS = _SHELLS | {"tcsh": "-c", "julia": "-e", "perl": "-e", "ruby": "-e", "node": "-e", "Rscript": "-e"}
_WORD = re.compile(r"""(?:\\\n|[ \t])*((?:"[^"]*"|'[^']*'|\\.|[^\s"';&|<>()\\])+)""")
_SRUN = re.compile(
    r"(?m)(?:^|(?<=[;&|(!]))[ \t]*(?:(?:exec|time|then|do|else|!)[ \t]+|\w+=\S*[ \t]+)*srun(?=[ \t\\])"
)
_COMMENT = re.compile(r"(?m)(?:^|(?<=\s))#.*")
_SETUP = """
    . [ [[ alias case cd conda date declare do done echo elif else env esac eval exit export fi for hash
    hostname if local mamba micromamba mkdir ml module nproc nvidia-smi printf pwd read return scontrol set
    shift shopt sleep source spack srun test then time true type ulimit umask unset until wait which while { }
"""
_HARMLESS = frozenset(_SETUP.split())
"""First words of lines that may run in each task instead of once."""
_LONGEST = 128 * 1024
_EXACT_MIB = 1024
"""Below this amount of MiB, launcher requests more memory than asked, for its own processes."""


@dataclass(slots=True)
class _Shape:
    """The number of tasks of a job, and how they become replicas."""

    nodes: int
    tasks: int
    replicas: int = 1


def convert(source: Source, name: str = "") -> Draft:
    """Return the draft of the job that a script describes.

    Args:
        name: of the job; "" for the name in the script, else the name of its file.

    Raises LauncherError for a text that is no script.
    """
    script = read(source)
    given = script.options.get("job-name") or os.path.basename(source.file).partition(".")[0]
    draft = Draft(source.file, {"name": name or label(given), "scheduler": "slurm"})
    draft.put(("cfg",), {})
    draft.put(("roles",), {ROLE: {}})
    if "job-name" in script.options:
        draft.fates["job-name"] = f"the name of the job, {draft.fields['name']}"
    shape = _shape(script.options)
    _command(script, shape, draft)
    _sizes(script.options, shape, draft)
    for option, value in script.options.items():
        _place(option, value, draft)
    _folder(script, draft)
    for line in script.ignored:
        draft.note(("roles", ROLE, "args"), f"sbatch ignores `{line.strip()}`, which is below a command")
    if not draft.fields["cfg"]:
        del draft.fields["cfg"]
    return draft


# What runs


def _shape(options: Mapping[str, str]) -> _Shape:
    nodes = _number(options.get("nodes", "1").partition("-")[0])
    each = _number(options.get("ntasks-per-node", "1"))
    tasks = _number(options["ntasks"]) if "ntasks" in options else nodes * each
    return _Shape(nodes, max(tasks, 1))


def _number(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 7 else 1


def _command(script: Script, shape: _Shape, draft: Draft) -> None:
    """Set the program of the role, and its number of replicas."""
    program, *options = script.words
    at = ("roles", ROLE, "args")
    body = script.body
    if program in _SHELLS:
        body = _without_srun(body, shape, draft)
        if re.search(r"\$(?:[1-9@*#]|\{[1-9@*])", body):
            draft.note(at, "arguments of the script follow it as further items: its name, then $1, $2, …")
    flag = _PROGRAMS.get(program) or ("-c" if program.startswith("python") else "")
    if not flag:
        draft.lose(at, f"#!{program}", "no option to give it a script is known: keep the script in a file")
    if len(body) > _LONGEST:
        raise LauncherError(
            f"{draft.file}: a script of more than {_LONGEST >> 10} KiB is no argument of a program",
            hint="keep it in a file of the workspace, and name it in `args`",
        )
    draft.script(ROLE, body, *options, flag or "-c", program=program)
    if shape.replicas > 1:
        draft.put(("roles", ROLE, "num_replicas"), shape.replicas)
    elif shape.tasks > 1 and re.search(r"\bmpi(?:run|exec)\b", body):
        why = (
            f"Slurm tells it of one task: use `srun`, or tell it the slots, `--host localhost:{shape.tasks}`"
        )
        draft.lose(at, f"mpirun of {shape.tasks} tasks", why)
    _variables(body, shape, script.options, draft)


def _variables(body: str, shape: _Shape, options: Mapping[str, str], draft: Draft) -> None:
    """Set the variables that the script reads to the values that sbatch gives them."""
    given = {"SLURM_SUBMIT_DIR": (".", "launcher submits from a folder of its own")}
    if shape.replicas == 1 and shape.tasks > 1:
        why = "as sbatch sets it; Slurm counts one task here"
        names = {"SLURM_NTASKS": str(shape.tasks), "SLURM_NPROCS": str(shape.tasks)}
        names["SLURM_CPUS_PER_TASK"] = options.get("cpus-per-task", "")
        given |= {name: (value, why) for name, value in names.items() if value}
    for name, (value, why) in given.items():
        if re.search(rf"\b{name}\b", body):
            draft.put(("roles", ROLE, "env", name), value)
            draft.note(("roles", ROLE, "env", name), why)


def _without_srun(body: str, shape: _Shape, draft: Draft) -> str:
    """Return the script without `srun`, where launcher's own `srun` keeps the meaning."""
    documents = [*here_documents(body)]
    code = _commands(body, documents)
    calls = [(found.end() - len("srun"), *_call(body, found.end())) for found in _SRUN.finditer(code)]
    at = ("roles", ROLE, "args")
    tasks = [_tasks(options, shape) for _, _, options in calls]
    is_whole = len(calls) == len(re.findall(r"(?<![\w/.-])srun(?=\s)", code))
    if calls and not (is_whole and (set(tasks) == {1} or _is_alone(code, calls))):
        why = "make each a role with `num_replicas`, and `depends_on: {FIRST: succeeded}`"
        if len(calls) == 1:
            why = (
                "it is in a loop, a function or the background: a `matrix` makes a job of each turn of a loop"
            )
        draft.lose(at, f"{plural(len(calls), 'srun')} of {plural(max(tasks), 'task')}", why)
        calls = []
    for start, end, mark in documents:
        if _SRUN.search(body[start:end]):
            why = "it would run inside of the step that launcher starts: write its commands into the script"
            draft.lose(at, f"srun in the here-document {mark}", why)
    shape.replicas = tasks[0] if len(calls) == 1 else 1
    if shape.replicas > 1:
        draft.note(at, f"launcher starts {shape.replicas} of it by `srun`, and each runs the whole script")
        for line in _once(code):
            why = "each replica does it: if it must be done once, move it to `setup` in cfg"
            draft.lose(at, line, why)
    elif shape.nodes > 1:
        why = f"a script runs on one node: give its program to a role with `num_replicas: {shape.nodes}`"
        draft.lose(("cfg",), f"--nodes={shape.nodes}", why)
    for start, end, options in reversed(calls):
        body = body[:start] + re.sub(r"\A(?:[ \t]|\\\n)+", "", body[end:])
        for name, value in options.items():
            if name not in _OF_TASKS:
                why = "launcher starts the replicas by an `srun` of its own"
                draft.lose(at, f"srun {written(name, value)}", why)
    return body


def _commands(body: str, documents: Sequence[tuple[int, int, str]]) -> str:
    """Return the script with blanks in place of comments and here-documents."""
    pieces, at = [], 0
    for start, end, _ in documents:
        pieces += [body[at:start], re.sub(r"[^\n]", " ", body[start:end])]
        at = end
    return _COMMENT.sub(lambda found: " " * len(found[0]), "".join([*pieces, body[at:]]))


def _call(body: str, at: int) -> tuple[int, dict[str, str]]:
    """Return the end of the options of an `srun`, and the options."""
    words: list[str] = []
    is_value = False
    while found := _WORD.match(body, at):
        word = found[1]
        if not is_value and not word.startswith("-"):
            break
        words.append(word.strip("\"'"))
        name = word[2:] if word.startswith("--") else SHORT_OF_SRUN.get(word[1:2], word[1:2])
        is_bare = "=" not in word and (word.startswith("--") or len(word) == 2)
        is_value = not is_value and is_bare and name not in NO_VALUE
        at = found.end()
    return at, dict(pairs(words, SHORT_OF_SRUN))


def _tasks(options: Mapping[str, str], shape: _Shape) -> int:
    if "ntasks" in options:
        asked = options["ntasks"].strip("${}")
        return shape.tasks if asked in ("SLURM_NTASKS", "SLURM_NPROCS") else _number(asked)
    if "nodes" in options and options["nodes"].isdecimal():
        return _number(options["nodes"]) * _number(options.get("ntasks-per-node", "1"))
    return shape.tasks


def _is_alone(code: str, calls: Sequence[tuple[int, int, Mapping[str, str]]]) -> bool:
    """Whether an `srun` is the only one, in no loop or function, and in the foreground."""
    start, end, _ = calls[0]
    opened = len(re.findall(r"(?m)(?:^|;)\s*(?:for|while|until)\b|\)\s*\{|^\s*\{", code[:start]))
    closed = len(re.findall(r"(?m)(?:^|;)\s*(?:done|\})(?!\w)", code[:start]))
    line = re.match(r"(?:[^\\\n]|\\(?:.|\n))*", code[end:])
    is_behind = line is not None and re.search(r"(?<![&>])&\s*\Z", line[0]) is not None
    return len(calls) == 1 and opened == closed and not is_behind


def _once(code: str) -> Iterator[str]:
    """Yield the lines that do or give something else when each replica runs them."""
    joined = re.sub(r"\\\n", " ", code)
    for line in map(str.strip, joined.split("\n")):
        unquoted = re.sub(r"""'[^']*'|"[^"]*\"""", "", line)
        first = line.split()[:1]
        is_set = re.match(r"(?:export\s+|readonly\s+)?\w+\+?=", line)
        is_random = re.search(r"\bRANDOM\b|\bshuf\b|\bmktemp\b|/dev/u?random", line)
        is_call = "srun" in line.split()
        if is_call and re.search(r"(?<![<>&|])(?:\d?>|\|)(?![|&])", unquoted):
            yield "the file with the output of srun"
        elif is_random or (first and not is_set and not is_call and first[0] not in _HARMLESS):
            yield f"`{line}`"


# -- The resources that the job asks for


def _sizes(options: Mapping[str, str], shape: _Shape, draft: Draft) -> None:
    """Set cores, memory, GPUs and nodes, per replica where there is a field for them."""
    if shape.replicas >= shape.nodes and options.get("nodes", "").isdecimal():
        draft.put(("cfg", "nodes"), shape.nodes)
    elif "-" in options.get("nodes", "") and shape.replicas > 1:
        draft.lose(("cfg",), f"--nodes={options['nodes']}", "Slurm chooses their number: `nodes` takes one")
    if shape.replicas > 1 and options.get("ntasks-per-node", "").isdecimal():
        draft.put(("cfg", "ntasks_per_node"), int(options["ntasks-per-node"]))
    each = _number(options.get("cpus-per-task", "1"))
    cores = each if shape.replicas > 1 or shape.nodes > 1 else each * shape.tasks
    resource: dict[str, object] = {"cpu": cores} if cores > 1 or "cpus-per-task" in options else {}
    resource |= _memory(options, shape, cores, draft)
    resource |= _gpus(options, shape, draft)
    if resource:
        draft.put(("roles", ROLE, "resource"), resource)


def _memory(options: Mapping[str, str], shape: _Shape, cores: int, draft: Draft) -> dict[str, object]:
    asked = 0
    if shape.replicas == 1 and shape.nodes == 1:
        asked = mebibytes(options.get("mem", ""))
    if "mem" not in options:
        asked = mebibytes(options.get("mem-per-cpu", "")) * cores
    if asked >= _EXACT_MIB and asked % max(cores, 1) == 0:
        return {"memory": memory_text(asked)}
    for name in ("mem", "mem-per-cpu"):
        if name in options:
            draft.put(("cfg", "sbatch", name), options[name])
    return {}


def _gpus(options: Mapping[str, str], shape: _Shape, draft: Draft) -> dict[str, object]:
    for name in ("gpus-per-task", "gpus", "gpus-per-node"):
        if name not in options:
            continue
        kind, _, count = options[name].rpartition(":")
        divisor = {"gpus": shape.replicas}.get(name, 1)
        one_role = name != "gpus-per-task" or shape.replicas > 1 or shape.tasks == 1
        if name == "gpus-per-node":
            draft.put(("cfg", "gres"), f"gpu:{options[name]}")
        elif count.isdecimal() and int(count) % divisor == 0 and one_role:
            return {"gpu": int(count) // divisor, **({"gpu_type": kind} if kind else {})}
        else:
            draft.put(("cfg", "sbatch", name), options[name])
    return {}


_AMOUNTS = """
    cpus-per-task gpus gpus-per-node gpus-per-task job-name mem mem-per-cpu nodes ntasks ntasks-per-node
"""
_ELSEWHERE = frozenset(_AMOUNTS.split())


def _place(name: str, value: str, draft: Draft) -> None:
    """Place an option of sbatch other than a size."""
    shown = written(name, value)
    if name in _ELSEWHERE:
        return
    if name != "export" and masked(value) != value:
        draft.lose(("cfg",), shown, "it holds a secret, and options are written out")
    elif name in ("requeue", "no-requeue"):
        draft.put(("cfg", "on_preempted"), "requeue" if name == "requeue" else "fail")
    elif name == "array":
        _array(value, draft)
    elif name == "export":
        _export(value, draft)
    elif name == "chdir":
        if value.startswith("/"):
            draft.put(("cfg", "workdir"), value)
        else:
            draft.lose(("cfg",), shown, "`workdir` takes an absolute path on the cluster")
    elif name == "time":
        draft.put(("cfg", "time"), "UNLIMITED" if value in ("0", "-1") else value)
    elif name in OWN_OPTION:
        draft.put(("cfg", OWN_OPTION[name]), value)
    elif name in REFUSED:
        draft.lose(("cfg",), shown, REFUSED.get(name, REFUSED["container"]))
    elif name in KNOWN or not nearest(name, sorted(KNOWN)):
        draft.put(("cfg", "sbatch", name), value)
        if name not in KNOWN:
            draft.note(("cfg", "sbatch", name), "no option of sbatch itself: a plug-in of the cluster has it")
    else:
        draft.lose(("cfg",), shown, f"sbatch has no such option; it has `--{nearest(name, sorted(KNOWN))}`")


def _array(value: str, draft: Draft) -> None:
    spans, _, most = value.partition("%")
    found = [re.fullmatch(r"(\d{1,7})(?:-(\d{1,7})(?::(\d{1,7}))?)?", part) for part in spans.split(",")]
    ranges = [range(int(m[1]), int(m[2] or m[1]) + 1, int(m[3] or 1) or 1) for m in found if m]
    tasks = [task for each in ranges for task in each][: 1 << 20]
    if None in found or not tasks:
        draft.lose((), f"--array={value}", "it names no tasks")
        return
    if len(tasks) > MAX_JOBS:
        why = f"a matrix makes at most {MAX_JOBS:,} jobs: split it into files"
        draft.lose(("matrix",), f"tasks {tasks[MAX_JOBS]} to {tasks[-1]} of --array={value}", why)
        tasks = tasks[:MAX_JOBS]
    step = tasks[1] - tasks[0] if len(tasks) > 1 else 1
    is_even = len(ranges) == 1
    ends = [tasks[0], tasks[-1] + 1, *([step] if step > 1 else [])]
    draft.put(("matrix", "task"), {"range": ends} if is_even else tasks)
    if most.isdecimal() and int(most):
        draft.put(("max_parallel",), int(most))
    values = {"ID": "$<matrix.task>", "COUNT": len(tasks), "MIN": min(tasks), "MAX": max(tasks)}
    text = str(draft.fields["roles"][ROLE].get("args"))
    for name, each in values.items():
        if name == "ID" or f"SLURM_ARRAY_TASK_{name}" in text:
            draft.put(("roles", ROLE, "env", f"SLURM_ARRAY_TASK_{name}"), str(each))
    if "SLURM_ARRAY_JOB_ID" in text:
        why = "the tasks are jobs of their own: `$<job.name>` names each, SLURM_JOB_ID numbers it"
        draft.lose(("roles", ROLE, "args"), "SLURM_ARRAY_JOB_ID", why)
    draft.fates["array"] = f"the matrix, {plural(len(tasks), 'job')}" + (f", {most} at once" if most else "")


def _export(value: str, draft: Draft) -> None:
    parts = [part for part in value.split(",") if part not in ("", "ALL")]
    for part in parts:
        name, sign, text = part.partition("=")
        if part in ("NONE", "NIL"):
            draft.put(("cfg", "sbatch", "export"), part)
        elif sign and is_sensitive(name) and text:
            draft.hide(ROLE, name, text)
        elif sign:
            draft.put(("roles", ROLE, "env", name), draft.shell_text(ROLE, text))
        elif is_sensitive(name):
            draft.hide(ROLE, name)
        else:
            why = f"add it to `vars` with `from_env: {name}`, and `$<var.{name}>` to `env`"
            draft.lose(("roles", ROLE), f"--export={name}", why)
    draft.fates["export"] = "the variables of the role" if parts else "what launcher does"


def _folder(script: Script, draft: Draft) -> None:
    """Set the folder in which the script runs: sbatch uses the folder of its call."""
    if "workdir" in draft.fields["cfg"]:
        return
    draft.put(("workspace",), ".")
    text = (
        "sbatch runs the script where it is called; here it runs in a copy of this folder, which travels with"
    )
    draft.note(
        ("workspace",), f"{text} the job. `workdir` in cfg names a folder of the cluster in its place."
    )
