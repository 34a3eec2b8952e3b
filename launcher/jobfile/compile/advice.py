"""Warnings about a valid job file that may not mean what its author meant."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterable, Mapping, Set
from typing import Any

from launcher import looks
from launcher.jobfile.compile.references import names_in
from launcher.jobfile.compile.shell_text import SHELLS, advise_shell_text, advise_unset
from launcher.jobfile.compile.variables import AnyVar, reads_secret
from launcher.jobfile.messages.collector import Collector, nearest
from launcher.jobfile.model.fields import around
from launcher.jobfile.model.job_file import JobFile
from launcher.jobfile.model.role import RoleSpec
from launcher.jobfile.text.document import BLANKS, Document, Path, blank_name, leaves
from launcher.jobfile.text.toml_positions import newer_toml
from launcher.specs.check import SET_FOR_REPLICAS
from launcher.specs.secret import is_sensitive, may_hold_secret
from launcher.specs.text import shell_words

_PAIRS = {"“": "”", "„": "“”", "”": "”", "‘": "’", "‚": "‘’"}
_DOUBLE = "“”„"
_PROSE = frozenset({"description", "metadata", "help", "tags"})
"""Keys whose text is for people, so that a quote in it means nothing else."""


def advise_text(document: Document, problems: Collector) -> None:
    """Note characters that look like others, and TOML that few tools read."""
    source = document.source
    if source.format == "toml":
        for start, end, what, label in newer_toml(source.text):
            message = f"{what} is TOML 1.1, and many tools read TOML 1.0 only"
            problems.found.append(source.diagnostic(start, end, "newer-toml", message, label=label))
        if "'" in source.text and "\\" in source.text:
            _advise_escapes(document, problems)
    elif not source.text.isascii():
        for path, text in leaves(document.value):
            if isinstance(text, str) and not text.isascii() and not any(map(_is_prose, path)):
                _advise_characters(path, text, problems)


_ESCAPE = re.compile(r"\\[nt\"]")
_OTHER_ESCAPE = re.compile(r"\\[^nt\"]|[*+?\[(|^%]")
"""Signs of a pattern, path or format, whose program gives `\\n` a meaning of its own."""


def _advise_escapes(document: Document, problems: Collector) -> None:
    """Note `\\n` in single quotes, two characters to TOML, in texts that no program reads as code."""
    for path, text in leaves(document.value):
        is_plain = isinstance(text, str) and {"env", "description", "metadata"} & {*path}
        if not is_plain or not (found := _ESCAPE.search(text)) or _OTHER_ESCAPE.search(text):
            continue
        written = document.value_range(path).text
        if written.startswith("'") and not written.startswith("'''"):
            message = f"`{found[0]}` in single quotes is two characters of the value"
            problems.add(path, "lookalike-character", message, label="write double quotes", part=found[0])


def _is_prose(key: str | int) -> bool:
    return isinstance(key, str) and (key in _PROSE or key.startswith("x-"))


def _advise_characters(path: Path, text: str, problems: Collector) -> None:
    if not problems.document.value_range(path).text.startswith(text[:1]):
        return  # a text in quotes or of several lines was written like this on purpose
    if _looks_quoted(text):
        message = "these are typographic quotes, and part of the value"
        problems.add(path, "lookalike-character", message, label="write plain ones: \" or '")
    elif re.match(r"[–—−][\w–—−]", text):
        message = f"the value begins with a typographic dash, U+{ord(text[0]):04X}, and no hyphen"
        problems.add(path, "lookalike-character", message, label="write `-` or `--`")
    elif text.strip(BLANKS) != text:
        char, where = (text[0], "begins") if text[0] in BLANKS else (text[-1], "ends")
        message = f"the value {where} with a {blank_name(char)}, which is part of it"
        problems.add(path, "lookalike-character", message, label="delete it")


def _looks_quoted(text: str) -> bool:
    """Whether a text is in typographic quotes, or has a double one at only one of its ends."""
    doubles = sum(char in _DOUBLE for char in text)
    if len(text) > 1 and text[-1] in _PAIRS.get(text[0], ""):
        return doubles in (0, 2)  # “a” or “b” may be a sentence
    # `[“a, b”]` in brackets is two texts. A single quote alone is an apostrophe.
    return doubles == 1 and (text[0] in "“„" or text[-1] == "”")


_VALUE = r"""(?:'[^']*'|"[^"]*"|[^\s'"-]\S*)"""
_OPTION = r"--?[A-Za-z][\w-]*"
_OPTIONS = re.compile(rf"{_OPTION}[ \t]+{_VALUE}(?:[ \t]+{_OPTION}(?:[ \t]+{_VALUE})?)*")
"""Matches options that each have at most one value; a sentence never looks like this."""

_SHELL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_WINDOWS_PATH = re.compile(r"[A-Za-z]:\\|\\\\")
_PROGRAM_NAME = re.compile(r"[^\W\d][\w.:-]*")
"""`discovery.type`, `ConnectionStrings:Main`: variable names that some programs read, and shells drop."""


def advise_variables(specs: Mapping[str, AnyVar], value: Any, problems: Collector) -> None:
    """Note variables and values of `include` without a reference in the file `value`, and variables that read
    a secret."""
    used = names_in({key: part for key, part in value.items() if key != "vars"})
    for name, spec in specs.items():
        if spec.from_env is not None and reads_secret(name, spec):
            message = (
                f"`{spec.from_env}` looks like a secret, and variable `{name}` writes it into the document"
            )
            hint = f"write {problems.secret(spec.from_env)} in a role's env: it is read while submitting"
            problems.add(("vars", name, "from_env"), "secret-variable", message, hint=hint)
        if f"var.{name}" not in used:
            message = f"variable `{name}` is never used"
            label = f"use it as `$<var.{name}>`, or delete it"
            problems.add(("vars", name), "unused-variable", message, at="key", label=label)
    for name, path in _further(value).items():
        if f"matrix.{name}" not in used:
            message = f"value `{name}` of `include` is never used"
            label = f"use it as `$<matrix.{name}>`, or delete it"
            problems.add(path, "unused-variable", message, at="key", label=label)


def _further(value: Mapping[str, Any]) -> dict[str, Path]:
    """Return name → first place of the values that `include` gives beside the axes, also in targets."""
    targets = value.get("targets")
    above: list[tuple[Path, Any]] = [((), value)]
    above += (
        [(("targets", name), over) for name, over in targets.items()] if isinstance(targets, dict) else []
    )
    matrices = [((*path, "matrix"), part.get("matrix")) for path, part in above if isinstance(part, dict)]
    found: dict[str, Path] = {}
    for path, matrix in matrices:
        items = matrix.get("include") if isinstance(matrix, dict) else None
        for index, item in enumerate(items if isinstance(items, list) else ()):
            for name in item if isinstance(item, dict) else ():
                found.setdefault(name, (*path, "include", index, name))
    axes = {name for _, matrix in matrices if isinstance(matrix, dict) for name in matrix}
    return {
        name: path
        for name, path in found.items()
        if name not in axes and nearest(name, axes) is None and not name.startswith("x-")
    }


def advise(job: JobFile, folder: str, problems: Collector, common: Collection[str] = frozenset()) -> None:
    """Note images without a pinned tag, literal secrets, and whole commands in place of a program.
    `common` names the fields that `defaults` has for all roles."""
    given = (problems.document.value or {}).get("roles")
    written = given if isinstance(given, dict) else {}  # of a wrong file, the job may have a stand-in
    for name, role in ((name, role) for name, role in job.roles.items() if name in written):
        args = written[name].get("args")
        # Arguments as written, with their references, each with the argument before it.
        texts = [item if isinstance(item, str) else "" for item in args] if isinstance(args, list) else []
        pairs = [*zip(["", *texts], texts, strict=False)]
        _advise_entrypoint(name, role.entrypoint or "", folder, problems)
        _advise_args(name, pairs, problems)
        advise_shell_text(name, role, texts, written[name].get("env"), folder, problems)
        advise_unset(name, job.roles, bool(job.cfg.get("copy_env")), problems)
        _advise_names(name, role, problems)
        _advise_fields(name, role, written[name].keys(), problems)
        _advise_unused(name, written[name].keys(), common, problems)
        if role.image.endswith(":latest"):
            message = f"the image of role `{name}` is not pinned: tag `latest` may change"
            problems.add(("roles", name, "image"), "unpinned-image", message, label="name a version")
        _advise_env(role.env, ("roles", name, "env"), f"role `{name}`", problems)
    _advise_env(job.cfg.get("env"), ("cfg", "env"), "`cfg.env`", problems)


def _advise_args(role: str, args: Iterable[tuple[str, str]], problems: Collector) -> None:
    """Note options that share one argument with their values."""
    for index, (before, text) in enumerate(args):
        # The argument after an option may be its value: `--extra-args`, `--lr 0.1`.
        path: Path = ("roles", role, "args", index)
        if _takes_items(text, path, problems):
            message = (
                f"argument {index + 1} of role `{role}` holds the items below it: they are indented deeper"
            )
            problems.add(path, "command-line", message, label="indent each item alike")
            continue
        is_value = before.startswith("-") and "=" not in before
        if is_value or not _OPTIONS.fullmatch(text):
            continue
        words = shell_words(text) or []
        message = f"argument {index + 1} of role `{role}` is an option and its value, with a space in between"
        label = "make each word an item"
        if words and not any(map(is_sensitive, words)):
            label += ": " + json.dumps(words, ensure_ascii=False)[1:-1]
        problems.add(path, "command-line", message, label=label)


def _takes_items(text: str, path: Path, problems: Collector) -> bool:
    """Whether an unquoted text continues with a line that looks like the next item of its list."""
    if "- " not in text:
        return False
    source, start, end = problems.document.value_range(path)
    written = source.text[start:end]
    return source.format == "yaml" and written[:1] not in "|>'\"" and bool(re.search(r"\n *- ", written))


def _advise_unused(role: str, fields: Set[str], common: Collection[str], problems: Collector) -> None:
    """Note fields that have no effect in their role. Fields in `common` are meant for other roles too."""
    own = fields - set(common)
    if "shell" in own and "run" not in fields:
        message = f"`shell` of role `{role}` has no effect: it names the shell of `run`, and there is none"
        hint = "or write the command as a script, in `run` in place of `entrypoint` and `args`"
        path = ("roles", role, "shell")
        problems.add(path, "unused-field", message, at="key", label="delete it", hint=hint)
    if "retry_delay" in own and "max_retries" not in fields:
        message = f"`retry_delay` of role `{role}` has no effect: without `max_retries` it is never restarted"
        label = f"add `{problems.entry('max_retries', 3)}`"
        path, reads = ("roles", role, "retry_delay"), [("roles", role, "max_retries")]
        problems.add(path, "unused-field", message, at="key", label=label, reads=reads)


def _advise_names(role: str, spec: RoleSpec, problems: Collector) -> None:
    """Note environment variables that the role's program cannot see, or sees with another value."""
    is_shell = spec.run is not None or os.path.basename(spec.entrypoint or "") in SHELLS
    for name in spec.env:
        path = ("roles", role, "env", name)
        if problems.is_broken(path):
            continue
        if name in SET_FOR_REPLICAS:
            message = f"`{name}` of role `{role}` is not used: every replica gets its own"
            problems.add(path, "overridden-variable", message, at="key", label="delete it")
        elif not _SHELL_NAME.fullmatch(name) and (is_shell or not _PROGRAM_NAME.fullmatch(name)):
            message = f"no shell can use a variable called `{name}`"
            near = re.sub(r"\W", "_", name.strip(), flags=re.ASCII)
            label = f"such as `{f'_{near}' if near[:1].isdigit() else near}`"
            hint = "letters, digits and `_`, no digit first"
            problems.add(path, "env-name", message, at="key", label=label, hint=hint)


def _advise_fields(role: str, spec: RoleSpec, fields: Set[str], problems: Collector) -> None:
    """Note variables of the environment under the name of a field that the role or the job does not set.

    In TOML, every key below `[roles.main.env]` is a variable; in YAML, every key that is indented too far.
    """
    job = (problems.document.value or {}).keys()
    for name in spec.env:
        path: Path = ("roles", role, "env", name)
        home = around(path[:-1], name)
        if home is None or name in (fields if home else job) or problems.is_broken(path):
            continue
        whose = f"role `{role}`" if home else "the job"
        message = f"`{name}` is a variable of the environment here, and has the name of a field of {whose}"
        label = f"move it out of `env`, to the fields of {whose}"
        hint = (
            "in TOML, a key belongs to the [table] above it"
            if problems.document.format_at(path) == "toml"
            else ""
        )
        problems.add(path, "misplaced-field", message, at="key", label=label, hint=hint)


def _advise_env(env: Any, path: Path, whose: str, problems: Collector) -> None:
    for variable, value in env.items() if isinstance(env, dict) else ():
        if isinstance(value, str) and value and "$" not in value and is_sensitive(variable):
            message = f"`{variable}` of {whose} looks like a secret, and its value is written out"
            there = "" if path[0] == "roles" else " in a role's env"
            hint = (
                f"write {problems.secret(variable)}{there}: it is read while submitting, and stored nowhere"
            )
            problems.add((*path, variable), "secret-literal", message, at="key", hint=hint)


def _advise_entrypoint(role: str, text: str, folder: str, problems: Collector) -> None:
    words = (shell_words(text) or text.split()) if any(char.isspace() for char in text) else []
    if len(words) < 2 or "$<" in text or "${" in text or _WINDOWS_PATH.match(text):
        return
    if looks.exists(os.path.join(folder, text)):
        return
    message = f"the entrypoint of role `{role}` is one program, and this looks like one with its arguments"
    is_shown = not may_hold_secret(text)
    hint = f"write {problems.command(words)}" if is_shown else "make each word an item of `args`"
    problems.add(("roles", role, "entrypoint"), "command-line", message, hint=hint)
