"""What is written as text and means more: memory, durations, mounts in one line, where secrets are."""

from __future__ import annotations

import math
import re
from typing import Any

from pydantic_core import PydanticCustomError

from launcher.specs import Secret, parse_mounts
from launcher.specs.mounts import InvalidMountException, Mount
from launcher.specs.secret import MalformedSecretException
from launcher.text import DURATION_UNITS, duration_meant, seconds_in

MIB = 2**20
_UNITS = {
    "B": 1,
    "kB": 10**3,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
    "TiB": 2**40,
    "Ki": 2**10,
    "Mi": 2**20,
    "Gi": 2**30,
    "Ti": 2**40,
}
_MEMORY = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,6})?) ?([A-Za-z]+)\Z")
MEMORY_PATTERN = r"^[0-9]+(\.[0-9]+)? ?(([KMGT]i|[kKMGT])B|[KMGT]i|B)$"

SECRET_PATTERN = r"^(env:[A-Za-z_][A-Za-z0-9_]*|file:[\s\S]*\S[\s\S]*)$"
MAX_SECONDS = 10 * 365 * 86400


def problem(code: str, message: str, label: str = "", hint: str = "") -> PydanticCustomError:
    """An error of ours that pydantic carries to where errors are placed; see `wording`."""
    texts = {"message": message, "label": label, "hint": hint}
    return PydanticCustomError(f"job:{code}", "{message}", texts)


def memory_mib(text: Any) -> int:
    """ "4GiB" → 4096, "2GB" → 1908: mebibytes, rounded up to whole ones."""
    if isinstance(text, bool) or not isinstance(text, str | int):
        raise problem("wrong-type", "memory is text with a unit", 'such as "4GiB" or "512MiB"')
    if isinstance(text, int):
        raise problem(
            "wrong-type",
            "memory needs a unit",
            f'write "{text}MiB" or "{text}GiB"',
            "or `memMB`, a number of MiB",
        )
    match = _MEMORY.match(text.strip())
    if not match or match[2] not in _UNITS:
        unit = match[2] if match else ""
        meant = next((known for known in ("KiB", "MiB", "GiB", "TiB") if unit[:1].upper() == known[0]), "GiB")
        number = match[1] if match else "4"
        message = f"`{text}` is no amount of memory"
        raise problem(
            "invalid-value", message, f'such as "{number}{meant}"', "units: KiB MiB GiB TiB, kB MB GB TB"
        )
    amount = math.ceil(float(match[1]) * _UNITS[match[2]] / MIB)
    if amount < 1:
        raise problem("out-of-range", f"`{text}` is no memory at all", "want at least 1MiB")
    return amount


def seconds(value: Any) -> int:
    """ "1h30m" → 5400; a number is seconds."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise problem(
            "wrong-type", "a duration is text or a whole number of seconds", 'such as "2h" or "90s"'
        )
    total = value if isinstance(value, int) else _whole_seconds(value)
    if not 1 <= total <= MAX_SECONDS:
        raise problem(
            "out-of-range", "a timeout is at least 1 second and at most 10 years", 'such as "2h" or "90s"'
        )
    return total


def _whole_seconds(text: str) -> int:
    found = seconds_in(text.strip())
    if found is None:
        meant = duration_meant(text)
        number = re.match(r"\d+", text.strip())
        label = f'write "{meant}"' if meant else f'such as "{number[0] if number else 90}s" or "1h30m"'
        raise problem("invalid-value", f"`{text}` is no duration", label, f"units: {DURATION_UNITS}")
    if found > 1 and found != int(found):
        message = f"`{text}` is not a whole number of seconds"
        raise problem("invalid-value", message, f'write "{math.ceil(found)}s"')
    return int(found)


def mount_of(text: str) -> Mount:
    """A mount in one line: "type=bind,src=./data,dst=/data,readonly"."""
    try:
        mounts = parse_mounts(text.split(","), expand_home=False)
    except InvalidMountException as error:
        raise problem("invalid-value", str(error), error.hint or "", "") from error
    if len(mounts) != 1:
        raise problem("invalid-value", "want one mount in one text", "make each a list item of its own")
    return mounts[0]


def secret_of(text: str) -> Secret:
    """Where a secret is: "env:NAME" or "file:PATH"."""
    try:
        return Secret.parse(text)
    except MalformedSecretException as error:
        raise problem("invalid-value", str(error), error.hint or "") from error
