"""Render metrics in the text format of Prometheus."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from launcher.inventory.metrics import Labels, Metric
from launcher.text import printable

PREFIX = "launcher_"
_MiB = 1024 * 1024


def metrics_text(families: Iterable[Metric], labels: Labels = ()) -> str:
    """The text of a `.prom` file; families without a sample are left out.

    Args:
        labels: further labels of every sample.
    """
    return "".join(_family(each, labels) for each in families if each.samples)


def metrics_json(families: Iterable[Metric], labels: Labels = ()) -> list[dict[str, Any]]:
    """The same as JSON objects, one for each metric."""
    return [
        {
            "name": PREFIX + each.name,
            "kind": each.kind,
            "help": each.help,
            "samples": [
                {"labels": dict((*own, *labels)), "value": value} for own, value in each.samples.items()
            ],
        }
        for each in families
        if each.samples
    ]


def of_machine(queue: Mapping[str, Any]) -> list[Metric]:
    """Return the metrics of this machine's shares that apps hold, from the JSON of `queue`."""
    cores, memory_mb, gpus = (queue["slots"][name] for name in ("cpu", "memory_mb", "gpus"))
    left = sum(each["is_left"] for each in queue["holders"])
    found = (
        ("queue_apps", "Apps in line for a share of this machine.", len(queue["line"])),
        ("queue_holders", "Apps that hold a share of this machine.", len(queue["holders"])),
        ("queue_holders_left", "Dead apps whose share is not free yet.", left),
        ("machine_cores", "Cores that apps share.", cores["total"]),
        ("machine_held_cores", "Cores that apps hold.", cores["held"]),
        ("machine_memory_bytes", "Memory that apps share.", memory_mb["total"] * _MiB),
        ("machine_held_memory_bytes", "Memory that apps hold.", memory_mb["held"] * _MiB),
        ("machine_gpus", "GPUs that apps share.", len(gpus)),
        ("machine_held_gpus", "GPUs that apps hold.", sum(bool(each["held_by"]) for each in gpus)),
    )
    return [Metric(name, about, {(): value}) for name, about, value in found]


def _family(family: Metric, labels: Labels) -> str:
    name = PREFIX + family.name
    samples = {_labels((*own, *labels)): _number(value) for own, value in family.samples.items()}
    lines = [f"# HELP {name} {family.help}", f"# TYPE {name} {family.kind}"]
    return "\n".join([*lines, *(f"{name}{each} {value}" for each, value in samples.items()), ""])


def _labels(labels: Labels) -> str:
    """`{project="vision",target=""}`; quotes and newlines in names are escaped."""
    inside = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels)
    return f"{{{inside}}}" if inside else ""


def _escaped(value: str) -> str:
    return printable(value).replace("\\", "\\\\").replace('"', '\\"')


def _number(value: float) -> str:
    return repr(round(value, 3)) if isinstance(value, float) else str(value)
