"""python -m tests.distributed PYTHON: the all-reduce job, local and on Docker, with what it printed.

PYTHON is an interpreter that has torch (`pip install torch`). For Docker an image is made of it once: the
test image of Python with that interpreter's site-packages, which must be of the same version.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
IMAGE = "launcher-test/torch:1"


def launcher(*argv: str, home: str) -> int:
    import os

    command = [sys.executable, "-m", "launcher", *argv]
    print("$ launcher", *argv, flush=True)
    return subprocess.run(command, env={**os.environ, "LAUNCHER_HOME": home}, check=False).returncode


def make_image(python: str, base: str) -> None:
    """The image of Python with the site-packages of `python`, unless it is there."""
    look = ["docker", "image", "inspect", IMAGE]
    if subprocess.run(look, capture_output=True, check=False).returncode == 0:
        return
    code = "import sysconfig; print(sysconfig.get_paths()['purelib'])"
    site = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    with tempfile.TemporaryDirectory() as folder:
        lines = [f"FROM {base}", "COPY . /site/", "ENV PYTHONPATH=/site"]
        dockerfile = Path(folder) / "Dockerfile"
        dockerfile.write_text("\n".join(lines) + "\n")
        command = ["docker", "build", "-q", "-t", IMAGE, "-f", str(dockerfile), site]
        subprocess.run(command, check=True)


def main() -> int:
    from tests.engines.images import PYTHON_IMAGE, make_images

    python = sys.argv[1] if len(sys.argv) > 1 else sys.executable
    make_images()
    make_image(python, PYTHON_IMAGE)
    job = str(HERE / "allreduce.launcher.yaml")
    with tempfile.TemporaryDirectory() as home:
        codes = [
            launcher("apply", job, "--var", f"python={python}", "--yes", "--wait", "--logs", home=home),
            launcher("apply", job, "--target", "docker", "--yes", "--wait", "--logs", home=home),
            launcher("gc", "--older-than", "0s", home=home),
        ]
    return max(codes)


if __name__ == "__main__":
    sys.exit(main())
