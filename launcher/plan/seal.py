"""The seal of a saved plan: a checksum of the file as its last field."""

from __future__ import annotations

import re

from launcher.hashes import sha256

_LAST_FIELD = re.compile(rb',\n  "seal": "sha256:([0-9a-f]{64})"\n}\n\Z')
_END = "\n}\n"


def seal(text: str) -> str:
    """The file of a plan: the ASCII text of a JSON object, indented by two, with `seal` as its last field."""
    body = text.removesuffix(_END)
    return f'{body},\n  "seal": "sha256:{_checksum(body.encode())}"{_END}'


def is_sealed(data: bytes) -> bool:
    """Whether `data` is exactly what `seal` returned."""
    field = _LAST_FIELD.search(data)
    return field is not None and field[1].decode() == _checksum(data[: field.start()])


def _checksum(body: bytes) -> str:
    return sha256(body).hexdigest()
