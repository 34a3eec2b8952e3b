"""One file's text → its canonical text, proven to mean the same."""

from __future__ import annotations

from collections.abc import Sequence

from launcher.errors import LauncherError
from launcher.files import PROJECT_FILE
from launcher.jobfile.format.order import JOB, PROJECT
from launcher.jobfile.format.verify import same_meaning
from launcher.jobfile.format.yaml_nodes import Odd
from launcher.jobfile.text.document import Document
from launcher.jobfile.text.source import Source


class Unformattable(LauncherError):
    """A valid file that has no canonical form here, or whose meaning would not survive. It stays as it is."""


def format_text(source: Source, document: Document) -> str:
    """The canonical text of a job file or launcher.toml that was read without errors.

    Line ends stay what they are. The result is a fixed point: formatted again, it does not change.

    Raises Unformattable.
    """
    text = source.text.replace("\r\n", "\n")
    known = PROJECT if source.file.replace("\\", "/").rpartition("/")[2] == PROJECT_FILE else JOB
    problem: Odd | None = None
    # An alias must stand behind its anchor. Where sorted keys would change that, they are left alone.
    for reorder in (True, False):
        try:
            result = _stable(source, text, known, reorder)
        except Odd as odd:
            problem = odd
            continue
        if result is not None and same_meaning(document, result):
            return result.replace("\n", "\r\n") if "\r\n" in source.text else result
    if problem is not None:
        line, column = source.position(problem.at)
        raise Unformattable(f"{source.file}:{line}:{column}: cannot be formatted with {problem.what}")
    raise Unformattable(
        f"{source.file}: cannot be formatted: the result would mean something else",
        hint="nothing was changed",
    )


def _stable(source: Source, text: str, known: Sequence[str], reorder: bool) -> str | None:
    """The text formatted until nothing changes any more; None when that does not end."""
    for _ in range(4):
        before, text = text, _once(source, text, known, reorder)
        if text == before:
            return text
    return None


def _once(source: Source, text: str, known: Sequence[str], reorder: bool) -> str:
    # Imported by format: a TOML file does not wait for the YAML library.
    if source.format == "toml":
        from launcher.jobfile.format.toml_text import format_toml

        return format_toml(text, known, reorder=reorder)
    from launcher.jobfile.format.yaml_text import format_yaml

    return format_yaml(text, known, reorder=reorder)
