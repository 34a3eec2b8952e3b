"""The programs that run on a cluster, from modules of this package: they travel with each request and app."""

from __future__ import annotations

import io
import json
import zlib
from functools import cache
from importlib import resources

_SITE = "launcher.schedulers.slurm.site"
_EMPTY = ("launcher", "launcher.schedulers", "launcher.schedulers.slurm")
_LOGIN_NODE = ("bundle.py", "unpack.py")
_OF_AGENT = ("launcher.filelock", "launcher.holding.journal", "launcher.schedulers.appfolder")
_OF_NODES = (
    "launcher.filelock",
    "launcher.schedulers.appfolder",
    "launcher.schedulers.last_line",
    "launcher.schedulers.loop",
    "launcher.schedulers.probes",
)
_FIRST_DAY = (1980, 1, 1, 0, 0, 0)


def source(name: str) -> bytes:
    """The text of a program of the login node."""
    return _read(f"{_SITE}.{name}")


@cache
def agent_modules() -> bytes:
    """The modules of the agent, as `bundle` reads them."""
    texts = {f"{_SITE}.agent.{name[:-3]}": text.decode() for name, text in _package(f"{_SITE}.agent")}
    texts.update((module, _read(module).decode()) for module in _OF_AGENT)
    return zlib.compress(json.dumps(texts).encode())


@cache
def program() -> bytes:
    """The zip that runs on the nodes; the same bytes each time."""
    import zipfile

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
    found.update((f"{module.replace('.', '/')}.py", _read(module)) for module in _OF_NODES)
    for package in ("launcher.holding", _SITE):
        for name, text in _package(package):
            if name not in _LOGIN_NODE:
                found[f"{package.replace('.', '/')}/{name}"] = text
    found["__main__.py"] = found.pop(f"{_SITE.replace('.', '/')}/__main__.py")
    return found


def _package(package: str) -> list[tuple[str, bytes]]:
    """The names and texts of its modules."""
    files = resources.files(package).iterdir()
    return [(each.name, each.read_bytes()) for each in files if each.name.endswith(".py")]


def _read(module: str) -> bytes:
    package, _, name = module.rpartition(".")
    return resources.files(package).joinpath(f"{name}.py").read_bytes()
