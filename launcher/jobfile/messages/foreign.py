"""Fields of other tools: our fields with the same meaning, or why there are none.

`foreign.toml` lists them; the functions here make our fields from their values.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, reduce
from typing import Any, NamedTuple

import tomli

from launcher.jobfile.messages.collector import spelt_alike
from launcher.jobfile.text.document import Path
from launcher.specs.text import compose_mount, cores_meant, shell_words
from launcher.text import distance, duration_meant

Fields = Mapping[str, Any]


class Word(NamedTuple):
    """A field of another tool.

    Attributes:
        example: a value that the field takes there. A value of another type means something else.
        tools: the tools that have the field; "" for many.
        field: the path of our field with the same value, from the same mapping on.
        by, arguments: the name of the function that makes our fields from these arguments and the value.
        inside: the field of ours that holds those of the function; "" for none.
        reason: why there is no such field of ours; "" when there is one.
    """

    example: Any
    tools: str = ""
    field: str = ""
    by: str = ""
    arguments: Sequence[str] = ()
    inside: str = ""
    reason: str = ""

    @property
    def name(self) -> str:
        """Our field with the same meaning; "" for none."""
        return next(iter(self.fields(self.example) or ("",)))

    def fields(self, value: Any) -> Fields | None:
        """Return our fields with the same meaning as this value; None if they are unknown or do not exist."""
        if self.reason:
            return None
        if self.field:
            found: Fields = reduce(lambda inner, key: {key: inner}, reversed(self.field.split(".")), value)
            return found
        made = _WRITES[self.by](*self.arguments, value)
        return {self.inside: made} if self.inside and made else made


@cache
def words() -> Mapping[str, Mapping[str, Sequence[Word]]]:
    """Return kind of mapping → word → its meanings."""
    with open(os.path.join(os.path.dirname(__file__), "foreign.toml"), "rb") as file:
        tables = tomli.load(file)
    reasons = tables.pop("reasons")

    def meaning(row: Mapping[str, Any]) -> Word:
        return Word(**{**row, "reason": reasons.get(row.get("reason"), row.get("reason", ""))})

    return {
        kind: {
            word: [*map(meaning, rows if isinstance(rows, list) else [rows])] for word, rows in table.items()
        }
        for kind, table in tables.items()
    }


def kind_of(path: Path) -> str:
    """Return the kind of the mapping at a path of a job file; "" for a mapping that other tools lack."""
    if path[:1] in (("targets",), ("jobs",)):
        path = path[2:]
    match path:
        case ():
            return "job"
        case ("roles", _) | ("defaults", "role"):
            return "role"
        case ("roles", _, "resource" | "ready" as kind) | ("defaults", "role", "resource" | "ready" as kind):
            return kind
        case ("vars", _):
            return "variable"
        case ("needs", _):
            return "need"
        case (*_, "mounts", int()):
            return "mount"
    return ""


def word_for(path: Path, key: str, value: Any) -> Word | None:
    """Return the meaning of another tool's key in the mapping at `path`, for this value if possible."""
    meanings = words().get(kind_of(path), {}).get(_plain(key), ())
    alike = (each for each in meanings if type(each.example) is type(value))
    return next(alike, meanings[0] if meanings else None)


def near_word_for(path: Path, key: str, value: Any) -> Word | None:
    """Return the result of `word_for` for a misspelt word, or a part of one.

    There are many words, so that one slip in four letters makes most short texts alike to one of them.
    """
    word = _plain(key)
    near = spelt_alike(word, (*words().get(kind_of(path), {}),))
    if near is None or (distance(word, near) > len(near) // 4 and word not in near.split("_")):
        return None
    return word_for(path, near, value)


def meanings(key: str) -> Iterator[tuple[str, str, Any, Fields | str]]:
    """Yield all meanings of a word: kind of mapping, tools, example value, and our answer."""
    for kind, known in words().items():
        for word in known.get(_plain(key), ()):
            yield kind, word.tools, word.example, word.reason or word.fields(word.example) or {}


def _plain(key: str) -> str:
    return key.lower().replace("-", "_")


# -- values --------------------------------------------------------------------------------------------------


def for_slurm(option: str, value: Any) -> Fields:
    return {"cfg": {option: value}, "scheduler": "slurm"}


def with_unit(field: str, unit: str, value: Any) -> Fields:
    return {field: f"{value}{unit}"}


def command(value: Any) -> Fields | None:
    """Return the fields of a command: a list is a program and its arguments, a text is for a shell."""
    if isinstance(value, str):
        return {"run" if len(value.split()) > 1 else "entrypoint": value}
    if not value or not isinstance(value[0], str) or any(isinstance(word, list | dict) for word in value):
        return None
    return {"entrypoint": value[0], **({"args": value[1:]} if value[1:] else {})}


def script(value: Any) -> Fields | None:
    lines = [value] if isinstance(value, str) else value
    return {"run": "\n".join(lines)} if all(isinstance(line, str) for line in lines) else None


def variables(value: Any) -> Fields | None:
    """Convert `[A=1]` of Compose, or `[{name: A, value: "1"}]` of Kubernetes."""
    pairs: list[Any] = [
        (each.get("name"), each.get("value")) if isinstance(each, dict) else str(each).split("=", 1)
        for each in value
    ]
    is_plain = all(len(pair) == 2 and isinstance(pair[0], str) and pair[1] is not None for pair in pairs)
    return {"env": dict(pairs)} if is_plain else None


def memory(value: Any) -> Fields | None:
    """Convert `--mem` of Slurm, in binary units: `4G` is 4 GiB, and a plain number is MiB."""
    amount, unit = (value, "M") if value.isdecimal() else (value[:-1], value[-1:].upper())
    is_plain = amount.isdecimal() and unit in ("K", "M", "G", "T")
    return {"memory": f"{amount}{unit}iB"} if is_plain else None


def clock(value: Any) -> Fields | None:
    """Convert `--time` of Slurm, `[D-]HH:MM:SS`, to a duration."""
    days, _, clock = value.rpartition("-")
    parts = [days or "0", *clock.split(":")]
    if len(parts) != 4 or not all(part.isdecimal() for part in parts):
        return None
    text = "".join(f"{int(part)}{unit}" for part, unit in zip(parts, "dhms", strict=True) if int(part))
    return {"timeout": text} if text else None


def timeout(value: Any) -> Fields:
    """Return a duration unchanged, and a clock time `HH:MM:SS` as a duration."""
    return {"timeout": duration_meant(value) or value}


def mounts(value: Any) -> Fields | None:
    """Convert `[./a:/b]` of Compose."""
    texts = [compose_mount(each) if isinstance(each, str) else "" for each in value]
    return {"mounts": texts} if texts and all(texts) else None


def named_volumes(value: Any) -> Fields | None:
    """Convert `[{name: a, mountPath: /a}]` of Kubernetes."""
    items = [each for each in value if isinstance(each, dict) and {"name", "mountPath"} <= each.keys()]
    mounts = [{"type": "volume", "src": each["name"], "dst": each["mountPath"]} for each in items]
    if len(items) < len(value):
        return None
    return {"mounts": mounts} if mounts else None


def devices(value: Any) -> Fields | None:
    return {"mounts": [{"type": "device", "src": each} for each in value]}


def ports(value: Any) -> Fields | None:
    """Convert `["8080:80", 443]` of Compose: the ports in the container, with guessed names."""
    ports = [str(each).rpartition(":")[2].partition("/")[0] for each in value]
    if not ports or not all(port.isdecimal() for port in ports):
        return None
    names = ["web", *(f"web{number}" for number in range(2, len(ports) + 1))]
    return {"port_map": dict(zip(names, map(int, ports), strict=True))}


def times(given: Fields, **names: str) -> Fields:
    """Return the fields of a probe that have these names in other tools."""
    return {ours: given[theirs] for ours, theirs in names.items() if isinstance(given.get(theirs), str)}


def healthcheck(value: Any) -> Fields | None:
    """Convert `{test: …, interval: 5s}` of Compose: a command for a shell, or `[CMD, …]`."""
    test = value.get("test")
    words = shell_words(test) if isinstance(test, str) else test
    if not words or not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        return None
    if isinstance(test, str) or words[0] == "CMD-SHELL":
        words = ["sh", "-c", test if isinstance(test, str) else " ".join(words[1:])]
    return {"ready": {"command": words[1:] if words[0] == "CMD" else words, **times(value, every="interval")}}


def probe(value: Any) -> Fields | None:
    """Convert `{httpGet: {path: …, port: 80}}`, `{tcpSocket: …}` or `{exec: …}` of Kubernetes."""
    given = [value.get(kind) for kind in ("httpGet", "tcpSocket", "exec")]
    http, tcp, command = (each if isinstance(each, dict) else {} for each in given)
    fields = {"http": http.get("path"), "port": http.get("port", tcp.get("port")), **command}
    probe = {name: each for name, each in fields.items() if each}
    return {"ready": probe} if {"port", "command"} & probe.keys() else None


def resources(value: Any) -> Fields | None:
    """Convert `{requests: …, limits: …}` of Kubernetes to one amount, also the limit. Other values stay."""
    amounts = value.get("limits") or value.get("requests")
    if amounts is None:
        return {"resource": value} if value.keys() <= {"cpu", "memory", "gpu"} else None
    names = {"nvidia.com/gpu": "gpu", "cpu": "cpu", "memory": "memory"}
    if not isinstance(amounts, dict) or not amounts.keys() <= names.keys():
        return None
    found = {names[name]: amount for name, amount in amounts.items()}
    if thousandths := cores_meant(str(found.get("cpu", ""))):
        found["cpu"] = float(thousandths)
    return {"resource": found}


def accelerators(value: Any) -> Fields | None:
    """Convert `A100:2` of SkyPilot to the number of GPUs."""
    _, _, count = value.partition(":")
    return {"gpu": int(count or 1)} if (count or "1").isdecimal() else None


def replicas(value: Any) -> Fields | None:
    """Convert `deploy` of Compose that contains only `replicas`."""
    return {"num_replicas": value["replicas"]} if value.keys() == {"replicas"} else None


def retries(value: Any) -> Fields | None:
    """Convert `restart` of Compose: `on-failure:3` is the number of restarts, `no` is never."""
    policy, _, count = value.partition(":")
    return {"max_retries": int(count)} if policy == "on-failure" and count.isdecimal() else None


def typed(value: Any) -> Fields | None:
    """Give variables with plain values their types, and the values as defaults."""
    kinds = {bool: "bool", int: "int", float: "float", str: "str"}
    if not value or not all(type(each) in kinds for each in value.values()):
        return {"vars": value} if value else None
    return {"vars": {name: {"type": kinds[type(each)], "default": each} for name, each in value.items()}}


def matrix(value: Any) -> Fields | None:
    return {"matrix": value["matrix"]} if value.keys() == {"matrix"} else None


def array(value: Any) -> Fields | None:
    """Convert `--array=0-9` of Slurm: one job for each number."""
    found = re.fullmatch(r"(\d{1,6})-(\d{1,6})", value)
    return {"matrix": {"index": {"range": [int(found[1]), int(found[2]) + 1]}}} if found else None


def scheduler(value: Any) -> Fields | None:
    names = {"docker": "local_docker", "local": "local_cwd", "slurm": "slurm"}
    return {"scheduler": names[value.lower()]} if value.lower() in names else None


def switched_off(value: Any) -> Fields:
    return {"enabled": not value}


_WRITES: Mapping[str, Callable[..., Fields | None]] = {
    each.__name__: each
    for each in (
        *(command, script, variables, memory, clock, timeout, mounts, named_volumes, devices, ports),
        *(healthcheck, probe, resources, accelerators, replicas, retries, typed, matrix, array, scheduler),
        *(switched_off, for_slurm, with_unit),
    )
}
