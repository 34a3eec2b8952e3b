"""Argument types: choices, counts, durations, times, KEY=VALUE. Functions for `type=` of an argument."""

from __future__ import annotations

import time

from launcher.cli.arguments import ArgumentTypeError
from launcher.text import DURATION_EXAMPLES, did_you_mean, duration_meant, is_number, seconds_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_LAST = 253_402_214_400.0  # the end of the year 9999: calendars go no further


def one_of(*allowed: str) -> Callable[[str], str]:
    """A type that accepts one of these words; its error suggests the nearest one."""

    def word(text: str) -> str:
        if text in allowed:
            return text
        near = did_you_mean(text, allowed)
        raise ArgumentTypeError(f"`{text}` is not one of {', '.join(allowed)}{'; ' + near if near else ''}")

    return word


def several_of(*allowed: str) -> Callable[[str], tuple[str, ...]]:
    """A type that accepts a comma-separated list of these words."""
    single = one_of(*allowed)

    def words(text: str) -> tuple[str, ...]:
        return tuple(single(word.strip()) for word in text.split(","))

    return words


def count(text: str) -> int:
    """A whole number, 0 or more."""
    if not text.isascii() or not text.isdigit():
        raise ArgumentTypeError(f"expected a whole number, got `{text}`")
    return int(text)


def positive(text: str) -> int:
    """A whole number, 1 or more."""
    number = count(text)
    if number < 1:
        raise ArgumentTypeError(f"expected at least 1, got `{text}`")
    return number


def key_value(text: str) -> tuple[str, str]:
    """`KEY=VALUE`; the value may be empty and may hold further `=`."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise ArgumentTypeError(f"expected KEY=VALUE, got `{text}`")
    return key, value


def duration(text: str) -> float:
    """Seconds, from `90`, `1.5`, `250ms`, `10s`, `2m`, `1h30m`, `7d`."""
    seconds = float(text) if is_number(text) else seconds_in(text)
    if seconds is None:
        meant = duration_meant(text)
        hint = f"; did you mean `{meant}`?" if meant else ""
        raise ArgumentTypeError(f"expected a duration such as {DURATION_EXAMPLES}, got `{text}`{hint}")
    return seconds


def _with_colon(stamp: str) -> str:
    """Put a colon into the zone, for Python 3.10; launcher prints zones without one."""
    zone = stamp[-5:]
    return (
        f"{stamp[:-2]}:{zone[3:]}"
        if zone[:1] in ("+", "-") and zone[1:].isdigit() and "T" in stamp
        else stamp
    )


def moment(text: str) -> float:
    """Seconds since the epoch, from a duration before now, a local date and time, or `@SECONDS`.

    `10m` is ten minutes ago; `2025-03-01`, `2025-03-01T12:30`, `2025-03-01 12:30:05+02:00`, `12:30` (today).
    """
    number = text[1:]
    if text.startswith("@") and is_number(number):
        return min(float(number), _LAST)
    ago = float(text) if is_number(text) else seconds_in(text)
    if ago is not None:
        return max(0.0, time.time() - ago)
    stamp = _with_colon(text[:-1] + "+0000" if text.endswith("Z") else text)
    if ":" in text and "-" not in text:
        stamp = f"{time.strftime('%Y-%m-%d')}T{stamp}"
    try:
        from datetime import datetime

        return datetime.fromisoformat(stamp).timestamp()
    except (ValueError, OverflowError):
        raise ArgumentTypeError(
            f"expected a time such as 10m (ago), 12:30, 2025-03-01T12:30 or @1740832200, got `{text}`"
        ) from None
