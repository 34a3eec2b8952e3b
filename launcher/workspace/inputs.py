"""The files that globs of a job file name, and their digests.

Those of `inputs` are read for plans, remembered by digest and compared by holders; those of `rerun_on` are
only hashed.
"""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from glob import has_magic
from hashlib import sha256

from launcher.dataclass import dataclass, field
from launcher.errors import LauncherError
from launcher.files import GONE, is_below
from launcher.looks import noted
from launcher.specs.inputs import InputFiles, changes, combine, named
from launcher.specs.launch import InputRef
from launcher.text import printable
from launcher.workspace.context import MAX_BYTES, files_below, too_large, unreadable
from launcher.workspace.ignore import Ignore, WorkspaceError
from launcher.workspace.manifest import MOST_FILES, store, stored
from launcher.workspace.seen import FileHashes

_NO_RECORDS = Ignore(f"**/{name}" for name in (".git", ".hg", ".jj", ".svn", "__pycache__"))
"""Files that are no inputs of a folder: records of version control and Python, which most commands change."""

_known: dict[str, InputFiles] = {}


@dataclass(slots=True)
class InputReader:
    """Reads the input files of a plan's jobs: walks each glob of a folder once, reads each file once."""

    hashes: FileHashes = field(default_factory=FileHashes)
    _matched: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    _files: dict[tuple[str, str], Mapping[str, str]] = field(default_factory=dict)
    _read: dict[tuple[str, tuple[str, ...]], tuple[str, InputFiles]] = field(default_factory=dict)

    def paths(self, directory: str, glob: str, root: str) -> list[str]:
        """The files that one glob matches below the absolute `directory`. Raises WorkspaceError."""
        if leaves(directory, glob, root):  # a saved plan's glob was not checked by a compiler on this machine
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

    def read(self, directory: str, globs: Iterable[str], root: str) -> tuple[str, InputFiles]:
        """Read the files that any of the globs matches, and return (digest, files).

        Afterwards, `known` finds them by the digest. Raises WorkspaceError.
        """
        key = directory, tuple(globs)
        if key not in self._read:
            files: dict[str, str] = {}
            for glob in key[1]:
                files |= self.files(directory, glob, root)
            found = InputFiles(tuple(sorted(set(key[1]))), files)
            self._read[key] = found.digest, found
            _known[found.digest] = found
        return self._read[key]


@noted
def input_paths(directory: str, glob: str, root: str, *, reader: InputReader | None = None) -> list[str]:
    """Return the files that one glob matches, like `InputReader.paths`."""
    return (reader or InputReader()).paths(directory, glob, root)


@noted
def inputs_digest(
    directory: str, globs: tuple[str, ...], root: str, *, reader: InputReader | None = None
) -> str:
    """The digest of the files that all globs match, as `InputReader.read` reads them."""
    return (reader or InputReader()).read(directory, globs, root)[0]


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


def changed_since(
    ref: InputRef,
    when: str = "",
    reader: InputReader | None = None,
    *,
    since: float | None = None,
    is_late: bool = False,
) -> str:
    """Return the files that have changed since `ref` was made, as a phrase: "train.py changed"; "" for none.

    Args:
        when: text that follows "changed".
        since: the start of the app in epoch seconds, when this is called at or after its end: a file that
            was written since then counts as changed, as it may have had another content meanwhile.
        is_late: the app ended before this call, so that the file may have been written after the end.
    """
    try:
        digest, now = (reader or InputReader()).read(ref.directory, ref.globs, ref.root)
    except LauncherError as error:
        return printable(str(error))
    if digest == ref.digest:
        written = _written_since(ref.directory, now, since) if since is not None else ""
        if written and is_late:
            return f"its input files were not compared when it ended, and {written} meanwhile"
        return f"{written} {when}".rstrip() if written else ""
    before = known(ref.digest)
    found = changes(before, now, when) if before is not None else ""
    return found or f"its input files changed {when}".rstrip()


def _written_since(directory: str, files: InputFiles, since: float) -> str:
    found = []
    for path in sorted(files.files):
        with suppress(OSError):  # the next comparison reports a file that has gone meanwhile
            absolute = os.path.join(directory, path)
            if max(os.stat(absolute).st_ctime, os.lstat(absolute).st_ctime) > since:  # a move sets it, too
                found.append(printable(path))
    if not found:
        return ""
    return f"{named(found)} {'was' if len(found) == 1 else 'were'} written"


MAX_STEPS = 500_000
"""The most names that one glob is compared with; that takes about a second."""

_ALL = Ignore()
_LINK_STEPS = 100  # steps that following a link costs: links in a circle double the tree at each level


@noted
def trigger_digest(
    directory: str, globs: Iterable[str], root: str | None = None, *, hashes: FileHashes | None = None
) -> str:
    """Return the digest of everything that `globs` match, below the absolute `directory`; "" for no globs.

    Globs are those of `glob.glob`, with `**`; names that start with a dot match only where the glob has the
    dot. A glob that names a folder means all files below it. Links are followed; below such a folder, links
    that lead out of `root` do not count.
    Paths are hashed as the globs give them, relative to `directory`; `hashes` reads the files.

    Raises WorkspaceError for a file that cannot be read, a glob or link that leaves `root`, and a glob that
    takes more than MAX_STEPS steps.
    """
    hashes = hashes or FileHashes()
    found = {each: contents(directory, each, matches(directory, each, root), hashes) for each in globs}
    digests = {}
    for glob, files in found.items():  # a glob without matches has a hash as well
        whole = sha256()
        for path, content in files.items():
            whole.update(os.fsencode(path) + b"\0" + bytes.fromhex(content))
        digests[glob] = whole.hexdigest()
    return combine(digests)


def matches(directory: str, pattern: str, root: str | None, ignore: Ignore = _ALL) -> list[str]:
    """The paths of the files that a glob matches, sorted. Raises WorkspaceError, as `trigger_digest` does.

    Args:
        ignore: which files do not count below a folder that the glob names.
    """
    folder = os.path.join(directory, pattern)
    walk = _Walk(directory, pattern, os.path.realpath(root) if root is not None else None)
    if not has_magic(pattern) and os.path.isdir(folder):
        walk.check_inside(pattern)
        found = {os.path.normpath(os.path.join(pattern, path)) for path in walk.below(folder, ignore)}
    else:
        found = set(walk.files())
    return sorted(found, key=os.fsencode)


def contents(directory: str, pattern: str, paths: Iterable[str], hashes: FileHashes) -> dict[str, str]:
    """The files that a glob matches: path → SHA-256 (hex). Raises WorkspaceError."""
    found: dict[str, str] = {}
    size = 0
    for path in paths:
        absolute = os.path.join(directory, path)
        try:
            size += os.stat(absolute).st_size
            if size > MAX_BYTES:
                raise too_large(f"what `{pattern}` matches")
            found[path] = hashes.digest(absolute)
        except GONE:
            continue  # removed meanwhile
        except OSError as error:
            raise unreadable(absolute, error) from error
    return found


def leaves(directory: str, pattern: str, root: str) -> bool:
    """Whether a glob's text leads out of the folder `root`: it begins at `/`, or has too many `..`."""
    parts = os.path.normpath(os.path.join(directory, "")).split(os.sep)
    for part in pattern.split("/"):
        if part == "..":
            parts = parts[:-1]
        elif part not in ("", "."):
            parts.append(part)
        if not is_below(os.sep.join(parts) or os.sep, root):
            return True
    return pattern.startswith("/")


class _Walk:
    """Evaluates one glob below one folder. Each pair of a folder and a part of the glob is visited once."""

    def __init__(self, directory: str, pattern: str, root: str | None) -> None:
        self._directory = directory
        self._pattern = pattern
        self._root = root
        self._steps = 0
        self._names: dict[str, list[str]] = {}
        self._parts: list[str] = []
        for part in pattern.split("/"):
            if part not in ("", ".") and not (part == "**" and self._parts[-1:] == ["**"]):
                self._parts.append(part)
        self._matchers: list[Callable[[str], object]] = [
            re.compile(fnmatch.translate(part)).match for part in self._parts
        ]

    def files(self) -> Iterator[str]:
        """The paths of the regular files that match, as the glob gives them."""
        if self._pattern.rpartition("/")[2] in ("", "."):
            return  # a trailing slash matches only folders
        start = "/" if self._pattern.startswith("/") else ""
        waiting, seen = [(start, 0)], {(start, 0)}
        while waiting:
            path, at = waiting.pop()
            for found in self._next(path, at):
                self._step()
                if found[1] == len(self._parts):
                    absolute = os.path.join(self._directory, found[0])
                    if os.path.isfile(absolute):
                        if os.path.islink(absolute) or not has_magic(self._pattern):
                            self.check_inside(found[0])
                        yield os.path.normpath(found[0])
                elif found not in seen:
                    seen.add(found)
                    waiting.append(found)

    def below(self, folder: str, ignore: Ignore, within: frozenset[str] = frozenset()) -> Iterator[str]:
        """Return the paths of the files below a folder, relative to it.

        Links are followed, except those that lead out of the root, or to a folder of `within`: the folders on
        the way to this one.
        """
        within |= {os.path.realpath(folder)}
        for entry in files_below(folder, ignore):
            linked = os.path.join(folder, entry.path)
            if entry.kind != "link":
                yield entry.path
            elif self._root is None or is_below(target := os.path.realpath(linked), self._root):
                if os.path.isfile(linked):
                    yield entry.path
                elif os.path.isdir(linked) and target not in within:
                    self._step(_LINK_STEPS)
                    yield from (f"{entry.path}/{path}" for path in self.below(linked, ignore, within))

    def _next(self, path: str, at: int) -> Iterator[tuple[str, int]]:
        """Return the paths that the glob's next part matches in a folder: (path, number of parts used)."""
        part, last = self._parts[at], at + 1 == len(self._parts)
        if part == "**":
            if not last:
                yield path, at + 1
            for name in self._inside(path):
                if not name.startswith("."):
                    yield os.path.join(path, name), at
                    if last:
                        yield os.path.join(path, name), at + 1
        elif has_magic(part):
            matches, hidden = self._matchers[at], part.startswith(".")
            for name in self._inside(path):
                if (hidden or not name.startswith(".")) and matches(name):
                    yield os.path.join(path, name), at + 1
        else:
            yield os.path.join(path, part), at + 1

    def _inside(self, path: str) -> list[str]:
        """The names in a folder; none when it is no folder, or cannot be read."""
        if path not in self._names:
            absolute = os.path.join(self._directory, path)
            try:
                if os.path.islink(absolute) or path.endswith(".."):
                    self._step(_LINK_STEPS)
                    self.check_inside(path)
                self._names[path] = os.listdir(absolute)
            except OSError:
                self._names[path] = []
        self._steps += len(self._names[path])
        return self._names[path]

    def check_inside(self, path: str) -> None:
        """Raise WorkspaceError when a path leads out of the root."""
        if self._root is None:
            return
        if not is_below(os.path.realpath(os.path.join(self._directory, path)), self._root):
            message = f"`{path}`, which `{self._pattern}` matches, leads out of the repository"
            hint = "globs name files of the repository: copy it, or write a narrower glob"
            raise WorkspaceError(message, hint=hint)

    def _step(self, count: int = 1) -> None:
        self._steps += count
        if self._steps > MAX_STEPS:
            message = f"`{self._pattern}` is compared with more than {MAX_STEPS:,} names"
            raise WorkspaceError(message, hint="begin it with a folder, and use `**` once")
