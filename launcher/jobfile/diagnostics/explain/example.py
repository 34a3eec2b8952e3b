"""What an explanation is made of: why, a wrong example and a right one that can both be tried."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

JOB = "job.launcher.yaml"


class Link(str):
    """The content of a symbolic link: where it points."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Example:
    """Files, and the command that is typed beside them.

    Attributes:
        files: name → text; bytes where it is none, a Link for a symbolic link.
        command: without `launcher` in front; "" for none.
        before: what is typed in a shell before it.
    """

    files: Mapping[str, str | bytes | Link]
    command: str = f"validate {JOB}"
    before: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Every file under its name, and the command."""
        blocks = [f"{_comment(name)}\n{_shown(content)}" for name, content in self.files.items()]
        last = (f"launcher {self.command}",) if self.command else ()
        typed = "".join(f"$ {line}\n" for line in (*self.before, *last))
        return "\n".join([*blocks, typed])


@dataclass(frozen=True, slots=True)
class Explanation:
    """A diagnostic code explained: `why` it is one and what to do, in a paragraph or two."""

    code: str
    why: str
    wrong: Example
    right: Example


@dataclass(frozen=True, slots=True)
class ReasonExplanation:
    """A reason in a plan explained.

    Attributes:
        why: what causes it.
        example: files and commands, the last of which shows the reason.
        remedy: what to do when it is not what was wanted.
        typed: that, as commands; after them the reason is gone.
    """

    code: str
    why: str
    example: Example
    remedy: str
    typed: tuple[str, ...]


def in_yaml(code: str, why: str, wrong: str, right: str, command: str = f"validate {JOB}") -> Explanation:
    """An explanation with one file, in YAML, and one command."""
    return Explanation(code, why, Example({JOB: wrong}, command), Example({JOB: right}, command))


def _comment(name: str) -> str:
    return f"# {name}"


def _shown(content: str | bytes | Link) -> str:
    if isinstance(content, bytes):
        return content.decode("utf-8", "backslashreplace")
    return f"(a link to {content})\n" if isinstance(content, Link) else content
