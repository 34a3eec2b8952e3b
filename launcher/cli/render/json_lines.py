"""The lines of `launcher logs --json`."""

from __future__ import annotations

import time
from collections.abc import Mapping
from json import dumps

from launcher.cli.render.log_lines import Shaper


class JsonShaper(Shaper):
    """Turns the output of one replica into lines of JSON, in ASCII: an object for each line of output.

    Args:
        facts: the fields about the replica that every object has.
    """

    __slots__ = ("_facts", "_stream")

    def __init__(self, facts: Mapping[str, object], *, regex: str | None = None) -> None:
        super().__init__(regex=regex)
        self._facts = facts
        self._stream = ""

    def feed(self, time_ns: int, stream: str, data: bytes) -> bytes:
        self._stream = stream
        return super().feed(time_ns, stream, data)

    def finish(self, time_ns: int = 0) -> bytes:
        return b"".join(self.feed(time_ns, stream, b"\n") for stream in [*self._partial])

    def _shape(self, time_ns: int, text: bytes) -> bytes:
        text = super()._shape(time_ns, text)
        if not text:
            return text
        second, rest = divmod(time_ns, 1_000_000_000)
        at = f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(second))}.{rest // 1000:06}Z"
        facts = {**self._facts, "stream": self._stream, "time": at}
        lines = text[:-1].decode("utf-8", "replace").split("\n")
        return "".join(dumps({**facts, "text": line}) + "\n" for line in lines).encode()
