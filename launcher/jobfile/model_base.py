"""What all models of the language share: strictness, names, counts, telling tagged mappings apart."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from launcher.specs.check import MAX_REPLICAS

VERSION = 1
LABEL = r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"
VAR_NAME = r"^[A-Za-z_][A-Za-z0-9_-]*$"
ENV_NAME = r"^[^=\x00]+$"

Label = Annotated[str, Field(pattern=LABEL)]
EnvName = Annotated[str, Field(pattern=ENV_NAME)]
Replicas = Annotated[int, Field(ge=1, le=MAX_REPLICAS)]
Attempts = Annotated[int, Field(ge=1, le=1_000_000)]
Count = Annotated[int, Field(ge=0, le=1_000_000)]
MiB = Annotated[int, Field(ge=1, le=1_000_000_000)]
"""Memory: up to about a PB, as `memory` takes it; the largest named resource has 1.1 TiB."""
Port = Annotated[int, Field(ge=1, le=65535)]


class Model(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


VAR_TYPES = ("int", "float", "str", "bool")
MOUNT_TYPES = ("bind", "volume", "device")


def kind_tag(value: Any) -> str | None:
    """The tag of a mapping with a `type`: in angle brackets, so that it can never be taken for a key."""
    if isinstance(value, str):
        return "<text>"
    kind = value.get("type") if isinstance(value, dict) else None
    return f"<{kind}>" if isinstance(kind, str) and kind in VAR_TYPES + MOUNT_TYPES else None
