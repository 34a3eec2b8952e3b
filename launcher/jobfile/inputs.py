"""The files that a job file declares as its inputs: hashed once per folder, however many jobs name them."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from launcher.errors import LauncherError
from launcher.jobfile.collector import Collector
from launcher.jobfile.model import LifecycleSpec
from launcher.specs import Trigger, WorkspaceRef


@dataclass(slots=True)
class Folders:
    """Hashes workspaces and watched files of all files of one compile.

    With `is_read` False nothing is read: it is only seen whether folders are there.
    """

    is_read: bool = True
    _workspaces: dict[str, str | LauncherError] = field(default_factory=dict)
    _triggers: dict[tuple[str, tuple[str, ...]], str] = field(default_factory=dict)

    def workspace(self, path: str | None, directory: str, problems: Collector) -> WorkspaceRef | None:
        """The workspace at `path`, relative to the job file's `directory`. None where it is not usable."""
        if path is None or problems.is_assumed(("workspace",)):
            return None
        folder = os.path.normpath(os.path.join(directory, path))
        if not os.path.isdir(folder):
            found = "is no folder" if os.path.exists(folder) else "does not exist"
            message = f"the workspace `{path}` {found}"
            hint = "it is relative to the job file"
            problems.add(("workspace",), "invalid-value", message, hint=hint)
            return None
        digest = self._content(folder)
        if isinstance(digest, LauncherError):
            problems.add(("workspace",), "unreadable", str(digest), hint=digest.hint or "")
            return None
        return WorkspaceRef(path, digest)

    def _content(self, folder: str) -> str | LauncherError:
        if not self.is_read:
            return ""
        if folder not in self._workspaces:
            from launcher.workspace import content_digest

            try:
                self._workspaces[folder] = content_digest(folder)
            except LauncherError as error:
                self._workspaces[folder] = error
        return self._workspaces[folder]

    def trigger_digest(self, lifecycle: LifecycleSpec, directory: str, problems: Collector) -> str:
        """The hash of all files that `rerun_on` names; "" where it names none."""
        globs = tuple(glob for trigger in triggers(lifecycle) for glob in trigger.globs)
        if not globs or not self.is_read or problems.holds_assumed(("lifecycle",)):
            return ""
        key = (directory, globs)
        if key not in self._triggers:
            from launcher.workspace import trigger_digest

            try:
                self._triggers[key] = trigger_digest(directory, globs)
            except LauncherError as error:
                problems.add(
                    ("lifecycle", "rerun_on"), "unreadable", str(error), at="key", hint=error.hint or ""
                )
                return ""
        return self._triggers[key]


def triggers(lifecycle: LifecycleSpec) -> tuple[Trigger, ...]:
    """The triggers of a job file's policies, as written."""
    return tuple(
        Trigger("every_apply") if isinstance(item, str) else Trigger("files", tuple(item.files))
        for item in lifecycle.rerun_on
    )
