"""Warnings about a valid job file that may not mean what its author meant."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from itertools import pairwise
from typing import Any

from launcher import looks
from launcher.jobfile.compile.references import names_in
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
    elif not any(text.rpartition("/")[2] in SHELLS for text in (spec.entrypoint or "", *texts)):
        _advise_unexpanded(role, spec, texts, problems)
    for name, value in env.items() if isinstance(env, dict) else ():
        if isinstance(value, str):
            _advise_value(role, name, value, problems)


def _advise_unexpanded(role: str, spec: RoleSpec, texts: Sequence[str], problems: Collector) -> None:
    """Note arguments that only a shell would expand, where the command runs no shell."""
    program = os.path.basename(spec.entrypoint or "")
    for index, (before, text) in enumerate(zip(["", *texts], texts, strict=False)):
        path: Path = ("roles", role, "args", index)
        found = _SHELL_TEXT.fullmatch(text)
        if found is not None and before not in _CODE_FOLLOWS:
            part = found["part"] or found["operator"] or found["middle"]
            message = (
                f"no shell reads argument {index + 1} of role `{role}`: `{program}` gets `{part}` as it is"
            )
            label = "write the whole command as a script, in `run`"
            problems.add(path, "unexpanded-argument", message, label=label, part=part)
        _advise_spelling(text, path, problems)


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
