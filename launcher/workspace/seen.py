"""Find the files of a checkout that a command runs: files that its words name or its Python files import.

Nothing is executed. A checkout is untrusted data: each search is bounded, and reads no file outside of it.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from time import time_ns
from typing import TYPE_CHECKING

from launcher.dataclass import dataclass
from launcher.files import is_below, read_regular
from launcher.specs.inputs import DIGITS, MORE, Seen
from launcher.workspace.context import file_hash

if TYPE_CHECKING:
    from launcher.workspace.python_imports import Import

MOST_FILES = 256
MOST_BYTES = 1 << 20
MOST_TOTAL_BYTES = 16 << 20
"""Limits of one job: its number of files, bytes of one file, bytes of all. Larger files are left out."""
_MOST_WORDS = 2_000  # words of one command
_MOST_IMPORTS = 2_000  # imports of one file
_MOST_STEPS = 200_000  # names that one pass over all jobs looks up
_MOST_READ = 1 << 30  # bytes that one pass reads
_SPLIT = re.compile(r"[\s;|&()<>'\"`=]+")
_MODULE = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*\Z")
_PYTHON = (".py", ".pyw")
_OTHER_CODE = (".sh", ".bash", ".r", ".jl", ".js", ".lua", ".pl", ".rb")


@dataclass(frozen=True, slots=True)
class Command:
    """The words of a role, and the folders in which they run.

    Attributes:
        folder: absolute working folder of the replica.
        search: further folders that modules are imported from (PYTHONPATH), relative to `folder`.
    """

    words: tuple[str, ...]
    folder: str
    search: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _File:
    key: str
    real: str
    size: int
    mtime: float


@dataclass(frozen=True, slots=True)
class _Script:
    """Python files that run with one search path."""

    files: tuple[str, ...]
    search: tuple[str, ...]


class SeenFiles:
    """Finds and hashes the files of many jobs in one pass; each file is read once, however many name it.

    Args:
        root: absolute folder of the repository. Files outside, also through links, do not belong to it.
    """

    def __init__(self, root: str, hashes: FileHashes | None = None) -> None:
        self._root = os.path.normpath(root)
        self._real_root = os.path.realpath(root)
        self._hashes = hashes or FileHashes()
        self._steps = self._read = 0
        self._files: dict[str, _File | None] = {}
        self._imports: dict[str, tuple[Sequence[Import], bool]] = {}
        self._starts: dict[str, bytes] = {}
        self._seen: dict[tuple[tuple[str, ...], tuple[_Script, ...]], Seen] = {}
        self._modules: dict[_Script, tuple[list[str], bool]] = {}

    def of(self, commands: Iterable[Command]) -> Seen:
        """The files of one job, with their digests."""
        named: list[str] = []
        scripts: list[_Script] = []
        for command in commands:
            paths, to_follow = self._words(command)
            named += paths
            scripts += to_follow
        key = tuple(named), tuple(scripts)
        if key not in self._seen:
            self._seen[key] = self._follow_all(*key)
        return self._seen[key]

    def _follow_all(self, named: Sequence[str], scripts: Sequence[_Script]) -> Seen:
        modules: dict[str, None] = {}
        is_complete = True
        for script in scripts:
            if script not in self._modules:
                self._modules[script] = self._follow(script)
            imported, is_all = self._modules[script]
            modules |= dict.fromkeys(imported[len(script.files) :])
            is_complete = is_complete and is_all
        files, is_all = self._digests(dict.fromkeys([*named, *modules]))
        imports = frozenset(file.key for path in modules if (file := self._file(path)) and file.key in files)
        return Seen(files if is_complete and is_all else {**files, MORE: "more"}, imports)

    def digests(self, keys: Iterable[str]) -> dict[str, str]:
        """The present digests of recorded paths; "" for a file that is gone or too large by now."""
        paths = {key: os.path.join(self._root, key) for key in islice(keys, MOST_FILES)}
        return {**dict.fromkeys(paths, ""), **self._digests(paths.values())[0]}

    def written(self, key: str) -> float:
        """When a recorded file was last written, in seconds since the epoch; 0 for one that is gone."""
        file = self._file(os.path.join(self._root, key))
        return file.mtime if file is not None else 0.0

    def is_code(self, key: str) -> bool:
        """Whether a recorded file is a program, by its name or its first line."""
        file = self._file(os.path.join(self._root, key))
        return (
            file is None
            or file.key.lower().endswith((*_PYTHON, *_OTHER_CODE))
            or self._start(file)[:2] == b"#!"
        )

    def _digests(self, paths: Iterable[str]) -> tuple[dict[str, str], bool]:
        """Return path below the root → digest, and whether all files were within the limits."""
        out: dict[str, str] = {}
        total = 0
        for path in paths:
            file = self._file(path)
            if file is None or file.key in out:
                continue
            total += file.size
            if len(out) == MOST_FILES or total > MOST_TOTAL_BYTES or self._read > _MOST_READ:
                return out, False
            try:
                out[file.key] = self._hashes.digest(file.real)[:DIGITS]
            except OSError:
                continue  # removed meanwhile, or not readable
        return out, True

    def _file(self, path: str) -> _File | None:
        """A regular file of the repository that is not too large; None for anything else."""
        if path not in self._files:
            self._files[path] = found = self._look_at(path)
            self._read += found.size if found else 0
        return self._files[path]

    def _look_at(self, path: str) -> _File | None:
        try:
            status = os.stat(path)
            if not stat.S_ISREG(status.st_mode) or status.st_size > MOST_BYTES:
                return None
            real = os.path.realpath(path)
        except (OSError, ValueError):  # ValueError: a null byte
            return None
        if not is_below(real, self._real_root):
            return None
        plain = os.path.normpath(path)
        below = plain if is_below(plain, self._root) else real
        top = self._root if below is plain else self._real_root
        return _File(os.path.relpath(below, top), real, status.st_size, status.st_mtime)

    def _is_python(self, file: _File) -> bool:
        if file.key.endswith(_PYTHON):
            return True
        first = self._start(file).partition(b"\n")[0]
        return first.startswith(b"#!") and b"python" in first

    def _start(self, file: _File) -> bytes:
        if file.real not in self._starts:
            try:
                self._starts[file.real] = read_regular(file.real, 128)
            except OSError:
                self._starts[file.real] = b""
        return self._starts[file.real]

    # Words

    def _words(self, command: Command) -> tuple[list[str], list[_Script]]:
        """Return the paths that the words name, and the Python files to follow."""
        named: list[str] = []
        scripts: list[_Script] = []
        before = ""
        more = tuple(os.path.join(command.folder, each) for each in command.search)
        for word in islice(_pieces(command.words), _MOST_WORDS):
            module = word if before in ("-m", "--module") else word[2:] if word.startswith("-m") else ""
            before = word
            path = os.path.join(command.folder, word)
            if (file := self._file(path)) is not None:
                named.append(path)
                if self._is_python(file):
                    scripts.append(_Script((path,), (os.path.dirname(file.real), *more)))
            elif _MODULE.match(module):
                search = (command.folder, *more)
                files = tuple(self._resolved("", search, 0, module, ("__main__",)))
                named += files
                scripts.append(_Script(files, search))
        return named, scripts

    # Imports

    def _follow(self, script: _Script) -> tuple[list[str], bool]:
        """Return the Python files of a script and of all its imports, and whether no limit was met."""
        found = dict.fromkeys(script.files)
        waiting = list(script.files)
        is_complete = True
        while waiting:
            path = waiting.pop(0)
            statements, is_all = self._statements(path)
            is_complete = is_complete and is_all
            for statement in statements:
                if self._steps > _MOST_STEPS or len(found) > MOST_FILES:
                    return list(found), False
                for module in self._resolved(os.path.dirname(path), script.search, *statement):
                    if module not in found:
                        found[module] = None
                        waiting.append(module)
        return list(found), is_complete

    def _statements(self, path: str) -> tuple[Sequence[Import], bool]:
        """Return the imports of a file, and whether these are all of its imports."""
        if path not in self._imports:
            file = self._file(path)
            try:
                source = read_regular(file.real, MOST_BYTES) if file is not None else b""
            except OSError:
                source = b""
            from launcher.workspace.python_imports import imports_of  # only a few jobs of a plan need it

            found = list(islice(imports_of(source), _MOST_IMPORTS + 1))
            self._imports[path] = found[:_MOST_IMPORTS], len(found) <= _MOST_IMPORTS
        return self._imports[path]

    def _resolved(
        self, folder: str, search: Sequence[str], level: int, module: str, names: Sequence[str]
    ) -> Iterator[str]:
        """Yield the files of the repository that an import in a file of `folder` loads; see `Import`."""
        parts = module.split(".") if module else []
        if level:
            folders: Sequence[str] = (os.path.normpath(os.path.join(folder, *[".."] * (level - 1))),)
        elif parts[0] in sys.builtin_module_names:
            return
        else:
            folders = search
        for top in folders:
            files, inside = self._walk(top, parts)
            if files or not parts:
                yield from files
                for name in names if inside else ():
                    yield from self._walk(inside, [name])[0]
                return

    def _walk(self, folder: str, parts: Sequence[str]) -> tuple[list[str], str]:
        """Return the files that an import of `parts` below a folder loads, and its submodules' folder or "".

        A folder without `__init__.py` is a package as well.
        """
        files: list[str] = []
        for part in parts:
            self._steps += 1
            package, module = os.path.join(folder, part), os.path.join(folder, f"{part}.py")
            if self._file(init := os.path.join(package, "__init__.py")) is not None:
                files.append(init)
            elif self._file(module) is not None:
                return [*files, module], ""
            elif not os.path.isdir(package):
                return files, ""
            folder = package
        return files, folder


def _pieces(words: Iterable[str]) -> Iterator[str]:
    """Yield each word, and the words within a word that is a script or an option with a value."""
    for word in words:
        yield word
        if _SPLIT.search(word):
            yield from filter(None, _SPLIT.split(word[: 1 << 16]))


_SETTLED_NS = 2_000_000_000
"""The least age of a change at the time of reading: some file systems count in steps of two seconds."""


@dataclass(frozen=True, slots=True)
class _Stamp:
    """The hash of a file, and how the file looked just before it was read, at `read_ns`."""

    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int
    read_ns: int
    content: str

    def is_of(self, found: os.stat_result) -> bool:
        """Return whether the file is unchanged, and had been at rest for long enough when it was read."""
        now = found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
        is_same = now == (self.inode, self.size, self.mtime_ns, self.ctime_ns)
        return is_same and max(self.mtime_ns, self.ctime_ns) + _SETTLED_NS < self.read_ns


_stamps: dict[str, _Stamp] = {}
"""Path → the stamp of this process's last read: a second plan, or the check before a start, reuses it."""


class FileHashes:
    """The hashes of the files that one plan looks at. Each file is read once, however many jobs name it."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def digest(self, path: str) -> str:
        """SHA-256 (hex) of what a regular file holds. Raises OSError, also for a pipe, socket or device."""
        if path not in self._known:
            found = os.stat(path)
            stamp = _stamps.get(path)
            if stamp is None or not stamp.is_of(found):
                looks = found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
                stamp = _stamps[path] = _Stamp(*looks, time_ns(), file_hash(path).hex())
            self._known[path] = stamp.content
        return self._known[path]
