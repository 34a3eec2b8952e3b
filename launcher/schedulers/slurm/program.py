"""The program that runs on the nodes of a cluster: modules of this package in one zip."""

from __future__ import annotations

import io
import zipfile
from functools import cache
from importlib import resources

_SITE = "launcher.schedulers.slurm.site"
_EMPTY = ("launcher", "launcher.schedulers", "launcher.schedulers.slurm")
_SHARED = ("last_line.py", "loop.py", "probes.py")  # of launcher.schedulers
_LOGIN_NODE = ("bundle.py", "unpack.py")
_FIRST_DAY = (1980, 1, 1, 0, 0, 0)


@cache
def program() -> bytes:
    """The zip; the same bytes each time."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for name, text in sorted(_files().items()):
            about = zipfile.ZipInfo(name, _FIRST_DAY)
            about.compress_type, about.external_attr = zipfile.ZIP_DEFLATED, 0o600 << 16
            file.writestr(about, text)
    return buffer.getvalue()


def _files() -> dict[str, bytes]:
    """Path in the zip → contents."""
    found = {f"{each.replace('.', '/')}/__init__.py": b"" for each in _EMPTY}
    for name in _SHARED:
        found[f"launcher/schedulers/{name}"] = _read("launcher.schedulers", name)
    for package in ("launcher.holding", _SITE):
        for each in resources.files(package).iterdir():
            if each.name.endswith(".py") and each.name not in _LOGIN_NODE:
                found[f"{package.replace('.', '/')}/{each.name}"] = each.read_bytes()
    found["__main__.py"] = found.pop(f"{_SITE.replace('.', '/')}/__main__.py")
    return found


def _read(package: str, name: str) -> bytes:
    return resources.files(package).joinpath(name).read_bytes()
