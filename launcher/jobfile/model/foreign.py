"""What other tools write: whole files of theirs, and mounts and amounts in their spelling."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from launcher.jobfile.model.base import VERSION

# `source:target[:options]`; what a comma is in cannot be written in one text here.
_COMPOSE_MOUNT = re.compile(r"(?P<src>[^:=,]+):(?P<dst>/[^:,]*)(?::(?P<options>[\w,]+))?")
_MILLIS = re.compile(r"([0-9]{1,9})m")


def foreign_file(value: Mapping[str, Any]) -> tuple[str, str]:
    """What a file is that is another tool's, and the key that tells; two times "" for any other file."""
    if isinstance(value.get("apiVersion"), str) and isinstance(value.get("kind"), str):
        return "a Kubernetes manifest", "apiVersion"
    is_ours = "roles" in value or "component" in value or value.get("version") == VERSION
    if isinstance(value.get("services"), dict) and not is_ours:
        return "a Compose file", "services"
    return "", ""


def compose_mount(text: str) -> str:
    """A mount as Compose writes it in our text form: "./a:/b:ro" → "type=bind,src=./a,dst=/b,readonly".

    "" for a text of another form.
    """
    found = _COMPOSE_MOUNT.fullmatch(text.strip())
    if found is None:
        return ""
    src, options = found["src"], (found["options"] or "").split(",")
    if src.startswith("/dev/"):
        permissions = "".join(options)
        more = f",permissions={permissions}" if permissions and not set(permissions) - set("rwm") else ""
        return f"type=device,src={src},dst={found['dst']}{more}"
    kind = "bind" if src.startswith((".", "/", "~")) else "volume"
    return f"type={kind},src={src},dst={found['dst']}" + (",readonly" if "ro" in options else "")


def cores(text: str) -> str:
    """Cores in thousandths, as Kubernetes writes them, as a number: "500m" → "0.5"; else ""."""
    found = _MILLIS.fullmatch(text.strip())
    return f"{int(found[1]) / 1000:g}" if found else ""
