"""Programs for other machines: a zip of launcher's modules, which Python runs without an installation."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterable, Mapping
from importlib import resources

_FIRST_DAY = (1980, 1, 1, 0, 0, 0)


def zipped(files: Mapping[str, bytes]) -> bytes:
    """The zip of files given as path → text; equal files give equal bytes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for name, text in sorted(files.items()):
            about = zipfile.ZipInfo(name, _FIRST_DAY)
            about.compress_type, about.external_attr = zipfile.ZIP_DEFLATED, 0o600 << 16
            file.writestr(about, text)
    return buffer.getvalue()


def modules(package: str) -> dict[str, bytes]:
    """The modules of a package without its subpackages: path → text."""
    folder, files = package.replace(".", "/"), resources.files(package).iterdir()
    return {f"{folder}/{each.name}": each.read_bytes() for each in files if each.name.endswith(".py")}


def files_of(names: Iterable[str]) -> dict[str, bytes]:
    """The sources of the named modules: path → text."""
    return {f"{name.replace('.', '/')}.py": text_of(name) for name in names}


def text_of(module: str) -> bytes:
    package, _, name = module.rpartition(".")
    return resources.files(package).joinpath(f"{name}.py").read_bytes()
