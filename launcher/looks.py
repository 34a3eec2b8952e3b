"""Looks at files, folders, git and the environment, noted so that a cached result can be checked later.

A function marked `noted` reads the world, and its answer depends only on what it reads and on its arguments.
A computation that reads the world through such functions alone has the same result whenever all of them give
the same answers. The compiler of job files does; `tests/unit/jobfile/test_noted.py` finds other reads.
"""

from __future__ import annotations

import os

from launcher import files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, ParamSpec, TypeVar

    from launcher import git

    P = ParamSpec("P")
    T = TypeVar("T")

Question = tuple[str, tuple[object, ...]]
"""A noted function, "module:name", and its arguments: texts, numbers, None, and tuples of them."""

_functions: dict[str, Callable[..., object]] = {}
_notes: Notes | None = None
"""The notes of the present computation. None also while a noted function runs, because that function's own
questions are part of its answer.
"""


class Notes:
    """The questions of one computation, each with the digest of its answer.

    Inside a `with`, each question is asked once, and repeated questions get the same answer: the digest
    belongs to the very bytes that were compiled.

    Args:
        key: the key of the digests; without it they reveal nothing of an answer.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._answers: dict[Question, tuple[bytes, object, OSError | None]] = {}
        self.asked: dict[Question, bytes] = {}
        self.is_repeatable = True
        """Whether the result depends on the questions alone, and may be kept with them."""

    def __enter__(self) -> Notes:
        global _notes
        self._outer, _notes = _notes, self
        return self

    def __exit__(self, *raised: object) -> None:
        global _notes
        _notes = self._outer

    def ask(self, question: Question, function: Callable[[], Any]) -> Any:
        """Return the answer to a question, from `function` unless known. Raises what `function` raises."""
        global _notes
        if question not in self._answers:
            _notes = None
            try:
                answer, error = function(), None
            except OSError as found:
                error = found
                answer = repr((type(found).__name__, found.errno, found.strerror, found.filename))
            except Exception:
                self.is_repeatable = False  # a failure of git, or a too large folder, may be gone next time
                raise
            finally:
                _notes = self
            self._answers[question] = self._digest(answer), answer, error
        digest, answer, error = self._answers[question]
        self.asked[question] = digest
        if error is not None:
            raise error
        return answer

    def still_hold(self, asked: Mapping[Question, bytes]) -> bool:
        """Whether all questions still have the answers of these digests. Later computations reuse answers."""
        with self:
            for question, digest in asked.items():
                name, args = question
                try:
                    if name not in _functions:
                        from importlib import import_module

                        import_module(name.partition(":")[0])
                    _functions[name](*args)
                except OSError:
                    pass  # an OSError may be the noted answer
                except Exception:
                    return False
                if self.asked.get(question) != digest:
                    return False
        return True

    def begin(self) -> Notes:
        """Return these notes for a new computation: without questions so far, with the known answers."""
        self.asked = {}
        self.is_repeatable = True
        return self

    def _digest(self, answer: object) -> bytes:
        from launcher.hashes import blake2b

        data = answer if isinstance(answer, bytes) else repr(answer).encode("utf-8", "surrogatepass")
        return blake2b(data, digest_size=16, key=self._key).digest()


def noted(function: Callable[P, T], own_name: str = "") -> Callable[P, T]:
    """Mark a function that reads the world, so that its arguments and its answer are noted.

    Keyword arguments only help to find the answer, and are no part of the question.

    Args:
        own_name: the name here of a function of another module.
    """
    name = f"{__name__}:{own_name}" if own_name else f"{function.__module__}:{function.__name__}"

    def asked(*args: P.args, **means: P.kwargs) -> T:
        notes = _notes
        if notes is None:
            return function(*args, **means)
        answer: T = notes.ask((name, args), lambda: function(*args, **means))
        return answer

    asked.__doc__ = function.__doc__
    asked.__module__, _, asked.__name__ = name.partition(":")
    asked.__wrapped__ = function  # type: ignore[attr-defined]
    _functions[name] = asked
    return asked


def not_repeatable() -> None:
    """Record that the result depends on more than noted questions, or holds values that may not be kept."""
    if _notes is not None:
        _notes.is_repeatable = False


def is_noting() -> bool:
    """Whether a computation is running whose questions are noted."""
    return _notes is not None


# -- looks of the compiler ---------------------------------------------------------------------------------


current_folder = noted(os.getcwd, "current_folder")
exists = noted(os.path.exists, "exists")
lexists = noted(os.path.lexists, "lexists")
is_folder = noted(os.path.isdir, "is_folder")
is_file = noted(os.path.isfile, "is_file")
is_link = noted(os.path.islink, "is_link")
project_file = noted(files.project_file, "project_file")
is_top = noted(files.is_top, "is_top")
_content = noted(files.read_regular, "_content")


@noted
def real_path(path: str) -> str:
    return os.path.realpath(path)


@noted
def expanded(path: str) -> str:
    """Return the path with `~` replaced by the home of the user."""
    return os.path.expanduser(path)


@noted
def names_in(folder: str) -> tuple[str, ...]:
    """The names in a folder, sorted. Raises OSError."""
    return tuple(sorted(os.listdir(folder)))


def content(path: str, limit: int) -> bytes:
    """The first `limit` bytes of a file, as `files.read_regular` reads it."""
    if path.startswith(files.GIVEN):
        not_repeatable()  # a pipe cannot be read twice
    return _content(path, limit)


@noted
def variable(name: str) -> str | None:
    """The value of an environment variable; None where it is not set."""
    return os.environ.get(name)


@noted
def work_tree(path: str) -> str | None:
    """The root of the git work tree that holds a path; None without one, or without git."""
    from launcher.git import repository

    tree = repository(path)
    return tree.root if tree is not None else None


@noted
def origin(root: str) -> str | None:
    """The remote of a work tree, as `Repository.origin`. Raises CommandError."""
    return _tree(root).origin


@noted
def head(root: str) -> git.Head:
    """The commit and branch of a work tree, as `Repository.head`. Raises CommandError."""
    return _tree(root).head()


@noted
def ignored(root: str, paths: tuple[str, ...]) -> tuple[str, ...]:
    """Return the paths in a work tree that git ignores. Raises CommandError."""
    return tuple(sorted(_tree(root).ignored(paths)))


def _tree(root: str) -> git.Repository:
    from launcher.git import Repository, repository

    found = repository(root)
    return found if found is not None and found.root == root else Repository(root)  # removed: git says so
