"""What the files of `rerun_on` hold."""

from __future__ import annotations

import glob
import os
from hashlib import sha256

from launcher.specs.trigger import combine
from launcher.workspace.context import file_hash, files_below, unreadable
from launcher.workspace.ignore import Ignore

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


def trigger_digest(directory: str, globs: Iterable[str]) -> str:
    """The digest of everything that `globs` match, below the absolute `directory`; "" for no globs.

    Globs are `glob.glob`'s, with `**`; names that start with a dot match only where the glob writes the dot.
    One that names a folder means all files below it. Links are followed, except below such a folder. Paths
    count as the globs give them, relative to `directory`.

    Raises WorkspaceError for a file that cannot be read.
    """
    return combine({pattern: _content(directory, pattern) for pattern in globs})


def _content(directory: str, pattern: str) -> str:
    """Hash of the sorted files with their paths; a pattern that matches nothing has one as well."""
    whole = sha256()
    for path in sorted(_files(directory, pattern), key=os.fsencode):
        absolute = os.path.join(directory, path)
        try:
            content = file_hash(absolute)
        except FileNotFoundError:
            continue  # it was there a moment ago
        except OSError as error:
            raise unreadable(absolute, error) from error
        whole.update(os.fsencode(path) + b"\0" + content)
    return whole.hexdigest()


def _files(directory: str, pattern: str) -> set[str]:
    folder = os.path.join(directory, pattern)
    if not glob.has_magic(pattern) and os.path.isdir(folder):
        below = (e for e in files_below(folder, Ignore()) if e.kind != "link")
        return {os.path.normpath(os.path.join(pattern, entry.path)) for entry in below}
    found = glob.glob(pattern, root_dir=directory, recursive=True)
    return {os.path.normpath(path) for path in found if os.path.isfile(os.path.join(directory, path))}
