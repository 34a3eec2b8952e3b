"""Notes of what a computation asks the world, by which a kept result of it can be trusted again later.

A function marked `noted` reads files, folders, git or the environment, and returns the same for the same
arguments as long as these stay the same. A computation that reads the world through such functions alone has
the same result wherever all of them give the same answers.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, ParamSpec, TypeVar

    P = ParamSpec("P")
    T = TypeVar("T")

Question = tuple[str, tuple[object, ...]]
"""A noted function, "module:name", and its arguments: texts, numbers, None, and tuples of them."""

_DIGEST_BYTES = 16

_functions: dict[str, Callable[..., object]] = {}
_notes: Notes | None = None
"""Those of the computation that goes on; None also while a noted function looks: what it asks in turn is
part of its answer."""


class Notes:
    """The questions of one computation, each with the digest of its answer.

    Inside a `with`, each question is asked once: whatever asks it again gets the same answer, so that the
    bytes that have a digest here are those that were compiled.

    Args:
        key: of the digests, which tell nothing of an answer without it.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._answers: dict[Question, tuple[bytes, object, OSError | None]] = {}
        self.asked: dict[Question, bytes] = {}
        self.is_repeatable = True
        """Whether the questions are all that the result stands on, and may be kept with it."""

    def __enter__(self) -> Notes:
        global _notes
        self._outer, _notes = _notes, self
        return self

    def __exit__(self, *raised: object) -> None:
        global _notes
        _notes = self._outer

    def ask(self, question: Question, function: Callable[[], Any]) -> Any:
        """The answer to a question, from `function` unless it is known. Raises what it raises."""
        global _notes
        if question not in self._answers:
            _notes = None
            try:
                answer, error = function(), None
            except OSError as found:
                answer, error = (
                    repr((type(found).__name__, found.errno, found.strerror, found.filename)),
                    found,
                )
            except Exception:
                self.is_repeatable = False  # a failure of git, a folder that is too large: it may pass
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
        """Whether all questions have the answers of these digests today; later computations get them, too."""
        with self:
            for question, digest in asked.items():
                try:
                    _function(question[0])(*question[1])
                except OSError:
                    pass  # that may be the answer
                except Exception:
                    return False
                if self.asked.get(question) != digest:
                    return False
        return True

    def begin(self) -> Notes:
        """These notes for a computation that begins: it has asked nothing, and known answers stay."""
        self.asked = {}
        self.is_repeatable = True
        return self

    def _digest(self, answer: object) -> bytes:
        from hashlib import blake2b

        data = answer if isinstance(answer, bytes) else repr(answer).encode("utf-8", "surrogatepass")
        return blake2b(data, digest_size=_DIGEST_BYTES, key=self._key).digest()


def noted(function: Callable[P, T]) -> Callable[P, T]:
    """Mark a function that looks at the world: its arguments and its answer are noted.

    Keyword arguments are means to find the answer, and no part of the question.
    """
    name = f"{function.__module__}:{function.__name__}"

    def asked(*args: P.args, **means: P.kwargs) -> T:
        notes = _notes
        if notes is None:
            return function(*args, **means)
        answer: T = notes.ask((name, args), lambda: function(*args, **means))
        return answer

    asked.__doc__ = function.__doc__
    asked.__name__ = function.__name__
    asked.__module__ = function.__module__
    asked.__wrapped__ = function  # type: ignore[attr-defined]
    _functions[name] = asked
    return asked


def not_repeatable() -> None:
    """Say that the result stands on more than noted questions, or holds what may not be kept."""
    if _notes is not None:
        _notes.is_repeatable = False


def is_noting() -> bool:
    """Whether a computation goes on whose questions are noted."""
    return _notes is not None


def _function(name: str) -> Callable[..., object]:
    if name not in _functions:
        from importlib import import_module

        import_module(name.partition(":")[0])
    return _functions[name]
