"""Parse the time that the engine puts in front of each log line: `2026-01-02T03:04:05.123456789Z `."""

from __future__ import annotations

import calendar

from launcher.schedulers.docker.client.errors import EngineError

_SECONDS = len("2026-01-02T03:04:05")
_STAMP = len("2026-01-02T03:04:05.123456789Z ")

_seen: tuple[bytes, int] = (b"", 0)


def split_timestamp(payload: bytes) -> tuple[int, bytes]:
    """Nanoseconds since the epoch, and the text after the time.

    Raises EngineError for a line without a time: that is an error of the engine, not a part of the log.
    """
    global _seen
    text, epoch = _seen
    if payload[:_SECONDS] != text:  # most lines are of the same second as the one before
        text, epoch = payload[:_SECONDS], _epoch(payload)
        _seen = text, epoch
    try:
        return epoch * 10**9 + int(payload[_SECONDS + 1 : _STAMP - 2]), payload[_STAMP:]
    except ValueError:
        raise _broken(payload) from None


def _epoch(payload: bytes) -> int:
    try:
        day, hour = payload[:_SECONDS].split(b"T")
        return calendar.timegm((*map(int, day.split(b"-")), *map(int, hour.split(b":"))))
    except (ValueError, TypeError):
        raise _broken(payload) from None


def _broken(payload: bytes) -> EngineError:
    said = payload.decode("utf-8", "replace").strip()
    return EngineError(f"the engine cannot read on in the log: {said}")
