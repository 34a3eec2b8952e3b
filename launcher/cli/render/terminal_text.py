"""Escape the output of replicas for a terminal: it gets their colours, and no other control sequence."""

from __future__ import annotations

import codecs
import re

_DRIVES = re.compile(
    r"(\x1b\[[0-9;:]*[mK])"  # colours, and erasing the rest of a line, as progress bars do
    r"|[\x00-\x07\x0b\x0c\x0e-\x1f\x7f-\x9f\udc80-\udc9f]"
)
_BEGUN = re.compile(r"\x1b(?:\[[0-9;:]{0,64})?\Z")
_MAY_DRIVE = re.compile(rb"[^\n\r\t\x20-\x7e]")


class TerminalText:
    """Output of replicas on its way to a terminal, in pieces that are cut anywhere.

    Colours pass, and so do newlines, tabs, backspaces and carriage returns. Any other control character is
    escaped, and with it every sequence that moves the cursor, sets a title or fills the clipboard. Bytes that
    are not UTF-8 stay unchanged.
    """

    __slots__ = ("_begun", "_decoder")

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._begun = ""  # an escape sequence that is not complete yet

    def feed(self, data: bytes) -> bytes:
        if not self._begun and not self._decoder.getstate()[0] and not _MAY_DRIVE.search(data):
            return data
        text = self._begun + self._decoder.decode(data)
        begun = _BEGUN.search(text)
        self._begun = begun[0] if begun else ""
        return _escaped(text[: begun.start()] if begun else text)

    def finish(self) -> bytes:
        """Return the incomplete character or escape sequence that is left at the end."""
        text, self._begun = self._begun + self._decoder.decode(b"", final=True), ""
        return _escaped(text)


def terminal_text(data: bytes) -> bytes:
    """Whole lines of replicas for a terminal."""
    text = TerminalText()
    return text.feed(data) + text.finish()


def _escaped(text: str) -> bytes:
    def escape(found: re.Match[str]) -> str:
        return found[1] or f"\\x{ord(found[0]) & 0xFF:02x}"

    return _DRIVES.sub(escape, text).encode("utf-8", "surrogateescape")
