"""Find the files of a checkout that a command runs: files that its words name or its Python files import.

Nothing is executed. A checkout is untrusted data: each search is bounded, and reads no file outside of it.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from time import time_ns
from typing import NamedTuple

from launcher.files import is_below, read_regular
from launcher.specs.inputs import DIGITS, Seen
from launcher.workspace.context import file_hash

MOST_FILES = 256
MOST_BYTES = 1 << 20
MOST_TOTAL_BYTES = 16 << 20
"""Limits of one job: its number of files, and bytes of one file and of all. A larger file is left out."""
_MOST_WORDS = 2_000  # words of one command
_MOST_IMPORTS = 2_000  # of one file
_MOST_STEPS = 200_000  # of one pass over all jobs: the names that it looks up
_MOST_READ = 1 << 30  # of one pass: bytes
_SPLIT = re.compile(r"[\s;|&()<>'\"`=]+")
_MODULE = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*\Z")
_PYTHON = (".py", ".pyw")
_OTHER_CODE = (".sh", ".bash", ".r", ".jl", ".js", ".lua", ".pl", ".rb")


class Command(NamedTuple):
    """The words of a role, and the folders in which they run.

    Attributes:
        folder: absolute working folder of the replica.
        search: further folders that modules are imported from (PYTHONPATH), relative to `folder`.
    """

    words: tuple[str, ...]
    folder: str
    search: tuple[str, ...] = ()


class _File(NamedTuple):
    key: str
    real: str
    size: int
    mtime: float


class _Script(NamedTuple):
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
            imported, is_all = self._imported(script)
            modules |= dict.fromkeys(imported[len(script.files) :])
            is_complete = is_complete and is_all
        files, is_all = self._digests(dict.fromkeys([*named, *modules]))
        imports = frozenset(file.key for path in modules if (file := self._file(path)) and file.key in files)
        return Seen(files, imports, is_complete and is_all)

    def digests(self, keys: Iterable[str]) -> dict[str, str]:
        """The present digests of recorded paths; "" for a file that is gone or too large by now."""
        paths = {key: os.path.join(self._root, key) for key in islice(keys, MOST_FILES)}
        return {**dict.fromkeys(paths, ""), **self._digests(paths.values())[0]}

    def written_between(self, key: str, begin: float, end: float) -> bool:
        """Whether a recorded file that is no code was last written between two times (seconds, epoch)."""
        file = self._file(os.path.join(self._root, key))
        return file is not None and begin <= file.mtime <= end and not self._is_code(file)

    def _digests(self, paths: Iterable[str]) -> tuple[dict[str, str], bool]:
        """Path below the root → digest, and whether no limit was met."""
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

    def _is_code(self, file: _File) -> bool:
        return file.key.lower().endswith((*_PYTHON, *_OTHER_CODE)) or self._start(file).startswith(b"#!")

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
                files = tuple(self._resolved(Import(0, module, ("__main__",)), "", search))
                named += files
                scripts.append(_Script(files, search))
        return named, scripts

    # Imports

    def _imported(self, script: _Script) -> tuple[list[str], bool]:
        """The Python files of a script and of everything that it imports, and whether no limit was met."""
        if script not in self._modules:
            self._modules[script] = self._follow(script)
        return self._modules[script]

    def _follow(self, script: _Script) -> tuple[list[str], bool]:
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
                for module in self._resolved(statement, os.path.dirname(path), script.search):
                    if module not in found:
                        found[module] = None
                        waiting.append(module)
        return list(found), is_complete

    def _statements(self, path: str) -> tuple[Sequence[Import], bool]:
        """The imports of a file, and whether these are all."""
        if path not in self._imports:
            file = self._file(path)
            try:
                source = read_regular(file.real, MOST_BYTES) if file is not None else b""
            except OSError:
                source = b""
            found = list(islice(imports_of(source), _MOST_IMPORTS + 1))
            self._imports[path] = found[:_MOST_IMPORTS], len(found) <= _MOST_IMPORTS
        return self._imports[path]

    def _resolved(self, statement: Import, folder: str, search: Sequence[str]) -> Iterator[str]:
        """The files of the repository that an import in a file of `folder` loads."""
        parts = statement.module.split(".") if statement.module else []
        if statement.level:
            folders: Sequence[str] = (
                os.path.normpath(os.path.join(folder, *[".."] * (statement.level - 1))),
            )
        elif parts[0] in sys.builtin_module_names:
            return
        else:
            folders = search
        for top in folders:
            files, inside = self._walk(top, parts)
            if files or not parts:
                yield from files
                for name in statement.names if inside else ():
                    yield from self._walk(inside, [name])[0]
                return

    def _walk(self, folder: str, parts: Sequence[str]) -> tuple[list[str], str]:
        """The files that importing `parts` below a folder loads, and the folder of its submodules or "".

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
"""The least age of a change when a file is read: some file systems have steps of two seconds."""


class Stamp(NamedTuple):
    """The hash of a file, and how the file looked just before it was read, at `read_ns`."""

    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int
    read_ns: int
    content: str

    def is_of(self, found: os.stat_result) -> bool:
        """Whether the file is unchanged, and was already at rest when it was read."""
        same = (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns) == self[:4]
        return same and max(self.mtime_ns, self.ctime_ns) + _SETTLED_NS < self.read_ns


_stamps: dict[str, Stamp] = {}
"""Path → the stamp of this process's last read: a second plan, or the check before a start, reuses it."""


class FileHashes:
    """The hashes of the files that one plan looks at. Each file is read once, however many jobs name it."""

    def __init__(self, stamps: Mapping[str, Stamp] | None = None) -> None:
        """`stamps` come from an earlier reader, by default from this process."""
        self._stamps = _stamps if stamps is None else dict(stamps)
        self._known: dict[str, str] = {}

    def digest(self, path: str) -> str:
        """SHA-256 (hex) of what a regular file holds. Raises OSError, also for a pipe, socket or device."""
        if path not in self._known:
            self._known[path] = self._content(path)
        return self._known[path]

    def stamp(self, path: str) -> Stamp:
        """Return the stamp of the file from when `digest` read it."""
        return self._stamps[path]

    def _content(self, path: str) -> str:
        found = os.stat(path)
        stamp = self._stamps.get(path)
        if stamp is None or not stamp.is_of(found):
            read_ns = time_ns()
            content = file_hash(path).hex()
            stamp = Stamp(found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns, read_ns, content)
            self._stamps[path] = stamp
        return stamp.content


_LONGEST = 1 << 14  # characters of one statement

_TOKEN = re.compile(
    r"""
    \#[^\n]*
    | (?P<triple>\"\"\"|''')
    | "[^"\\\n]*(?:\\.[^"\\\n]*)*" | '[^'\\\n]*(?:\\.[^'\\\n]*)*'
    | (?:^|[;:])[ \t]*(?P<word>import|from)\b
    """,
    re.VERBOSE | re.MULTILINE | re.DOTALL,
)
_TRIPLE_END = {quote: re.compile(rf"\\.|(?P<end>{quote})", re.DOTALL) for quote in ('"' * 3, "'" * 3)}
_LINE_END = re.compile(r"\\\r?\n|(?P<open>\()|(?P<end>[\n;#])")
_CLOSE = re.compile(r"#[^\n]*|(?P<end>\))")
_BLANK = re.compile(r"(?:#[^\n]*|\\\r?\n|\s)+")
_AROUND = re.compile(r" ?([.,()*]) ?")
_NAME = r"[^\W\d]\w*"
_DOTTED = rf"{_NAME}(?:\.{_NAME})*"
_NAMES = r"{0}(?: as \w+)?(?:,{0}(?: as \w+)?)*"
_IMPORT = re.compile(rf"import ({_NAMES.format(_DOTTED)})")
_FROM = re.compile(
    rf"from ?(?P<dots>\.*)(?P<module>(?!import\b){_DOTTED})? ?import ?"
    rf"(?P<names>\*|{_NAMES.format(_NAME)}|\({_NAMES.format(_NAME)},?\))"
)
"""Statements whose blanks are one space between two words, and none elsewhere."""


class Import(NamedTuple):
    """One import: `from ..a.b import c` is level 2, module `a.b`, names `("c",)`.

    `module` is "" for `from . import c`; `names` is empty for `import a.b`.
    """

    level: int
    module: str
    names: tuple[str, ...] = ()


def imports_of(source: bytes) -> Iterator[Import]:
    """Yield the imports anywhere in a Python file; from source with a syntax error, the readable ones."""
    if b"\0" in source:
        return
    # Only names matter, so any encoding that extends ASCII reads well enough.
    for statement in _statements(source.decode("utf-8-sig", "replace")):
        text = _AROUND.sub(r"\1", _BLANK.sub(" ", statement)).strip()
        if found := _IMPORT.fullmatch(text):
            yield from (Import(0, module) for module in _without_aliases(found[1]))
        elif (found := _FROM.fullmatch(text)) and (found["dots"] or found["module"]):
            names = _without_aliases(found["names"].strip("(),"))
            yield Import(len(found["dots"]), found["module"] or "", names)


def _without_aliases(names: str) -> tuple[str, ...]:
    return tuple(each.partition(" ")[0] for each in names.split(","))


def _statements(text: str) -> Iterator[str]:
    """The texts that begin with `import` or `from` where a statement may begin."""
    at = 0
    while found := _TOKEN.search(text, at):
        at = found.end()
        if found["triple"]:
            at = _end(_TRIPLE_END[found["triple"]], text, at)
        elif found["word"]:
            start = found.start("word")
            at = _end_of_statement(text, at)
            if at - start <= _LONGEST:
                yield text[start:at]


def _end_of_statement(text: str, at: int) -> int:
    """Return the end of the statement's logical line, before the character that ends it."""
    while found := _LINE_END.search(text, at):
        if found["end"]:
            return found.start()
        at = _end(_CLOSE, text, found.end()) if found["open"] else found.end()
    return len(text)


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    """Return the offset behind the first match with the group `end`, or the end of the text."""
    while found := pattern.search(text, at):
        at = found.end()
        if found["end"]:
            return at
    return len(text)
