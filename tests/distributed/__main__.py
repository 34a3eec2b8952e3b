"""python -m tests.distributed PYTHON: torch.distributed jobs, local and on Docker, and what they printed.

PYTHON is an interpreter that has torch (`pip install torch`) and torchrun beside it. For Docker an image is
made of it once: the test image of Python with that interpreter's site-packages, which must be of the same
version.
"""

import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
IMAGE = "launcher-test/torch:1"
TORCHRUN_IMAGE = "launcher-test/torchrun:1"
RAISED = "the loss of rank 3 is not a number"


class Launcher:
    """The command, with a home of its own and with PYTHON's torchrun on PATH."""

    def __init__(self, home: str, python: str) -> None:
        path = f"{Path(python).parent}:{os.environ['PATH']}"
        quiet = {"PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": "1"}
        root = f"{HERE.parents[1]}:{os.environ.get('PYTHONPATH', '')}".rstrip(":")
        self._env = {**os.environ, "LAUNCHER_HOME": home, "PATH": path, "PYTHONPATH": root, **quiet}

    def __call__(self, *argv: str, code: int = 0) -> str:
        """Run the command; show and return its output. Raises AssertionError for another exit code."""
        print("$ launcher", *argv, flush=True)
        ran = subprocess.run(
            [sys.executable, "-m", "launcher", *argv],
            cwd=HERE,
            env=self._env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
        )
        print(ran.stdout, flush=True)
        assert ran.returncode == code, f"exit code {ran.returncode}, not {code}"
        return ran.stdout


def all_reduce(launcher: Launcher, python: str) -> None:
    """Two replicas find each other without any component."""
    job = str(HERE / "allreduce.launcher.yaml")
    for options in (["--var", f"python={python}"], ["--target", "docker"]):
        shown = launcher("apply", job, *options, "--yes", "--wait", "--logs")
        assert shown.count("sum 3, expected 3") == 2


def ddp(launcher: Launcher, *place: str) -> None:
    """Two nodes with two workers each: all see the sum; then one raises, and status says which and what."""
    words = ("run", *place, "-j", "2x2", "--rdzv_port", str(free_port()))
    assert launcher(*words).count("sum 10, expected 10") == 4
    failed = launcher(*words, "--", "3", code=5)
    handle = next(word for word in failed.split() if "://launcher/workers-" in word)
    assert RAISED in launcher("status", handle)


def places() -> Iterator[tuple[str, ...]]:
    """Words of `run` that put the workers on this machine, and into containers."""
    yield "-s", "local_cwd", "dist.ddp", "--script", "workers.py"
    mount = f"type=bind,src={HERE},dst=/job,readonly"
    image = ("--image", TORCHRUN_IMAGE, "--mounts", mount, "--memMB", "4096")
    yield "-s", "local_docker", "dist.ddp", "--script", "/job/workers.py", *image


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("localhost", 0))
        port: int = listener.getsockname()[1]
        return port


def make_torch_image(python: str, base: str) -> None:
    """The image of Python with the site-packages of `python`, and one more with a torchrun on its PATH."""
    code = "import sysconfig; print(sysconfig.get_paths()['purelib'])"
    site = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    with tempfile.TemporaryDirectory() as folder:
        make_image(IMAGE, site, folder, f"FROM {base}\nCOPY . /site/\nENV PYTHONPATH=/site\n")
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "torchrun"
        script.write_text('#!/bin/sh\nexec python3 -m torch.distributed.run "$@"\n')
        script.chmod(0o755)
        make_image(TORCHRUN_IMAGE, folder, folder, f"FROM {IMAGE}\nCOPY torchrun /usr/bin/\n")


def make_image(name: str, context: str, folder: str, text: str) -> None:
    """Build an image unless it is there."""
    look = ["docker", "image", "inspect", name]
    if subprocess.run(look, capture_output=True, check=False).returncode:
        dockerfile = Path(folder) / "Dockerfile"
        dockerfile.write_text(text)
        subprocess.run(["docker", "build", "-q", "-t", name, "-f", str(dockerfile), context], check=True)


def main() -> None:
    from tests.engines.images import PYTHON_IMAGE, make_images

    python = sys.argv[1] if len(sys.argv) > 1 else sys.executable
    local, docker = places()
    with tempfile.TemporaryDirectory() as home:
        launcher = Launcher(home, python)
        ddp(launcher, *local)
        make_images()
        make_torch_image(python, PYTHON_IMAGE)
        all_reduce(launcher, python)
        ddp(launcher, *docker)
        launcher("gc", "--older-than", "0s")
    print("all as it should be")


if __name__ == "__main__":
    main()
