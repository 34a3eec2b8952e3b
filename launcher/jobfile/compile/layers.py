"""Read and merge the layers of a job, the lowest first: launcher.toml, parents, file, entry in `jobs`."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from functools import reduce
from typing import Any, NamedTuple

from launcher import looks
from launcher.dataclass import dataclass, field, replace
from launcher.files import is_below
from launcher.jobfile.compile.discover import SUFFIXES
from launcher.jobfile.compile.matrix import is_pattern
from launcher.jobfile.compile.overlay import (
    WHOLE,
    Placed,
    Removed,
    holding,
    holds_removed,
    is_vain,
    laid_over,
    replaced,
    swept,
    without,
)
from launcher.jobfile.compile.project import Home
from launcher.jobfile.compile.references import names_in
from launcher.jobfile.diagnostic import Diagnostic
from launcher.jobfile.messages.collector import Collector, got, listing, masked, show, suggest
from launcher.jobfile.messages.wording_fields import bad_label
from launcher.jobfile.model.job_file import BESIDE_JOBS
from launcher.jobfile.model.types import LABEL, VERSION
from launcher.jobfile.text.document import Document, Path, Range, Spot, read_source
from launcher.jobfile.text.parse import parse
from launcher.specs.jobkey import DEFAULT_TARGET

_MOST_PARENTS = 16


@dataclass(slots=True)
class Parents:
    """Reads the parents of job files, each file once.

    Attributes:
        is_asked: whether git is asked which files it ignores; not for files of another commit.
        names: path → the shown path of a file that is also a job file of this compile.
    """

    is_asked: bool = True
    names: Mapping[str, str] = field(default_factory=dict)
    _read: dict[str, Document | Diagnostic] = field(default_factory=dict)
    _ignored: dict[str, bool] = field(default_factory=dict)

    def of(self, document: Document, path: str, root: str, problems: Collector) -> list[Document] | None:
        """Return the parents of a document at `path`, the lowest layer first; None where one is wrong."""
        found: list[Document] = []
        seen = [path]
        while "extends" in (document.value or {}):
            given, notes = (document.value or {})["extends"], Collector(document, problems.found)
            beside = os.path.join(os.path.dirname(path), given) if isinstance(given, str) else ""
            path = os.path.normpath(beside) if beside else ""
            if not (_is_parent(given, path, seen, root, notes) and self._is_known(path, notes)):
                return None
            seen.append(path)
            file = _shown(given, document.source.file)
            parent = self._parsed(file, path, root)
            if isinstance(parent, Diagnostic):
                message = f"`{given}` cannot be read: {parent.message}"
                _refuse(notes, message, hint=parent.label or parent.hint)
                return None
            faults = masked(parent.problems, parent)
            problems.found += [each for each in faults if each not in problems.found]
            if parent.value is None:
                return None
            if "jobs" in parent.value:
                message = f"`{given}` declares several jobs, and is no parent"
                _refuse(notes, message, "extend a file with one job")
                return None
            document = parent
            found.insert(0, parent)
        return found

    def _parsed(self, file: str, path: str, root: str) -> Document | Diagnostic:
        if path not in self._read:
            file = self.names.get(path, file)
            source = read_source(file, path, looks.real_path(root))
            self._read[path] = source if isinstance(source, Diagnostic) else _stamped(parse(source))
        return self._read[path]

    def _is_known(self, path: str, notes: Collector) -> bool:
        """Whether git does not ignore the file. An ignored file may hold secrets, which plans would show."""
        if path not in self._ignored:  # one question to git serves all files that extend it
            root = looks.work_tree(os.path.dirname(path)) if self.is_asked else None
            self._ignored[path] = root is not None and bool(looks.ignored(root, (path,)))
        if not self._ignored[path]:
            return True
        _refuse(notes, "git ignores the parent, and plans would show it", "commit it, or extend another file")
        return False


def _shown(given: str, child: str) -> str:
    """Return the shown path of a parent, in the form of its child's: `./jobs/a` extends `./base`."""
    path = os.path.normpath(os.path.join(os.path.dirname(child), given))
    is_here = child.startswith("." + os.sep) and not path.startswith(os.pardir)
    return os.path.join(os.curdir, path) if is_here else path


def _stamped(document: Document) -> Document:
    """Mark each place of a parent with its file. A parent of another version or tool loses its value."""
    document.root().stamp(document.source)
    problems = Collector(document, document.problems)
    if document.value is None or is_known_version(document.value, problems):
        return document
    return replace(document, value=None, problems=problems.found)


def _is_parent(given: Any, path: str, seen: Sequence[str], root: str, notes: Collector) -> bool:
    """Whether `extends` may name a file; notes the reason if not."""
    known = len(notes.found)
    if not isinstance(given, str) or not given:
        message = f"`extends` names one job file, not {got(given)}"
        notes.add(("extends",), "wrong-type", message, label="such as ../base.launcher.yaml")
    elif "$<" in given:
        _refuse(notes, "references cannot stand in `extends`", "write the path", "reference-phase")
    elif not given.isprintable():
        _refuse(notes, f"{given!r} cannot be a path", "name a file of the repository, by a relative path")
    elif os.path.isabs(given) or not is_below(path, root):
        label = "name a file of the repository, by a relative path"
        hint = "where there is no git repository, the folder of launcher.toml counts as one"
        hint = "" if os.path.isabs(given) or looks.is_top(root) else hint
        _refuse(notes, f"`{given}` leads out of the repository", label, hint=hint)
    elif not path.endswith(SUFFIXES):
        label = f"rename it to NAME{SUFFIXES[0]}, .yml or .toml"
        _refuse(notes, f"`{given}` is not called like a job file", label)
    elif path in seen:
        _refuse(notes, f"`{given}` extends this file in turn", "delete one of the two lines", "constraint")
    elif len(seen) > _MOST_PARENTS:
        message = f"more than {_MOST_PARENTS} parents lie over each other"
        _refuse(notes, message, "join some of them", "too-large")
    return len(notes.found) == known


def _refuse(
    notes: Collector, message: str, label: str = "", code: str = "invalid-value", hint: str = ""
) -> None:
    notes.add(("extends",), code, message, label=label, hint=hint)


def is_known_version(value: Mapping[str, Any], problems: Collector) -> bool:
    """Return False for a later version: no further check applies to it."""
    version = value.get("version", VERSION)
    path = ("version",)
    if isinstance(version, bool) or not isinstance(version, int):
        message = f"`version` must be {VERSION}, not {got(version)}"
        problems.add(path, "wrong-type", message, label=f"write {VERSION}", is_final=True)
    elif version > VERSION:
        problems.found.clear()
        message = f"the file is written in version {show(version)}, and this launcher knows {VERSION}"
        problems.add(path, "newer-version", message, label="upgrade launcher")
        return False
    elif version != VERSION:
        message = f"there is no version {show(version)} of the language"
        problems.add(path, "out-of-range", message, label=f"write {VERSION}", is_final=True)
    return True


_OWN = ("version", "name", "abstract", "extends", "jobs")
"""Fields of a parent that its children do not inherit."""
_NOT_OF_ONE = ("version", "name", "abstract", "jobs")
"""Fields that an entry of `jobs` cannot have."""
_KEY = re.compile(r'"([^"]*)"|([^."]+)')


class Layered(NamedTuple):
    """A job made from all of its layers.

    Attributes:
        document: the job without removed keys.
        marked: the job with marks at removed keys; None where the file is the only layer.
    """

    document: Document
    marked: Placed | None = None

    def vain_removals(self) -> list[Diagnostic]:
        """Return an error for each item of `remove` that found nothing to remove, in any target."""
        problems = Collector(self.document)
        if self.marked and holds_removed(self.marked.value):
            _note_vain(self.marked.value, problems)
        return problems.found


def _note_vain(value: Any, problems: Collector) -> None:
    known = [key for key, inner in value.items() if not is_vain(inner)] if isinstance(value, dict) else []
    for key, inner in value.items() if isinstance(value, dict) else ():
        if isinstance(inner, Removed) and inner.at is not None and not inner.is_found:
            source, start, end = inner.at
            message = f"there is no `{key}` to remove below this layer"
            label = suggest(key, known) if problems.has_hints(known) else ""
            hint = "`remove` takes away fields of launcher.toml, of parents and of `defaults`"
            found = source.diagnostic(start, end, "unknown-field", message, label=label, hint=hint)
            problems.found.append(found)
        _note_vain(inner, problems)


def layered(
    document: Document, path: str, home: Home, parents: Parents, problems: Collector
) -> list[Layered] | None:
    """Return the job of a file (absolute path), or its `jobs`; None, and a problem, for a wrong parent."""
    value, shared = document.value or {}, home.config.shared
    if shared is None and not value.keys() & {"extends", "jobs", "remove"} and not _has_choices(value):
        return [Layered(document)]
    above = parents.of(document, path, home.root, problems)
    if above is None:
        return None
    if "jobs" not in value:
        return [_merged(above, [document], shared, problems)]
    top = holding(document, without(Placed(value, document.root()), "name", "jobs"))
    out = []
    for job in _jobs(document, problems):
        own = parents.of(job, path, home.root, problems)
        if own is not None:
            out.append(_merged([*above, *own], [top, job], shared, problems))
    return out


def _has_choices(value: Mapping[str, Any]) -> bool:
    """Whether a file's targets select some of the project's targets, or remove anything."""
    targets = value.get("targets")
    if not isinstance(targets, dict):
        return isinstance(targets, list)
    return any(isinstance(overlay, dict) and "remove" in overlay for overlay in targets.values())


def _jobs(document: Document, problems: Collector) -> Iterator[Document]:
    """Yield a document for each entry of a file's `jobs`: only its own fields, with its name."""
    value = document.value or {}
    for key in value:
        if key not in (*BESIDE_JOBS, "jobs", "abstract") and not key.startswith("x-"):
            message = f"a file with `jobs` has no `{key}` at its top"
            label, hint = "move it into a job", listing("fields here", ["jobs", *BESIDE_JOBS])
            problems.add((key,), "conflicting-fields", message, at="key", label=label, hint=hint)
    if not _has_jobs(value["jobs"], problems):
        return
    jobs = Placed(value, document.root()).part("jobs")
    for name in value["jobs"]:
        node, (start, end, _) = jobs.part(name), jobs.entry(name)
        if not name.startswith("x-") and _is_job(name, node.value, problems):
            node = without(node, *_NOT_OF_ONE)
            entries = {"name": (start, end, Spot(start, end)), **(node.spot.entries or {})}
            named = node.spot.with_entries(entries)
            yield holding(document, Placed({"name": name, **node.value}, named))


def _has_jobs(jobs: Any, problems: Collector) -> bool:
    if isinstance(jobs, dict) and jobs:
        return True
    code, what = "missing-field", "declares no job"
    if jobs != {}:
        code, what = "wrong-type", f"must be a mapping, not {got(jobs)}"
    label = f"such as {problems.written({'train': {'roles': {'main': {'entrypoint': 'env'}}}})}"
    problems.add(("jobs",), code, f"`jobs` {what}", label=label, at="key")
    return False


def _is_job(name: str, value: Any, problems: Collector) -> bool:
    """Whether an entry of `jobs` can be compiled. Notes the fields that an entry cannot have."""
    path: Path = ("jobs", name)
    if not (re.fullmatch(LABEL[1:-1], name) or is_pattern(name)):
        bad_label(path, name, "job", problems, at_key=True)
        return False
    if not isinstance(value, dict):
        message = f"job `{name}` must be a mapping, not {got(value)}"
        problems.add(path, "wrong-type", message, label="write its fields below it")
        return False
    for key in _NOT_OF_ONE:
        if key in value:
            message = f"`{key}` is not a field of one of several jobs"
            problems.add((*path, key), "unknown-field", message, at="key", label="delete it here")
    return True


def _merged(
    parents: Sequence[Document], own: Sequence[Document], shared: Document | None, problems: Collector
) -> Layered:
    """Return a job merged from its layers: the shared parts of launcher.toml, its parents, its documents."""
    nodes = [_layer(each, _OWN, problems) for each in parents]
    nodes += [_layer(each, ("extends", "abstract"), problems) for each in own]
    layers = [*parents, *own]
    targets = {name for each in layers for name in _targets_of(each)}
    if shared is not None:
        nodes.insert(0, _used(_layer(shared, (), problems), nodes, targets))
        layers.insert(0, shared)
    for at, each in enumerate(layers):
        _check_named(nodes[:at], each, problems)
    whole = reduce(lambda base, over: laid_over(base, over, WHOLE, is_filling=True), nodes)
    return Layered(replace(holding(own[-1], _cleaned(whole, targets)), layers=tuple(layers)), whole)


def _targets_of(document: Document) -> Sequence[str]:
    given = (document.value or {}).get("targets")
    return [name for name in given if isinstance(name, str)] if isinstance(given, dict | list) else ()


def _cleaned(whole: Placed, targets: Set[str]) -> Placed:
    """Return `whole` without removed keys. A name in `targets` stays even where its overlay only removes."""
    overlays = _mapping(whole.value, "targets")
    vain = (name for name in overlays if name in targets and isinstance(overlays[name], dict))
    if bare := [name for name in vain if is_vain(overlays[name])]:
        under = whole.part("targets")
        kept = replaced(under, {name: Placed({}, under.entry(name)[2]) for name in bare})
        whole = replaced(whole, {"targets": kept})
    return swept(whole)


def _layer(document: Document, dropped: Sequence[str], problems: Collector) -> Placed:
    """Return a document's fields, with marks for each `remove`, and a list of targets as empty overlays."""
    node = without(Placed(document.value, document.root()), *dropped)
    if "targets" in node.value:
        node = replaced(node, {"targets": _overlays(node.part("targets"), document, problems)})
    return _marked(node, (), document, problems)


def _overlays(targets: Placed, document: Document, problems: Collector) -> Placed:
    """The targets of a document: a mapping of overlays, with marks for each `remove` in them."""
    if isinstance(targets.value, list) and all(isinstance(name, str) for name in targets.value):
        spots = targets.spot.items or [targets.spot] * len(targets.value)
        entries = {name: (at.start, at.end, at) for name, at in zip(targets.value, spots, strict=True)}
        return Placed({name: {} for name in targets.value}, targets.spot.with_entries(entries))
    if not isinstance(targets.value, dict):
        return targets
    given = (name for name, overlay in targets.value.items() if isinstance(overlay, dict))
    own = {name: _marked(targets.part(name), ("targets", name), document, problems) for name in given}
    return replaced(targets, own)


def _marked(node: Placed, at: Path, document: Document, problems: Collector) -> Placed:
    """Return a layer, or a target's overlay, with marks at the keys that its `remove` names."""
    if "remove" not in node.value:
        return node
    given, notes, path = node.part("remove"), Collector(document, problems.found), (*at, "remove")
    node, marks = without(node, "remove"), Placed({}, given.spot.with_entries({}))
    if not isinstance(given.value, list):
        example = notes.written(["timeout", "roles.main.env.NAME"])
        message = f"`remove` must be a list of fields, not {got(given.value)}"
        notes.add(path, "wrong-type", message, label=f"such as {example}", at="key")
    for index, text in enumerate(given.value if isinstance(given.value, list) else ()):
        keys = [quoted or bare for quoted, bare in _KEY.findall(text)] if isinstance(text, str) else []
        item: Path = (*path, index)
        if not keys or keys[0] in _OWN:
            shown = f"`{text[:80]}`" if isinstance(text, str) else got(text)
            message, label = f"{shown} cannot be removed", "such as roles.main.env.NAME"
            notes.add(item, "invalid-value", message, label=label)
            continue
        if _is_free(keys, node.value) and _is_free(keys, marks.value):
            spot = (given.spot.items or [given.spot])[index]
            _mark(marks, keys, document.value_range(item), spot)
        else:
            message = f"`{text}` is removed here, and has a value in this layer"
            notes.add(item, "conflicting-fields", message, label="keep one of them")
    return laid_over(node, marks)


def _is_free(keys: Sequence[str], value: Any) -> bool:
    """Whether `value` has nothing at the path `keys`, and only mappings above it."""
    for key in keys:
        if not isinstance(value, dict) or key not in value:
            return isinstance(value, dict)
        value = value[key]
    return False


def _mark(marks: Placed, keys: Sequence[str], at: Range, spot: Spot) -> None:
    """Add a mark at the path `keys` to a mapping of marks, in place."""
    values: dict[str, Any] = marks.value
    entries: Any = marks.spot.entries
    for key in keys[:-1]:
        values = values.setdefault(key, {})
        entries = entries.setdefault(key, (spot.start, spot.end, spot.with_entries({})))[2].entries
    values[keys[-1]] = Removed(at, is_found=False)
    entries[keys[-1]] = (spot.start, spot.end, spot)


def _used(shared: Placed, nodes: Sequence[Placed], targets: Set[str]) -> Placed:
    """Return the tables of launcher.toml with only these `targets`, without variables that no layer uses."""
    used = _chosen(shared, "targets", targets)
    texts = [used.value, *(node.value for node in nodes)]
    found = (name for text in texts for name in names_in(text))
    names = {name.removeprefix("var.") for name in found if name.startswith("var.")}
    for node in (used, *nodes):
        overlays = _mapping(node.value, "targets").values()
        names.update(*(_mapping(each, "vars") for each in (node.value, *overlays) if each is not used.value))
    return _chosen(used, "vars", names)


def _chosen(node: Placed, key: str, names: Set[str]) -> Placed:
    if key not in node.value:
        return node
    inner = node.part(key)
    kept = without(inner, *(inner.value.keys() - names))
    return replaced(node, {key: kept}) if kept.value else without(node, key)


def _mapping(value: Any, key: str) -> Mapping[str, Any]:
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}


def _check_named(lower: Sequence[Placed], document: Document, problems: Collector) -> None:
    """Note the names in a layer's list of `targets` for which no lower layer has an overlay."""
    given = (document.value or {}).get("targets")
    known = dict.fromkeys(name for node in lower for name in _mapping(node.value, "targets"))
    notes = Collector(document, problems.found)
    for index, name in enumerate(given if isinstance(given, list) else ()):
        if isinstance(name, str) and name not in known and name != DEFAULT_TARGET:
            message = f"no launcher.toml and no parent has a target `{name}`"
            notes.unknown(("targets", index), "unknown-target", message, name, known, "targets", at="value")
