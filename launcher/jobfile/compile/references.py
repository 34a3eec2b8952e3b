"""Resolve references (`$<var.lr>`, `$<job.name>`) in a parsed file, and keep texts as they were written."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from typing import Any

from launcher.jobfile.compile.matrix import MARK, NO_MATRIX, Combination, fitted, slug
from launcher.jobfile.compile.project import GIT_NAMES, GitFacts, Trouble
from launcher.jobfile.compile.variables import Value
from launcher.jobfile.messages.collector import At, Collector, listing, nearest, place_name
from launcher.jobfile.model.fields import WHERE_RUN
from launcher.jobfile.model.types import PlaceKind
from launcher.jobfile.text.document import Path
from launcher.specs.macros import (
    RUN_MACROS,
    MacroError,
    find_macros,
    is_run_macro,
    job_of_output,
    role_of_host,
    substitute,
    substitute_partial,
)
from launcher.specs.outputs import output_macro
from launcher.specs.secret import hide, is_sensitive

JOB_DIR = "job.dir"
MAX_GROWTH = 1 << 20
"""The most characters that references may add to one job: a long variable may be used very often."""

_NAME = r"[A-Za-z_][A-Za-z0-9_.\-]*"
# A second `$` in front makes a reference plain text: `$${var.lr}`.
_NEAR = re.compile(
    rf"(?<!\$)\$(?:<[ \t]*(?P<open>{_NAME})(?:[ \t]*>)?|\{{\{{?[ \t]*(?P<brace>{_NAME})[ \t]*\}}?\}}"
    rf"|\((?P<paren>{_NAME})\))"
    rf"|(?<!\$)\{{\{{[ \t]*(?P<template>(?:var|matrix)\.{_NAME})[ \t]*\}}\}}"
)
_PHASES = ("var.", "matrix.", "job.", "git.", "target.", "needs.", "role.")

_INNER = rf"\$<{_NAME}>"
_NESTED = re.compile(rf"(?P<escape>\$?)(?P<whole>\$<[A-Za-z0-9_.\-]*(?:{_INNER}[A-Za-z0-9_.\-]*)+>)")
"""A reference with others in its name: `$<needs.prepare-$<matrix.day>.output_dir>`."""
_IN_PROBE = "the command of a probe has the variables of its replica: set one to `{}` in `env` of the role"
_NAMES_VALUES = "values of a `matrix` may stand in the name of its jobs: `$<matrix.lr>`"
_NESTS = "$<needs.NAME.output_dir> and $<role.NAME.host>"

_FOREIGN_NAMES = {
    **dict.fromkeys(("job.id", "app.id", "run_id", "job_id"), "app_id"),
    **dict.fromkeys(("rank", "replica", "index", "node_rank"), "replica_id"),
    **dict.fromkeys(("world_size", "size", "replicas"), "num_replicas"),
    **dict.fromkeys(("output", "outputs", "out", "output.dir"), "output_dir"),
    **dict.fromkeys(("git.commit", "git.hash", "git.rev", "commit", "sha"), "git.sha"),
}
"""Names of references in other tools → our names."""

_IDENTITY: tuple[Path, ...] = (("project",), ("matrix",), ("needs",))
"""The fields that identify a job and its needs."""
_JOB_NAME = PlaceKind(job_names=True)


class References:
    """Resolves the references of one file. Faults go to `problems`.

    Attributes:
        values: name → value of everything that is known while compiling: `var.…`, `matrix.…`, `job.name`.
            A Value with None is wrong and was reported.
        git: resolves `git.…`; git is asked only for references in the file.
        combination: the combination of the matrix, whose values are among `values`.
    """

    def __init__(
        self,
        problems: Collector,
        values: Mapping[str, Value],
        git: GitFacts | None = None,
        combination: Combination = NO_MATRIX,
    ) -> None:
        self.git = git or GitFacts(None)
        self.combination = combination
        self.problems = problems
        self.document = problems.document
        self.values = dict(values)
        self._at: At = "value"
        self._grown = 0
        self._is_full = False

    def resolve(self, value: Any, place: PlaceKind, path: Path) -> Any:
        """Return `value` with references resolved, without `x-` keys, with numbers as text where needed."""
        if isinstance(value, str):
            return value if _is_plain(value) else self._text(value, place, path)
        if isinstance(value, dict):
            return self._mapping(value, place, path)
        if isinstance(value, list):
            below = place.each or place
            return [
                item if _is_plain(item) else self.resolve(item, below, (*path, index))
                for index, item in enumerate(value)
            ]
        if value is None:
            return value if place.nulls else self._nothing(place, path)
        if isinstance(value, bool) and self.document.format_at(path) == "toml":
            return str(value).lower() if place.as_written else value
        if place.as_written:
            return self.document.raw(path)
        if isinstance(value, float) and not math.isfinite(value):
            message = f"{place_name(path)} is no finite number"
            self.problems.add(path, "invalid-value", message, label="write a number", is_final=True)
        elif not isinstance(value, bool | int | float):
            return self.document.raw(path)  # a TOML date becomes text, as in YAML
        return value

    def job_name(self, key: str, path: Path) -> str:
        """Return the name of a job in a key, with its references resolved."""
        self._at = "key"
        try:
            return str(self._text(key, _JOB_NAME, path)) if "$" in key else key
        finally:
            self._at = "value"

    def _mapping(self, value: dict[str, Any], place: PlaceKind, path: Path) -> dict[str, Any]:
        out: dict[str, Any] = {}
        fields, each = place.fields, place.each or place
        for key, inner in value.items():
            if fields is None and "$" in key and not place.job_names and find_macros(key):
                message = "references stand in values, not in keys"
                self.problems.add((*path, key), "reference-phase", message, at="key", is_final=True)
            below = each if fields is None else fields.get(key)
            if below is not None and not _is_plain(inner):
                out[key] = self.resolve(inner, below, (*path, key))
            elif below is not None or not key.startswith("x-"):
                out[key] = inner
        return out

    def _nothing(self, place: PlaceKind, path: Path) -> None:
        label = 'write a value, "" for an empty text, or delete the line'
        key = self.document.key_range(path)
        if key.source.format == "yaml" and re.search(r": +#\S", key.source.line(key.line)):
            label = "`#` begins a comment: put text with it in quotes"
        if not place.as_written and (place.fields is not None or place.each is not None):
            label = "indent its fields below it, or delete the line"
        message = f"{place_name(path)} has no value"
        self.problems.add(path, "wrong-type", message, label=label, at="key", is_final=True)

    def _text(self, text: str, place: PlaceKind, path: Path) -> Any:
        if "\0" in text:
            message = f"{place_name(path)} holds a NUL character"
            self.problems.add(path, "invalid-value", message, label="delete it", is_final=True)
            return text
        inner: tuple[str, ...] = ()
        written: dict[str, str] = {}
        if text.count("$<") > 1 and _NESTED.search(text):
            flat = self._flattened(text, place, path, written)
            if flat is None:
                self.problems.broken.add(path)  # reported here, or where the variable is defined
                return text
            text, inner = flat
        found = find_macros(text)
        if place.mode != "never" and path != ("description",):
            self._advise(text, path)
        before = len(self.problems.found)
        spelt = ((name, written.get(text[start:end], text[start:end])) for name, start, end in found)
        known = [name for name, each in spelt if self._is_known(name, each, place, path)]
        if len(self.problems.found) > before or any(self.values[name].value is None for name in known):
            self.problems.broken.add(path)  # reported here, or where the variable is defined
            return text
        values = {name: self.values[name] for name in known}
        if known or inner:
            self.problems.sources[path] = (*known, *inner)
        if any(self.values[name].is_assumed for name in (*known, *inner)):
            self.problems.assumed.add(path)
        is_alone = len(known) == 1 and found[0][1:] == (0, len(text))
        if is_alone and not place.as_written and place.mode != "matrix":
            value = values[known[0]]
            self.problems.spelt[path] = value.text
            # Return the value of a reference that is the whole text, with its type.
            is_text = isinstance(value.value, str) and place.mode != "plain"
            return substitute_partial("$<value>", {"value": value.value}) if is_text else value.value
        if not place.job_names:
            return self._filled(text, {name: value.text for name, value in values.items()}, place, path)
        # Values are spelled as in the names of matrix jobs. A text that is no axis value may be a job's name.
        mark = self.combination.mark if path == ("name",) else MARK
        parts = {name: _part_of_name(name, value, mark) for name, value in values.items()}
        return fitted(self._filled(text, parts, place, path), mark) if parts else text

    def _flattened(
        self, text: str, place: PlaceKind, path: Path, written: dict[str, str]
    ) -> tuple[str, tuple[str, ...]] | None:
        """Return `text` with references inside references resolved, and their names; None if one is wrong.

        Their values become parts of names, as in `needs`. An escaped reference stays escaped.

        Args:
            written: gets each resulting reference → its text in the file.
        """
        before = len(self.problems.found)
        names: list[str] = []

        def flat(found: re.Match[str]) -> str:
            whole, parts = found["whole"], find_macros(found["whole"])
            spelt = ((name, whole[start:end]) for name, start, end in parts)
            known = [name for name, each in spelt if self._is_part(name, each, place, path)]
            names.extend(known)
            if len(known) < len(parts) or any(self.values[name].value is None for name in known):
                return found[0]
            result = substitute(whole, {name: _part_of_name(name, self.values[name]) for name in known})
            name = result[2:-1]
            if (job := job_of_output(name)) is not None:
                result = f"$<{output_macro(fitted(job))}>"
            elif role_of_host(name) is None and not found["escape"]:
                message = f"`{whole}` is no reference: other references stand only within {_NESTS}"
                hint = f"for the text itself write `${whole}`"
                self._note(path, "unknown-reference", message, whole, hint=hint)
            written[result] = whole
            return found["escape"] + result

        result = _NESTED.sub(flat, text)
        if len(self.problems.found) > before or any(self.values[name].value is None for name in names):
            return None
        if deeper := _NESTED.search(result):
            message = f"`{deeper['whole']}` is a reference within a reference within a reference"
            self._note(path, "unknown-reference", message, "", label="only one may stand within another")
            return None
        return result, tuple(dict.fromkeys(names))

    def _is_part(self, name: str, written: str, place: PlaceKind, path: Path) -> bool:
        """Whether the value of a name can be a part of another name. Notes a name whose value cannot."""
        if is_run_macro(name) or name == JOB_DIR:
            message = f"`{written}` is known only when the job runs, and cannot be a part of a name"
            hint = "variables and axes of the matrix can"
            self._note(path, "reference-phase", message, written, hint=hint)
            return False
        return self._is_known(name, written, place, path)

    def _advise(self, text: str, path: Path) -> None:
        """Note the texts that only look like a reference, such as `$<app_id`.

        Only unmistakable names count: known names and, behind `$<`, names of the form `var.x`. Shells and
        templates use braces, too: behind a brace a name must be known, and have a dot.
        """
        for found in _NEAR.finditer(text):
            name = found["open"] or found["brace"] or found["paren"] or found["template"]
            written = found[0]
            is_open = found["open"] is not None
            is_known = (is_open or "." in name) and self._is_name(name)
            is_meant = is_known or (is_open and name.startswith(_PHASES))
            if written != f"$<{name}>" and is_meant:
                message = f"`{written}` is no reference, and stays as it is"
                label = f"write `$<{name}>`" if self._is_name(name) else "close it with `>`"
                hint = f"for the text itself write `${written}`" if written.startswith(("${", "$(")) else ""
                self.problems.add(path, "lookalike-reference", message, label=label, hint=hint, part=written)

    def _is_name(self, name: str) -> bool:
        return name in self.values or name in GIT_NAMES or is_run_macro(name) or name == JOB_DIR

    def _filled(self, text: str, values: Mapping[str, str], place: PlaceKind, path: Path) -> str:
        self._grown += sum(map(len, values.values()))
        if self._grown > MAX_GROWTH:
            if not self._is_full:
                message = f"references make the texts of this job larger than {MAX_GROWTH >> 20} MiB"
                label = "put long text into a file that the job reads"
                self.problems.add(path, "too-large", message, label=label)
            self._is_full = True
            self.problems.broken.add(path)
            return text
        if place.mode in ("plain", "matrix"):
            return substitute(text, values)
        try:
            return substitute_partial(text, values) if values else text
        except MacroError as error:
            self.problems.add(path, "invalid-value", str(error), is_final=True)
            return text

    def _is_known(self, name: str, written: str, place: PlaceKind, path: Path) -> bool:
        """Whether the value of a name is filled in now. Notes a name that cannot be used here."""
        if place.mode == "never" or (place.mode == "matrix" and not name.startswith("matrix.")):
            message = f"references cannot stand in {place_name(path)}"
            hint = f"but {_NAMES_VALUES}" if place.mode == "matrix" else ""
            self._note(path, "reference-phase", message, written, label="write the value itself", hint=hint)
        elif place.mode == "matrix" and not self.combination and name not in self.values:
            message = f"`{written}` has no value: there is no `matrix`"
            self._note(path, "unknown-reference", message, written, hint=_NAMES_VALUES)
        elif is_run_macro(name):
            if place.mode != "run":
                message = f"`{written}` is known only when the job runs, and cannot stand here"
                is_of_probe = path[2:4] == ("ready", "command")
                hint = _IN_PROBE.format(written) if is_of_probe else f"it may stand in {WHERE_RUN}"
                self._note(path, "reference-phase", message, written, hint=hint)
        elif name == JOB_DIR:
            if place.mode == "plain":
                message = f"`{written}` is known only where the job runs, and cannot stand here"
                hint = f"it may stand in {WHERE_RUN}, in image, cfg and metadata"
                self._note(path, "reference-phase", message, written, hint=hint)
        elif name in GIT_NAMES and name not in self.values:
            self._from_git(name, written, path)
            return True
        elif name not in self.values:
            self._unknown(name, written, path)
        else:
            return True
        return False

    def _from_git(self, name: str, written: str, path: Path) -> None:
        if path[:1] in _IDENTITY:
            message = f"`{written}` cannot stand in {place_name(path)}"
            hint = "commits and branches change, and the names of jobs do not"
            self._note(path, "reference-phase", message, written, label="write the value itself", hint=hint)
            self.values[name] = Value(None, "")
            return
        found = self.git.look_up(name)
        if isinstance(found, Trouble):
            message = f"`{written}` has no value: {found.message}"
            self._note(path, found.code, message, written, hint=found.hint)
            found = Value(None, "")
        self.values[name] = found

    def _unknown(self, name: str, written: str, path: Path) -> None:
        if not self.problems.has_hints(self.values):
            self._note(path, "unknown-reference", f"`{written}` names nothing", written)
            return
        lacking = [f"matrix.{each}" for each in self.combination.lacks]
        known = list(dict.fromkeys([*self.values, *lacking, *GIT_NAMES, *RUN_MACROS, JOB_DIR]))
        near = _FOREIGN_NAMES.get(name) or _near(name, known)
        label = f"did you mean `$<{near}>`?" if near else ""
        message = f"`{written}` names nothing"
        if name.startswith("var."):
            message = f"there is no variable `{name[4:]}`"
            declared = [n[4:] for n in self.values if n.startswith("var.")]
            hint = listing("declared", declared) or "declare it below `vars`"
        elif name in lacking:
            message = f"`{written}` has no value in the job of `{self.combination}`"
            label, hint = self._lacking(name[7:]), "a value of `include` is for the jobs that its item names"
        elif name.startswith("matrix."):
            has = [each[7:] for each in known if each.startswith("matrix.")]
            further = [*self.combination.further, *self.combination.lacks]
            message = f"the matrix has no axis {'or value ' if further else ''}`{name[7:]}`"
            hint = listing("it has" if further else "axes", has) or "there is no matrix"
        elif name.startswith(("env.", "secret.", "secrets.")):
            kind, _, outside = name.partition(".")
            label, hint = self._from_outside(kind, outside, path)
        elif name.startswith("needs."):
            job = name.split(".")[1]
            label, hint = f"write `$<needs.{job}.output_dir>`", "of a need only the output folder is known"
        elif name.startswith("role."):
            role = name.split(".")[1]
            label, hint = f"write `$<role.{role}.host>`", "of another role only the host is known"
        else:
            hint = listing("there are", known)
        hint += f"; for the text itself write `${written}`" if path != ("name",) else ""
        self._note(path, "unknown-reference", message, written, label=label, hint=hint)

    def _lacking(self, name: str) -> str:
        """Return the label that tells how `include` can give a value that no axis has."""
        axes = {axis: hide(cell.value, axis) for axis, cell in self.combination.axes.items()}
        if not axes:
            return f"add `{name}` to its item of `include`"
        return f"add to `include`: `{self.problems.written({**axes, name: '…'})}`"

    def _from_outside(self, kind: str, name: str, path: Path) -> tuple[str, str]:
        """Return a label and a hint for `$<env.HOME>` and `$<secret.HF_TOKEN>`."""
        if kind != "env" or is_sensitive(name):
            if "env" in path[:-1]:
                return f"write {self.problems.secret(name)}", "the whole value is the secret"
            entry = self.problems.entry(name, {"secret": f"env:{name}"})
            return f"give it to the program in a role's `env`: `{entry}`", "it stands nowhere else"
        variable = re.sub(r"[^a-z0-9_]", "_", name.lower())
        if variable[:1].isdigit():
            variable = f"_{variable}"
        entry = self.problems.entry("vars", {variable: {"type": "str", "from_env": name}})
        return f"write `$<var.{variable}>`, and declare it", f"`{entry}`"

    def _note(
        self, path: Path, code: str, message: str, written: str, *, label: str = "", hint: str = ""
    ) -> None:
        self.problems.add(path, code, message, at=self._at, label=label, hint=hint, part=written)


def _is_plain(value: Any) -> bool:
    """Whether a value is text without references or lookalikes of references."""
    return isinstance(value, str) and not ("$" in value or "\0" in value or "{{" in value)


def _near(name: str, known: Collection[str]) -> str | None:
    """Return the known name that was probably meant. Variables and axes are compared by their own names."""
    phase, dot, own = name.partition(".") if name.startswith(("var.", "matrix.")) else ("", "", name)
    if full := next((each for each in (f"var.{own}", f"matrix.{own}") if each in known), None):
        return full
    start = phase + dot
    inside = [each[len(start) :] for each in known if start and each.startswith(start)]
    if near := nearest(own, inside):
        return start + near
    return nearest(name, (each for each in known if not (start and each.startswith(start))))


def _part_of_name(name: str, value: Value, mark: int = MARK) -> str:
    """Return the text of a reference in a job's name: a slug, or the text itself where it may be a name."""
    is_name = isinstance(value.value, str) and not name.startswith("matrix.")
    return value.text if is_name else slug(value.value, mark)


def names_in(value: Any) -> set[str]:
    """Return the names of all references in a value, also below `x-` keys, which may be anchors."""
    names: set[str] = set()
    parts = [value]
    while parts:
        part = parts.pop()
        if isinstance(part, str):
            if "$" in part:
                names.update([name for name, _, _ in find_macros(part)])
        elif isinstance(part, dict):
            parts += part  # keys of `needs` hold references, too
            parts += part.values()
        elif isinstance(part, list):
            parts += part
    return names
