"""The files that `inputs` of a job file names: read for plans, remembered by digest, compared by holders."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import field

from launcher.dataclass import dataclass
from launcher.errors import LauncherError
from launcher.noted import noted
from launcher.specs.inputs import InputFiles, changes
from launcher.specs.launch import InputRef
from launcher.text import printable
from launcher.workspace.ignore import Ignore, WorkspaceError
from launcher.workspace.manifest import MOST_FILES, store, stored
from launcher.workspace.seen import FileHashes
from launcher.workspace.triggers import contents, leaves, matches

_NO_RECORDS = Ignore(f"**/{name}" for name in (".git", ".hg", ".jj", ".svn", "__pycache__"))
"""Files that are no inputs of a folder: records of version control and Python, which most commands change."""

_known: dict[str, InputFiles] = {}


@dataclass(slots=True)
class InputReader:
    """Reads the inputs of the jobs of one plan: each glob of a folder is walked once, each file read once."""

    hashes: FileHashes = field(default_factory=FileHashes)
    _matched: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    _files: dict[tuple[str, str], Mapping[str, str]] = field(default_factory=dict)
    _read: dict[tuple[str, tuple[str, ...]], tuple[str, InputFiles]] = field(default_factory=dict)

    def paths(self, directory: str, glob: str, root: str) -> list[str]:
        """The files that one glob matches below the absolute `directory`. Raises WorkspaceError."""
        if leaves(directory, glob, root):  # the glob of a saved plan was not checked by the compiler here
            raise WorkspaceError(f"the input `{glob}` leaves the repository")
        if (directory, glob) not in self._matched:
            self._matched[directory, glob] = matches(directory, glob, root, _NO_RECORDS)
        return self._matched[directory, glob]

    def files(self, directory: str, glob: str, root: str) -> Mapping[str, str]:
        """The files that one glob matches, with their hashes. Raises WorkspaceError."""
        if (directory, glob) not in self._files:
            paths = self.paths(directory, glob, root)
            self._files[directory, glob] = contents(directory, glob, paths, self.hashes)
        return self._files[directory, glob]

    def read(self, directory: str, globs: Iterable[str], root: str) -> InputFiles:
        """The files that all globs match. Raises WorkspaceError."""
        return self._all(directory, tuple(globs), root)[1]

    def digest(self, directory: str, globs: Iterable[str], root: str) -> str:
        """The digest of these files, which `known` then knows. Raises WorkspaceError."""
        return self._all(directory, tuple(globs), root)[0]

    def _all(self, directory: str, globs: tuple[str, ...], root: str) -> tuple[str, InputFiles]:
        if (directory, globs) not in self._read:
            files: dict[str, str] = {}
            for glob in globs:
                files |= self.files(directory, glob, root)
            found = InputFiles(tuple(sorted(set(globs))), files)
            self._read[directory, globs] = found.digest, found
            _known[found.digest] = found
        return self._read[directory, globs]


@noted
def input_paths(directory: str, glob: str, root: str, *, reader: InputReader | None = None) -> list[str]:
    """As `InputReader.paths`."""
    return (reader or InputReader()).paths(directory, glob, root)


@noted
def inputs_digest(
    directory: str, globs: tuple[str, ...], root: str, *, reader: InputReader | None = None
) -> str:
    """As `InputReader.digest`."""
    return (reader or InputReader()).digest(directory, globs, root)


def known(digest: str) -> InputFiles | None:
    """The inputs with this digest; None when they are not recorded."""
    if digest and digest not in _known:
        with suppress(TypeError, ValueError):
            globs, files = stored(digest, "inputs")
            found = InputFiles(tuple(globs), dict(files))
            if found.digest == digest:
                _known[digest] = found
    return _known.get(digest)


def keep(digest: str) -> None:
    """Store the list of inputs for later plans, private to the user; see `manifest.keep`."""
    found = _known.get(digest)
    if found is not None and found.globs and len(found.files) <= MOST_FILES:
        store(digest, {"inputs": [list(found.globs), dict(found.files)]})


def changed_since(ref: InputRef, when: str = "", reader: InputReader | None = None) -> str:
    """Return the files that have changed since `ref` was made, as a phrase: "train.py changed"; "" for none.

    Args:
        when: text that follows "changed".
    """
    try:
        now = (reader or InputReader()).read(ref.directory, ref.globs, ref.root)
    except LauncherError as error:
        return printable(str(error))
    if now.digest == ref.digest:
        return ""
    before = known(ref.digest)
    return (
        changes(before, now, when) if before is not None else ""
    ) or f"its input files changed {when}".rstrip()
