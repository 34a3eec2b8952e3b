"""The parents of job files: which files `extends` may name, each read once."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from launcher import looks
from launcher.dataclass import dataclass
from launcher.files import is_below
from launcher.jobfile.compile.discover import SUFFIXES
from launcher.jobfile.compile.version import is_known_version
from launcher.jobfile.diagnostics.diagnostic import Diagnostic
from launcher.jobfile.messages.collector import Collector
from launcher.jobfile.messages.excerpts import masked
from launcher.jobfile.messages.names import got
from launcher.jobfile.text.document import Document
from launcher.jobfile.text.parse import parse
from launcher.jobfile.text.source import leads_out, read_source

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
            given, notes = (document.value or {})["extends"], Collector(document)
            path = (
                os.path.normpath(os.path.join(os.path.dirname(path), given)) if isinstance(given, str) else ""
            )
            if not (_is_parent(given, path, seen, root, notes) and self._is_known(path, notes)):
                problems.found += notes.found
                return None
            seen.append(path)
            file = _shown(given, document.source.file)
            parent = self._parsed(file, path, root)
            if isinstance(parent, Diagnostic):
                _refuse(
                    notes, f"`{given}` cannot be read: {parent.message}", hint=parent.label or parent.hint
                )
                problems.found += notes.found
                return None
            faults = masked(parent.problems, parent)
            problems.found += [each for each in faults if each not in problems.found]
            if parent.value is None:
                return None
            if "jobs" in parent.value:
                _refuse(
                    notes, f"`{given}` declares several jobs, and is no parent", "extend a file with one job"
                )
                problems.found += notes.found
                return None
            document = parent
            found.insert(0, parent)
        return found

    def _parsed(self, file: str, path: str, root: str) -> Document | Diagnostic:
        if path not in self._read:
            file = self.names.get(path, file)
            source = leads_out(file, path, looks.real_path(root)) or read_source(file, path)
            self._read[path] = source if isinstance(source, Diagnostic) else _stamped(parse(source))
        return self._read[path]

    def _is_known(self, path: str, notes: Collector) -> bool:
        """Whether git does not ignore the file: an ignored file may hold secrets, and plans show values."""
        if path not in self._ignored:  # git is asked once, however many files extend it
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
    """Return a parent whose places name its file; without a value for another version or tool."""
    document.root().stamp(document.source)
    problems = Collector(document, document.problems)
    if document.value is None or is_known_version(document.value, problems):
        return document
    return replace(document, value=None, problems=problems.found)


def _is_parent(given: Any, path: str, seen: Sequence[str], root: str, notes: Collector) -> bool:
    """Whether `extends` may name a file; else the reason is noted."""
    if not isinstance(given, str) or not given:
        message = f"`extends` names one job file, not {got(given)}"
        notes.add(("extends",), "wrong-type", message, label="such as ../base.launcher.yaml")
    elif "$<" in given:
        notes.add(
            ("extends",), "reference-phase", "references cannot stand in `extends`", label="write the path"
        )
    elif not given.isprintable():
        _refuse(notes, f"{given!r} cannot be a path", "name a file of the repository, by a relative path")
    elif os.path.isabs(given) or not is_below(path, root):
        label = "name a file of the repository, by a relative path"
        hint = "where there is no git repository, the folder of launcher.toml counts as one"
        hint = "" if os.path.isabs(given) or looks.is_top(root) else hint
        _refuse(notes, f"`{given}` leads out of the repository", label, hint=hint)
    elif not path.endswith(SUFFIXES):
        _refuse(
            notes,
            f"`{given}` is not called like a job file",
            f"rename it to NAME{SUFFIXES[0]}, .yml or .toml",
        )
    elif path in seen:
        _refuse(notes, f"`{given}` extends this file in turn", "delete one of the two lines", "constraint")
    elif len(seen) > _MOST_PARENTS:
        _refuse(
            notes, f"more than {_MOST_PARENTS} parents lie over each other", "join some of them", "too-large"
        )
    return not notes.found


def _refuse(
    notes: Collector, message: str, label: str = "", code: str = "invalid-value", hint: str = ""
) -> None:
    notes.add(("extends",), code, message, label=label, hint=hint)
