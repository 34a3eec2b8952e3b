"""Warnings about a job file without errors: it works, and may not mean what it should."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from launcher.jobfile.collector import Collector
from launcher.jobfile.model import JobFile
from launcher.jobfile.variables import AnyVar
from launcher.specs.sensitive import is_sensitive


def advise(
    job: JobFile | None, specs: Mapping[str, AnyVar], used: Collection[str], problems: Collector
) -> None:
    """Note unused variables, images without a pinned tag, and secrets that are written out."""
    for name in specs:
        if f"var.{name}" not in used:
            message = f"variable `{name}` is never used"
            label = f"use it as `$<var.{name}>`, or delete it"
            problems.add(
                ("vars", name), "unused-variable", message, at="key", label=label, severity="warning"
            )
    for name, role in job.roles.items() if job is not None else ():
        if role.image.endswith(":latest"):
            message = f"the image of role `{name}` is pinned to nothing: `latest` is another one tomorrow"
            path = ("roles", name, "image")
            problems.add(path, "unpinned-image", message, label="name a version", severity="warning")
        for variable, value in role.env.items():
            if value and "$" not in value and is_sensitive(variable):
                message = f"`{variable}` of role `{name}` looks like a secret, and its value is written out"
                hint = "local replicas inherit the environment of whoever applies: leave it out of the file"
                problems.add(
                    ("roles", name, "env", variable),
                    "secret-literal",
                    message,
                    at="key",
                    hint=hint,
                    severity="warning",
                )
