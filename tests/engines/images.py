"""The images of the tests: made on this machine, fetched from nowhere, gone after the last test session."""

import fcntl
import functools
import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.engines.docker import Daemon, Refused, Thing

SHELL_IMAGE = "launcher-test/shell:1"
PYTHON_IMAGE = "launcher-test/python:1"
REDIS_IMAGE = "launcher-test/redis:2"
DASK_IMAGE = "launcher-test/dask:1"

RECIPES: Mapping[str, str] = {
    SHELL_IMAGE: "image-busybox", PYTHON_IMAGE: "image-python", REDIS_IMAGE: "image-redis",
    DASK_IMAGE: "image-dask",
}  # fmt: skip
"""Image → the script beside this file that makes it."""

LABEL = "launcher-test"
"""What they all bear."""

PUBLIC: dict[str, str] = {
    "busybox:1.37": SHELL_IMAGE, "python:3.12-slim": PYTHON_IMAGE, "redis:7": REDIS_IMAGE,
    "ghcr.io/dask/dask:2024.5.0-py3.12": DASK_IMAGE,
}  # fmt: skip
"""Public image that an example names → the image of ours that stands in for it where it is not there."""

_HERE = Path(__file__).resolve().parent


@functools.cache
def make_images(*names: str) -> None:
    """Make images (default: the two that most tests use), each once per machine."""
    with locked("images"):
        for name in names or (SHELL_IMAGE, PYTHON_IMAGE):
            if not _is_there(name):
                subprocess.run([str(_HERE / RECIPES[name]), name], check=True)


@functools.cache
def stand_in(public: str) -> None:
    """Give an image of ours the name of a public one, unless an image of that name is there."""
    if not _is_there(public):
        make_images(PUBLIC[public])
        Daemon().tag(PUBLIC[public], public)


def made_by_tests() -> list[Thing]:
    """Return every test image under each of its names, and images built on one: they inherit its label."""
    found = [image for image in Daemon().images() if LABEL in image.labels]
    return [
        image if name.startswith("<none>") else image._replace(id=name)
        for image in found
        for name in image.name.split()
    ]


def _is_there(name: str) -> bool:
    try:
        Daemon().ask("GET", f"/images/{name}/json")
    except Refused as refused:
        if refused.status != 404:
            raise
        return False
    return True


@contextmanager
def locked(name: str) -> Iterator[None]:
    """One process at a time, over all workers and test sessions of this machine."""
    with open(lock_file(name), "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def lock_file(name: str) -> Path:
    return Path(tempfile.gettempdir()) / f"launcher-tests-{os.getuid()}-{name}.lock"
