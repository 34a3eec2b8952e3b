"""The base of all models of the language: strictness, names, counts, tags of mappings."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.fields import FieldInfo

from launcher.dataclass import dataclass, field
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


Mode = Literal["run", "bound", "plain", "matrix", "never"]
"""Which references a text takes: run macros and all others; all but run macros (`$<job.dir>` stays until the
job is bound to a checkout); only what is known while compiling; only values of the matrix, as parts of the
name of a job; none."""


@dataclass(frozen=True, slots=True)
class Traits:
    """Properties of a field beside its type and its description, kept in its annotation.

    Attributes:
        mode: which references its texts take.
        as_written: numbers and truth values are taken as the text in the file.
        nulls: `null` means something here.
        job_names: its texts, and its keys, are names of jobs: what references add to them is slugged.
        after: the field that `launcher fmt` puts it behind; "" for the one before it in the model.
        choices: what each of its values means, for editors.
    """

    mode: Mode = "plain"
    as_written: bool = False
    nulls: bool = False
    job_names: bool = False
    after: str = ""
    choices: dict[str, str] = field(default_factory=dict)


def traits_of(info: FieldInfo) -> Traits:
    """The traits of a field; those of most fields where it names none."""
    return next((each for each in info.metadata if isinstance(each, Traits)), _USUAL)


_USUAL = Traits()


@contextmanager
def without_plugins() -> Iterator[None]:
    """Build validators without pydantic's plug-ins.

    Plug-ins have no use for job files, and to find them pydantic reads the metadata of every installed
    package: a tenth of the time of `validate` in a small environment. Its own switch,
    PYDANTIC_DISABLE_PLUGINS, would be inherited by replicas. A pydantic without this module is not affected.
    """
    module = ModuleType("pydantic.plugin._loader")
    module.get_plugins = tuple  # type: ignore[attr-defined]
    before = sys.modules.get(module.__name__)
    sys.modules[module.__name__] = module
    try:
        yield
    finally:
        if before is None:
            del sys.modules[module.__name__]
        else:
            sys.modules[module.__name__] = before


class Model(BaseModel):
    # Deferred: a model that is part of another one is then built once, with it (a tenth of `validate`).
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, defer_build=True)

    @classmethod
    def model_rebuild(cls, **how: Any) -> bool | None:
        with without_plugins():
            return super().model_rebuild(**how)


VAR_TYPES = ("int", "float", "str", "bool")
MOUNT_TYPES = ("bind", "volume", "device")


def kind_tag(value: Any) -> str | None:
    """The tag of a mapping with a `type`: in angle brackets, so that it never equals a key."""
    if isinstance(value, str):
        return "<text>"
    kind = value.get("type") if isinstance(value, dict) else None
    return f"<{kind}>" if isinstance(kind, str) and kind in VAR_TYPES + MOUNT_TYPES else None


def model_classes(cls: type[Model] = Model) -> Iterator[type[Model]]:
    """All models of the language that are defined so far."""
    for below in cls.__subclasses__():
        yield below
        yield from model_classes(below)


def mapping_tag(value: Any) -> str:
    """Return the tag of a mapping, else the tag of text: for fields whose other form is a text."""
    return "<mapping>" if isinstance(value, dict) else "<text>"


def text_or_mapping(value: Any) -> str | None:
    return "<text>" if isinstance(value, str) else "<mapping>" if isinstance(value, dict) else None


def list_or_mapping(value: Any) -> str | None:
    return "<list>" if isinstance(value, list) else "<mapping>" if isinstance(value, dict) else None
