"""The types of fields: names, counts, texts with a grammar; their traits and places; the base of models."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import ModuleType, NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

from launcher.dataclass import dataclass, field, replace
from launcher.specs.app import LEAST_PROBE_EVERY_S, LONGEST_DELAY_S, LONGEST_PROBE_S
from launcher.specs.check import MAX_REPLICAS
from launcher.specs.mounts import InvalidMountException, Mount, parse_mounts
from launcher.specs.notify import URL_PATTERN, MalformedAddressError, check_address
from launcher.specs.secret import MalformedSecretException, Secret
from launcher.specs.text import compose_mount
from launcher.text import DURATION_PATTERN, DURATION_UNITS, duration_meant, is_number, seconds_in

VERSION = 1
LABEL = r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"
VAR_NAME = r"^[A-Za-z_][A-Za-z0-9_-]*$"
ENV_NAME = r"^[^=\x00]+$"

Label = Annotated[str, Field(pattern=LABEL)]
EnvName = Annotated[str, Field(pattern=ENV_NAME)]
Replicas = Annotated[int, Field(ge=1, le=MAX_REPLICAS)]
Attempts = Annotated[int, Field(ge=1, le=1_000_000)]
Count = Annotated[int, Field(ge=0, le=1_000_000)]
_MOST_MIB = 1_000_000_000
"""The most memory, in MiB: about a PB. The largest named resource has 1.1 TiB."""
MiB = Annotated[int, Field(ge=1, le=_MOST_MIB)]
Port = Annotated[int, Field(ge=1, le=65535)]
NonEmpty = Annotated[str, Field(min_length=1)]

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
        job_names: its texts and keys are names of jobs, in which values of references become slugs.
        after: the field that `launcher fmt` puts it behind; "" for the one before it in the model.
        choices: what each of its values means, for editors.
    """

    mode: Mode = "plain"
    as_written: bool = False
    nulls: bool = False
    job_names: bool = False
    after: str = ""
    choices: dict[str, str] = field(default_factory=dict)


def documented(default: Any, text: str, example: Any, *, schema: Any = None, **rules: Any) -> Any:
    """Return a pydantic field with its texts.

    Args:
        default: `...` for a required field; a class makes a value for each instance.
        schema: what the JSON Schema of the field has beside its type.
    """
    given = {"default_factory": default} if isinstance(default, type) else {"default": default}
    return Field(**given, description=text, examples=[example], json_schema_extra=schema, **rules)


def traits_of(info: FieldInfo) -> Traits:
    """Return the traits of a field; default traits when it names none."""
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
    # Deferred, so that a model within another one is built once, with that (a tenth of `validate`).
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, defer_build=True)

    @classmethod
    def model_rebuild(cls, **how: Any) -> bool | None:
        with without_plugins():
            return super().model_rebuild(**how)


@dataclass(frozen=True, slots=True)
class PlaceKind:
    """One kind of place in a job file. Attributes that are not described here are those of Traits.

    Attributes:
        fields: of a mapping with fixed keys; keys that begin with `x-` are free there.
        each: the place of every part of a list, or of a mapping by name.
    """

    mode: Mode = "plain"
    fields: Mapping[str, PlaceKind] | None = None
    each: PlaceKind | None = None
    as_written: bool = False
    nulls: bool = False
    job_names: bool = False

    def below(self, key: str | int) -> PlaceKind | None:
        if self.fields is not None:
            return self.fields.get(str(key))
        return self.each


def _alternatives(annotation: Any) -> Iterator[Any]:
    """Return the types that a value may have, without `Annotated` and None."""
    if get_origin(annotation) is Annotated:
        yield from _alternatives(get_args(annotation)[0])
    elif get_origin(annotation) in (Union, UnionType):
        for each in get_args(annotation):
            yield from _alternatives(each)
    elif annotation is not NoneType:
        yield annotation


def _place(annotation: Any, traits: Traits) -> PlaceKind:
    """Return the place of a value of a type whose texts have these traits."""
    text = PlaceKind(
        traits.mode, as_written=traits.as_written, nulls=traits.nulls, job_names=traits.job_names
    )
    kinds = [*_alternatives(annotation)]
    models = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Model)]
    if models:
        return replace(text, fields=fields_of(models))
    each = next(
        (_place(get_args(kind)[-1], traits) for kind in kinds if get_origin(kind) in (list, dict)), None
    )
    if each is not None and each.fields is not None:
        # The other traits belong to the inner type.
        text = PlaceKind("never" if traits.mode == "never" else "plain", job_names=traits.job_names)
    return replace(text, each=each)


def fields_of(models: Sequence[type[Model]]) -> dict[str, PlaceKind]:
    """Return the fields of a mapping that any of these models may read, in their order."""
    found = {name: info for model in models for name, info in model.model_fields.items()}
    names = [*found]
    for name, info in found.items():
        if traits_of(info).after in found:
            names.remove(name)
            names.insert(names.index(traits_of(info).after) + 1, name)
    return {name: _place(found[name].annotation, traits_of(found[name])) for name in names}


VAR_TYPES = ("int", "float", "str", "bool")
MOUNT_TYPES = ("bind", "volume", "device")


def kind_tag(value: Any) -> str | None:
    """Return the tag of a mapping with a `type`, in angle brackets, so that it never equals a key."""
    if isinstance(value, str):
        return "<text>"
    kind = value.get("type") if isinstance(value, dict) else None
    return f"<{kind}>" if isinstance(kind, str) and kind in VAR_TYPES + MOUNT_TYPES else None


def model_classes(cls: type[Model] = Model) -> Iterator[type[Model]]:
    """Return all models of the language that are defined so far."""
    for below in cls.__subclasses__():
        yield below
        yield from model_classes(below)


def mapping_tag(value: Any) -> str:
    """Return the tag of a mapping, else the tag of text. For fields that take a mapping or a text."""
    return "<mapping>" if isinstance(value, dict) else "<text>"


def form_tag(value: Any) -> str | None:
    """Return the tag of a text, a list or a mapping. For fields that take two of these forms."""
    tags = {str: "<text>", list: "<list>", dict: "<mapping>"}
    return next((tag for kind, tag in tags.items() if isinstance(value, kind)), None)


MIB = 2**20
_UNITS: dict[str, int] = {
    "B": 1,
    "kB": 10**3,
    **{f"{letter}B": 1000**n for n, letter in enumerate("KMGT", 1)},
    **{f"{letter}iB": 1024**n for n, letter in enumerate("KMGT", 1)},
    **{f"{letter}i": 1024**n for n, letter in enumerate("KMGT", 1)},  # as Kubernetes writes them
    **{letter: 1024**n for n, letter in enumerate("bkmgt")},  # as Docker writes them
}
_PATH_ALONE = re.compile(r"(\.{1,2}|~)?/[^,=:]*")
_UNITS_HINT = "units: KiB MiB GiB TiB, Ki Mi Gi Ti, kB MB GB TB, B, and Docker's b k m g t, as in 4g"
_MEMORY = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,6})?) ?([A-Za-z]+)\Z")
MEMORY_PATTERN = r"^[0-9]+(\.[0-9]+)? ?(([KMGT]i|[kKMGT])B|[KMGT]i|[Bbkmgt])$"

ADDRESS_PATTERN = rf"^(env:[A-Za-z_][A-Za-z0-9_]*|file:[\s\S]*\S[\s\S]*|{URL_PATTERN})$"
SECRET_PATTERN = r"^(env:[A-Za-z_][A-Za-z0-9_]*|file:[\s\S]*\S[\s\S]*)$"
_LONGEST_NUMBER = 15
"""The most digits of a number that advice repeats, since no sensible amount has more."""

DURATION: dict[str, Any] = {"type": ["string", "integer"], "pattern": DURATION_PATTERN}
PROBE_TIME: dict[str, Any] = {
    "type": ["string", "number"],
    "minimum": LEAST_PROBE_EVERY_S,
    "maximum": LONGEST_PROBE_S,
    "pattern": DURATION_PATTERN,
}
"""The schema of the times of a probe."""

MAX_SECONDS = 10 * 365 * 86400


def problem(code: str, message: str, label: str = "", hint: str = "") -> PydanticCustomError:
    """Make an error of ours that pydantic carries to the code that places errors; see `wording`."""
    texts = {"message": message, "label": label, "hint": hint}
    return PydanticCustomError(f"job:{code}", "{message}", texts)


def memory_mib(text: Any, other: str = "or `memMB`, a number of MiB") -> int:
    """ "4GiB" → 4096, "2GB" → 1908: mebibytes, rounded up to whole ones.

    Args:
        other: the valid form of a plain number; "" where no number is allowed.
    """
    if is_number(str(text)) and not isinstance(text, str):
        raise problem("wrong-type", "memory needs a unit", f'write "{text}MiB" or "{text}GiB"', other)
    if not isinstance(text, str):
        raise problem("wrong-type", "memory is text with a unit", 'such as "4GiB" or "512MiB"')
    match = _MEMORY.match(text.strip())
    if not match or match[2] not in _UNITS:
        raise problem(
            "invalid-value", f"`{text}` is no amount of memory", _memory_meant(text.strip()), _UNITS_HINT
        )
    amount = math.ceil(float(match[1]) * _UNITS[match[2]] / MIB)
    if amount < 1:
        raise problem("out-of-range", f"`{text}` is no memory at all", "want at least 1MiB")
    if amount > _MOST_MIB:
        raise problem(
            "out-of-range", f"`{text}` is more than any machine has", f"want at most {_MOST_MIB}MiB"
        )
    return amount


def _memory_meant(text: str) -> str:
    """Return the right form of an amount with an unknown unit or none."""
    if len(text) <= _LONGEST_NUMBER and is_number(text):
        return f'write "{text}MiB" or "{text}GiB"'
    match = _MEMORY.match(re.sub(r"(?<=\d),(?=\d{3}\b)", "", text))
    number, unit = match.groups() if match else ("4", "GiB")
    if match and unit in _UNITS:
        return f'write "{number}{unit}"'
    if unit in ("K", "M", "G", "T"):
        return f'write "{number}{unit}iB", as Docker counts, or "{number}{unit}B", as Kubernetes does'
    if unit[1:].lower() == "b" and unit[0].upper() in "KMGT":
        letter = unit[0].upper()
        return (
            f'write "{number}{"k" if letter == "K" else letter}B", or "{number}{letter}iB" in powers of 1024'
        )
    letter = unit[0].upper()
    return f'such as "{number}{letter if letter in "KMGT" else "G"}iB"'


def seconds(value: Any) -> int:
    """Convert the timeout of an app: "1h30m" → 5400; a whole number is seconds."""
    total = _duration(value)
    if not 1 <= total <= MAX_SECONDS:
        raise problem(
            "out-of-range", "a timeout is at least 1 second and at most 10 years", 'such as "2h" or "90s"'
        )
    return total


def switched(value: Any) -> Any:
    """Convert "on" → True, "off" → False, which are text in YAML 1.2. Anything but text stays as it is."""
    if not isinstance(value, str):
        return value
    if value not in ("on", "off"):
        meant = {"yes": "on", "true": "on", "no": "off", "false": "off"}.get(value.lower(), 'on" or "off')
        raise problem("unknown-variant", "it is neither `on` nor `off`", f'write "{meant}"')
    return value == "on"


def pause(value: Any) -> int:
    """Convert the pause before a restart to seconds."""
    total = _duration(value)
    if not 0 <= total <= LONGEST_DELAY_S:
        raise problem("out-of-range", "a pause before a restart is at most 5 minutes", 'such as "2s" or "1m"')
    return total


def interval(value: Any) -> float:
    """Convert a time of a probe to seconds, which may be a fraction: "500ms" → 0.5."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise problem("wrong-type", "a duration is text or a number of seconds", 'such as "1s" or "500ms"')
    found = float(value) if not isinstance(value, str) else seconds_in(value.strip())
    if found is None:
        raise _no_duration(str(value))
    return found


def _duration(value: Any) -> int:
    if isinstance(value, float) and is_number(str(value)):
        raise problem(
            "wrong-type",
            f"a duration of {value} needs a unit",
            f'write "{value}m" or "{value}h"',
            f"units: {DURATION_UNITS}; a whole number is seconds",
        )
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise problem(
            "wrong-type", "a duration is text or a whole number of seconds", 'such as "2h" or "90s"'
        )
    if isinstance(value, int):
        return value
    found = seconds_in(value.strip())
    if found is None:
        raise _no_duration(value)
    if found > 1 and found != int(found):
        message = f"`{value}` is not a whole number of seconds"
        raise problem("invalid-value", message, f'write "{math.ceil(found)}s"')
    return int(found)


def _no_duration(text: str) -> PydanticCustomError:
    number, hint = text.strip(), f"units: {DURATION_UNITS}"
    if len(number) <= _LONGEST_NUMBER and is_number(number):
        least = f'"{number}s"' if number.isdigit() else f'"{number}m"'
        return problem(
            "invalid-value",
            f"a duration of `{number}` needs a unit",
            f'write {least} or "{number}h"',
            f"{hint}; a whole number without quotes is seconds",
        )
    if clock := re.fullmatch(r"([0-9]{1,4}):([0-5][0-9])", number):
        label = f'write "{clock[1]}h{clock[2]}m" or "{clock[1]}m{clock[2]}s"'
    elif meant := duration_meant(text):
        label = f'write "{meant}"'
    else:
        first = re.match(r"[0-9]+", number)
        label = f'such as "{first[0] if first else 90}s" or "1h30m"'
    return problem("invalid-value", f"`{text}` is no duration", label, hint)


def mount_of(text: str) -> Mount:
    """Read a mount in one line: "type=bind,src=./data,dst=/data,readonly"."""
    meant = compose_mount(text)
    if meant:
        raise problem("invalid-value", f"`{text}` is how Compose writes a mount", f'write "{meant}"')
    if access := re.search(r",(ro|rw)(=\w+)?(?=,|\Z)", text):
        right = text.replace(access[0], ",readonly" if access[1] == "ro" else "")
        raise problem("invalid-value", f"there is no mount option `{access[1]}`", f'write "{right}"')
    if _PATH_ALONE.fullmatch(text):
        raise problem(
            "invalid-value",
            f"`{text}` does not say which path it has in the container",
            f'write "type=bind,src={text},dst=/PATH"',
        )
    try:
        mounts = parse_mounts(text.split(","), expand_home=False)
    except InvalidMountException as error:
        raise problem("invalid-value", str(error), error.hint or "", "") from error
    if len(mounts) != 1:
        raise problem("invalid-value", "want one mount in one text", "make each a list item of its own")
    return mounts[0]


def secret_of(text: str) -> Secret:
    """Read the place of a secret: "env:NAME" or "file:PATH"."""
    try:
        return Secret.parse(text)
    except MalformedSecretException as error:
        if re.fullmatch(r"[A-Z]+(_[A-Z0-9]+)*", text):
            raise problem("invalid-value", str(error), f'write "env:{text}"', "or file:PATH") from error
        if text.startswith(("/", "./", "~/")):
            raise problem("invalid-value", str(error), f'write "file:{text}"') from error
        raise problem("invalid-value", str(error), error.hint or "") from error


def address_of(text: str) -> str:
    """Check an http or https URL, or the reference of a secret that is a URL."""
    try:
        return check_address(text)
    except MalformedAddressError as error:
        raise problem("invalid-value", f"`url`: {error}", error.hint or "") from error
