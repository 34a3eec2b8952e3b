"""Hash the files that job files declare as inputs, once per folder however many jobs name them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from glob import has_magic
from typing import TYPE_CHECKING

from launcher import looks
from launcher.dataclass import dataclass, field
from launcher.errors import LauncherError
from launcher.files import is_below
from launcher.jobfile.messages.collector import At, Collector
from launcher.jobfile.text.document import Path
from launcher.specs.launch import ProjectRef, Trigger, WorkspaceRef
from launcher.text import nearest

if TYPE_CHECKING:
    from launcher.workspace.inputs import InputReader


@dataclass(slots=True)
class Folders:
    """Hashes the workspaces and watched files of all job files of one compile.

    With `is_read` False no file is read: only the existence of folders and matches of globs are checked. With
    `is_here` False nothing is checked: paths of an abstract file are relative to the files that extend it.
    """

    is_read: bool = True
    is_here: bool = True
    _workspaces: dict[str, str | LauncherError] = field(default_factory=dict)
    _triggers: dict[tuple[str, tuple[str, ...]], str] = field(default_factory=dict)
    _names: dict[str, Sequence[str]] = field(default_factory=dict)
    _inputs: InputReader | None = None

    def workspace(
        self, spec: str | Mapping[str, str], directory: str, problems: Collector
    ) -> WorkspaceRef | None:
        """Return the workspace of a job file in `directory`, which its paths are relative to; None where it
        is unusable. One folder that becomes the whole workspace equals its path alone."""
        if not self.is_here or problems.is_assumed(("workspace",)):
            return None
        if isinstance(spec, str):
            digest = self._digest(spec, directory, ("workspace",), problems)
            return None if digest is None else WorkspaceRef(spec, digest)
        from launcher.workspace.api import target_path

        found, seen = [], _Seen(directory, problems)
        for path, target in spec.items():
            if not problems.is_sound(("workspace", path)):
                continue
            digest = self._digest(path, directory, ("workspace", path), problems)
            if seen.is_placed(path, target) and digest is not None:
                found.append(ProjectRef(path, target_path(target) or ".", digest))
        if len(found) < len(spec):
            return None
        [first, *more] = found
        if not more and first.target == "." and looks.is_folder(_absolute(first.path, directory)):
            return WorkspaceRef(first.path, first.digest)
        return WorkspaceRef("", "", tuple(found))

    def _digest(self, path: str, directory: str, where: Path, problems: Collector) -> str | None:
        """Return the digest of the project at `path`: a folder or, among several projects, a file."""
        is_one_of_several = len(where) > 1
        at: At = "key" if is_one_of_several else "value"
        absolute = _absolute(path, directory)
        if not (looks.lexists if is_one_of_several else looks.is_folder)(absolute):
            found = "is no folder" if looks.exists(absolute) else "does not exist"
            message, hint = f"the workspace `{path}` {found}", "it is relative to the job file"
        elif wrong := _unbounded(absolute, directory):
            message = f"the workspace `{path}` {wrong}"
            hint = "name a folder that holds the job's files alone"
        else:
            digest = self._content(absolute)
            if isinstance(digest, str):
                return digest
            problems.add(where, "unreadable", str(digest), at=at, hint=digest.hint or "")
            return None
        problems.add(where, "invalid-value", message, at=at, hint=hint)
        return None

    def _content(self, path: str) -> str | LauncherError:
        if not self.is_read:
            return ""
        if path not in self._workspaces:
            from launcher.workspace.context import project_digest

            try:
                self._workspaces[path] = project_digest(path)
            except LauncherError as error:
                self._workspaces[path] = error
        return self._workspaces[path]

    def trigger_digest(
        self, triggers: Sequence[Trigger], directory: str, root: str, problems: Collector
    ) -> str:
        """The hash of all files that the triggers of `rerun_on` name, all below `root`; "" for none."""
        if not (self.is_here and _stay_inside(triggers, directory, root, problems)):
            return ""
        globs = tuple(glob for trigger in triggers for glob in trigger.globs)
        if not globs or not self.is_read or not problems.is_sound(("lifecycle", "rerun_on")):
            return ""
        key = (directory, globs)
        if key not in self._triggers:
            from launcher.workspace.inputs import trigger_digest

            try:
                self._triggers[key] = trigger_digest(directory, globs, root, hashes=self._reader().hashes)
            except LauncherError as error:
                path = ("lifecycle", "rerun_on")
                problems.add(path, "unreadable", str(error), at="key", hint=error.hint or "")
                return ""
        return self._triggers[key]

    def inputs_digest(self, globs: Sequence[str], directory: str, root: str, problems: Collector) -> str:
        """Return the hash of `inputs` and of all files that they match; "" where they cannot be used or read.

        Notes globs that leave `root` or match nothing, and files that cannot be read.
        """
        if not self.is_here:
            return ""
        good = problems.is_sound(("inputs",))
        for index, glob in enumerate(globs):
            path: Path = ("inputs", index)
            if problems.is_sound(path):
                good = self._is_input(glob, directory, root, path, problems) and good
        if not (globs and good and self.is_read):
            return ""
        try:
            from launcher.workspace.inputs import inputs_digest

            return inputs_digest(directory, tuple(globs), root, reader=self._reader())
        except LauncherError as error:
            problems.add(("inputs",), "unreadable", str(error), at="key", hint=error.hint or "")
            return ""

    def _is_input(self, glob: str, directory: str, root: str, path: Path, problems: Collector) -> bool:
        from launcher.workspace.inputs import input_paths, leaves

        if leaves(directory, glob, root):
            hint = "it is relative to the job file, and names files of the repository"
            problems.add(path, "invalid-value", f"the input `{glob}` leaves the repository", hint=hint)
            return False
        absolute = os.path.join(directory, glob)
        if not (has_magic(glob) or looks.is_file(absolute) or looks.is_folder(absolute)):
            if looks.exists(absolute):
                problems.add(path, "invalid-value", f"the input `{glob}` is neither a file nor a folder")
                return False
            near, hint = self._near(absolute, glob, problems), "it is relative to the job file"
            problems.add(path, "no-such-file", f"the input `{glob}` does not exist", label=near, hint=hint)
            return False
        try:
            found = input_paths(directory, glob, root, reader=self._reader())
        except LauncherError as error:
            problems.add(path, "unreadable", str(error), hint=error.hint or "")
            return False
        if not found:
            message = f"the input `{glob}` matches no file"
            hint = "a file that it matches later counts as a change; `**` is any number of folders"
            problems.add(path, "unmatched-glob", message, hint=hint)
        return True

    def _near(self, absolute: str, path: str, problems: Collector) -> str:
        """ "did you mean `train.py`?", a path in the same folder that is spelled alike; "" for none."""
        folder, name = os.path.split(absolute)
        if folder not in self._names:
            try:
                self._names[folder] = looks.names_in(folder)
            except OSError:
                self._names[folder] = ()
        names = self._names[folder]
        near = nearest(name, names) if problems.has_hints(names) else None
        return f"did you mean `{os.path.join(os.path.dirname(path), near)}`?" if near else ""

    def _reader(self) -> InputReader:
        if self._inputs is None:
            from launcher.workspace.inputs import InputReader

            self._inputs = InputReader()
        return self._inputs


def _stay_inside(triggers: Sequence[Trigger], directory: str, root: str, problems: Collector) -> bool:
    """Whether no glob leaves the repository by its text; globs that do are noted."""
    good = True
    for index, trigger in enumerate(triggers):
        for number, glob in enumerate(trigger.globs):
            from launcher.workspace.inputs import leaves

            if leaves(directory, glob, root):
                good = False
                path: Path = ("lifecycle", "rerun_on", index, "files", number)
                hint = "it is relative to the job file, and watches files of the repository"
                problems.add(path, "invalid-value", f"the glob `{glob}` leaves the repository", hint=hint)
    return good


@dataclass(slots=True)
class _Seen:
    """The places of the projects of one workspace, no two of them in one place."""

    directory: str
    problems: Collector
    by_place: dict[str, str] = field(default_factory=dict)
    by_path: dict[str, str] = field(default_factory=dict)

    def is_placed(self, path: str, target: str) -> bool:
        """Whether a project can be placed at its target; else a problem is noted."""
        from launcher.workspace.api import place_of

        absolute, where = _absolute(path, self.directory), ("workspace", path)
        try:
            place = place_of(absolute, target)
        except LauncherError as error:
            self.problems.add(where, "invalid-value", str(error), hint=error.hint or "")
            return False
        first = self.by_path.setdefault(absolute, path)
        if first != path:
            message, hint = f"`{path}` is `{first}` again", "it goes into one folder"
        else:
            first = self.by_place.setdefault(place, path)
            message = f"`{path}` and `{first}` both go to `{place or '.'}` in the workspace"
            hint = "give each a folder of its own"
        if first != path:
            related = (self.problems.place(("workspace", first), "the other one is here"),)
            self.problems.add(where, "constraint", message, at="key", hint=hint, related=related)
        return first == path


def _unbounded(path: str, directory: str) -> str:
    """Return why a folder can never be a workspace, as the root or the kernel's file systems; else ""."""
    real = looks.real_path(path)
    if real == os.sep:
        return "is the whole file system"
    is_of_kernel = any(is_below(real, folder) for folder in ("/proc", "/sys", "/dev"))
    if is_of_kernel and not real.startswith("/dev/shm/"):
        return "is a folder of the kernel"
    tree = looks.work_tree(directory)
    top = looks.real_path(tree) if tree is not None else real
    return "lies around the repository" if real != top and is_below(top, real) else ""


def _absolute(path: str, directory: str) -> str:
    return os.path.normpath(os.path.join(directory, looks.expanded(path)))
