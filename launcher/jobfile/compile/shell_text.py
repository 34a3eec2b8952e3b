"""Warnings about the texts of a role that a shell reads, or that look as if one did."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from launcher import looks
from launcher.jobfile.messages.collector import Collector, listing, nearest
from launcher.jobfile.model.role import RoleSpec
from launcher.jobfile.text.document import Path
from launcher.specs.macros import HOST_VARIABLES, host_variable, serving
from launcher.specs.secret import is_sensitive, may_hold_secret

SHELLS = frozenset({"ash", "bash", "dash", "fish", "ksh", "sh", "zsh"})
_POSIX_SHELLS = SHELLS - {"fish"}
_SHELL_TEXT = re.compile(
    r"(?:--?[\w-]+=)?(?P<part>\$[A-Z_][A-Z0-9_]*|\$\{[A-Z_][A-Z0-9_]*\}"
    r"|\$\((?!(?:var|matrix)\.)\w[^()]*\)|~(?=/|\Z))(?:[/:.].*)?"
    r"|(?P<operator>\|\|?|&&|>>?|2>&1)"
    r"|(?![sy]\W)[\w.:/@,=+%-]+?(?P<middle>\$[A-Z_][A-Z0-9_]+)(?:[^\s{}\w][^\s{}]*)?"
)
"""A whole argument that a shell would expand: `--dir=${HOME}`, `tcp://$HOST:80`, `$(date)`, `~/data`, `|`."""

_SHELL_VALUE = re.compile(
    r"(?:[^\s$]*[:/=,@])?(?P<part>\$[A-Z_][A-Z0-9_]+|\$\{[A-Z_][A-Z0-9_]*\}|\$\(\w[^()]*\))(?:[:/,@.]\S*)?"
)
"""The whole value of a variable that a shell would expand: `/opt/bin:$PATH`, `${HOME}/data`, `$(nproc)`."""

_SECRET = re.compile(r"\$\{\{\s*secrets\.(?P<name>\w+)\s*\}\}")
"""An expression that GitHub Actions replaces, in its workflow files only."""

_CODE_FOLLOWS = frozenset({"-c", "-e", "--eval", "--expression"})
_MACROS = "app_id|replica_id|num_replicas|rank0_host|rank0_env"
_OTHER_SPELLING = re.compile(
    rf"(?<![\w$])\$(?P<dollar>{_MACROS})(?![\w.])"
    rf"|\$?\{{\{{[ \t]*(?P<braces>{_MACROS})[ \t]*\}}\}}"
    rf"|(?<![\w$<])<(?P<angle>{_MACROS})>"
)
"""A macro as other tools would write it: `$app_id`, `{{ app_id }}`, `<app_id>`."""

_GOES_ON = ("&&", "||", "|", ";", "(", "{", " do", " then", " else")
"""The end of a script line that may continue on the next line: there, a blank equals a line end."""

_FOLLOWS_ON = ("-", "&&", "|", ";", ")", "}")
_WORD = re.compile(r"[\w./-]+")
_VALUE_FOLLOWS = frozenset({"-o", "+o", "-O", "+O", "--init-file", "--rcfile"})
_LONGEST = 60
"""The most characters of a value that a label repeats."""


def advise_shell_text(
    role: str, spec: RoleSpec, texts: Sequence[str], env: Any, folder: str, problems: Collector
) -> None:
    """Note arguments and variables of a role, as written in its file, that no shell expands as they look."""
    path: Path = ("roles", role)
    if spec.run is not None:
        _advise_joined((*path, "run"), problems)
    elif os.path.basename(spec.entrypoint or "") in _POSIX_SHELLS:
        _advise_operands(role, spec, texts, folder, problems)
    elif not _has_shell((spec.entrypoint or "", *texts)):
        _advise_unexpanded(role, spec, texts, problems)
    if spec.ready is not None and not _has_shell(spec.ready.command):
        _advise_probe(role, spec.ready.command, problems)
    for name, value in env.items() if isinstance(env, dict) else ():
        if isinstance(value, str):
            _advise_value(role, name, value, problems)


def _advise_unexpanded(role: str, spec: RoleSpec, texts: Sequence[str], problems: Collector) -> None:
    """Note arguments that only a shell would expand, where the command runs no shell."""
    program = os.path.basename(spec.entrypoint or "")
    for index, part in _unexpanded(texts):
        path: Path = ("roles", role, "args", index)
        message = f"no shell reads argument {index + 1} of role `{role}`: `{program}` gets `{part}` as it is"
        label = "write the whole command as a script, in `run`"
        problems.add(path, "unexpanded-argument", message, label=label, part=part)
    for index, text in enumerate(texts):
        _advise_spelling(text, ("roles", role, "args", index), problems)


def _advise_probe(role: str, command: Sequence[str], problems: Collector) -> None:
    """Note words of a probe's command that only a shell would expand, where the command runs no shell."""
    for index, part in _unexpanded(command):
        path: Path = ("roles", role, "ready", "command", index)
        message = f"no shell reads the command of this probe: `{command[0]}` gets `{part}` as it is"
        problems.add(path, "unexpanded-argument", message, label=_in_shell(command, problems), part=part)


def _unexpanded(words: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Yield the index of each word that a shell would expand, and the part of it."""
    for index, (before, text) in enumerate(zip(["", *words], words, strict=False)):
        found = _SHELL_TEXT.fullmatch(text)
        if found is not None and before not in _CODE_FOLLOWS:
            yield index, found["part"] or found["operator"] or found["middle"]


def _in_shell(command: Sequence[str], problems: Collector) -> str:
    """Return the label with a command as the script of a shell."""
    if any(is_sensitive(word) or may_hold_secret(word) for word in command):
        return "have a shell run it: `[sh, -c, SCRIPT]`"
    return f"write `{problems.entry('command', ['sh', '-c', ' '.join(command)])}`"


def _advise_value(role: str, name: str, value: str, problems: Collector) -> None:
    """Note a variable whose value a shell or GitHub would expand, since replicas get the value as written."""
    path: Path = ("roles", role, "env", name)
    if (secret := _SECRET.search(value)) is not None:
        message = f"`{name}` of role `{role}` is `{secret[0]}` itself: only workflows of GitHub fill that in"
        label = f"write {problems.secret(secret['name'])}"
        hint = f"and give {secret['name']} to the step that runs launcher, in its `env`"
        problems.add(path, "unexpanded-variable", message, label=label, hint=hint)
    elif (found := _SHELL_VALUE.fullmatch(value)) is not None and not problems.is_broken(path):
        part = found["part"]
        message = f"no shell reads the value of `{name}` of role `{role}`: it has `{part}` as it is"
        label = "set it in `run`, with `export`"
        hint = ""
        if is_sensitive(name) and (whole := re.fullmatch(r"\$\{?(\w+)\}?", value)):
            label, hint = f"write {problems.secret(whole[1])}", f"or {label}"
        is_shown = not (is_sensitive(name) or may_hold_secret(value))
        if is_shown and len(value) <= _LONGEST and '"' not in value:
            label = f'set it in `run`: `export {name}="{value}"`'
        problems.add(path, "unexpanded-variable", message, label=label, hint=hint, part=part)
    _advise_spelling(value, path, problems)


def _advise_spelling(text: str, path: Path, problems: Collector) -> None:
    for found in _OTHER_SPELLING.finditer(text):
        message = f"`{found[0]}` is no reference, and stays as it is"
        label = f"write `$<{found['dollar'] or found['braces'] or found['angle']}>`"
        problems.add(path, "lookalike-reference", message, label=label, part=found[0])


def _advise_operands(
    role: str, spec: RoleSpec, texts: Sequence[str], folder: str, problems: Collector
) -> None:
    """Note a script in the place where a shell expects a file, and a word where it expects a script."""
    shell = os.path.basename(spec.entrypoint or "")
    index, reads = _first_operand(texts)
    if index is None or "$" in texts[index] or reads == "stdin":
        return
    path: Path = ("roles", role, "args", index)
    text = texts[index]
    if reads == "file" and len(text.split()) > 1 and not looks.exists(os.path.join(folder, text)):
        message = f"`{shell}` takes argument {index + 1} of role `{role}` for the name of a file"
        label = "write it as a script, in `run` in place of `entrypoint` and `args`"
        problems.add(path, "shell-argument", message, label=label, hint="or put `-c` before it")
    elif reads == "script" and texts[index + 1 :] and _WORD.fullmatch(text):
        words = texts[index:]
        message = f"`{shell} -c` runs `{text}` alone: what follows it are `$0`, `$1`, … of that script"
        label = "write the whole command as a script, in `run`"
        if not any(is_sensitive(word) or may_hold_secret(word) for word in words):
            label += f": `{problems.entry('run', shlex.join(words))}`"
        problems.add(path, "shell-argument", message, label=label)


def _first_operand(texts: Sequence[str]) -> tuple[int | None, str]:
    """Return the index of a shell's first operand, and how the shell reads it."""
    reads = "file"
    is_value = False
    for index, text in enumerate(texts):
        if is_value:
            is_value = False
        elif text == "--":
            return (index + 1 if index + 1 < len(texts) else None), reads
        elif text[:1] not in ("-", "+") or text == "-":
            return index, reads
        elif text in _VALUE_FOLLOWS:
            is_value = True
        elif not text.startswith("--"):
            reads = "script" if "c" in text else "stdin" if "s" in text and reads == "file" else reads
            is_value = text.endswith("o")
    return None, reads


def _advise_joined(path: Path, problems: Collector) -> None:
    """Note a script whose lines YAML has joined, unless they read as one command."""
    found = problems.document.value_range(path)
    written = found.text
    if found.source.format != "yaml" or written[:1] in ("|", "'", '"', "") or "\n" not in written:
        return
    for before, after in _joined(written):
        goes_on = before.endswith(_GOES_ON) or after.startswith(_FOLLOWS_ON)
        if before.endswith("\\") or not goes_on:
            message = "YAML joins the lines of this script: the shell gets them as one"
            label = "write `run: |`, and the lines stay"
            hint = r"where it is one command, end each line but the last with ` \` as well"
            problems.add(path, "joined-lines", message, label=label, hint=hint)
            return


def _joined(written: str) -> Iterator[tuple[str, str]]:
    """Yield the pairs of lines that YAML joins with a blank: not empty, and in `>` not indented further."""
    is_folded = written.startswith(">")
    lines = written.splitlines()[1 if is_folded else 0 :]
    least = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    for before, after in pairwise(lines):
        is_deeper = is_folded and any(line[least : least + 1].isspace() for line in (before, after))
        if before.strip() and after.strip() and not is_deeper:
            yield before.strip(), after.strip()


# -- variables of launcher ---------------------------------------------------------------------------------

_OURS = "LAUNCHER_"
_OF_REPLICAS = frozenset(
    _OURS + name
    for name in (
        *("ATTEMPT", "EDITION", "JOB_ID", "NEEDS", "OUTPUT_DIR", "PARENT_RUN_ID"),
        *("RANK0_HOST", "RESTART", "SCRATCH"),
    )
)
_SETTINGS = frozenset(
    _OURS + name
    for name in (
        *("COMPONENTS", "COMPONENT_TIMEOUT", "CONFIG", "GPUS", "HOME", "SLOTS", "SLURM_HOST"),
        *("TRACKING_EXPERIMENT_NAME", "TRACKING_RUN_NAME"),
    )
)
"""Settings of the command, which local replicas inherit, and variables that a component sets."""

_READ = re.compile(r"(?<![\\$])\$(?:\{(LAUNCHER_\w+)\}|(LAUNCHER_\w+))")
"""A variable that a shell reads without a default, unlike `${LAUNCHER_RESTART:-0}`."""


def advise_unset(role: str, roles: Mapping[str, RoleSpec], copied: bool, problems: Collector) -> None:
    """Note variables of ours that a shell of the role reads and no replica has.

    Args:
        copied: whether containers may get further variables from the client.
    """
    texts = dict(_read_by_shells(role, roles[role]))
    whole = "\n".join(texts.values())
    if _OURS not in whole or copied:
        return
    known = {*_OF_REPLICAS, *map(host_variable, serving(roles)), *roles[role].env}
    for path, text in texts.items():
        for found in _READ.finditer(text):
            name = found[1] or found[2]
            is_set = re.search(rf"(?<![${{\w]){name}\b", whole)
            if name not in known | _SETTINGS and not is_set:
                label, hint = _instead_of(name, "ready" in path, known, roles, problems)
                message = f"`{found[0]}` names nothing: replicas have no such variable"
                problems.add(
                    *(path, "unknown-reference", message),
                    label=label,
                    hint=hint,
                    severity="warning",
                    part=found[0],
                )


def _instead_of(
    name: str, is_of_probe: bool, known: Collection[str], roles: Collection[str], problems: Collector
) -> tuple[str, str]:
    """Return a label and a hint for a variable that replicas do not have."""
    for role in roles:
        if host_variable(role) == name:
            macro = f"$<role.{role}.host>"
            label = f"set it in `env`: `{problems.entry(name, macro)}`" if is_of_probe else f"write `{macro}`"
            return label, "replicas have the hosts of services, of roles with a probe, and of awaited roles"
    start = HOST_VARIABLES if name.startswith(HOST_VARIABLES) else ""
    near = nearest(name[len(start) :], [each[len(start) :] for each in known if each.startswith(start)])
    return f"did you mean `${start}{near}`?" if near else "", listing("they have", known)


def _read_by_shells(role: str, spec: RoleSpec) -> Iterator[tuple[Path, str]]:
    """Yield the texts of a role that a shell reads, with their paths."""
    if spec.run is not None:
        yield ("roles", role, "run"), spec.run
    if _has_shell((spec.entrypoint or "", *spec.args)):
        yield from ((("roles", role, "args", index), text) for index, text in enumerate(spec.args))
    if spec.ready is not None and _has_shell(spec.ready.command):
        at: Path = ("roles", role, "ready", "command")
        yield from (((*at, index), text) for index, text in enumerate(spec.ready.command))


def _has_shell(words: Sequence[str]) -> bool:
    return any(word.rpartition("/")[2] in SHELLS for word in words)
