"""The life of a job without the Python package `docker`, at an engine behind TLS."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.engines.docker import Daemon
from tests.engines.images import SHELL_IMAGE, make_images
from tests.engines.port import engine_port
from tests.unit.docker.fake_engine import NEEDS_OPENSSL, certificates, server_tls


def _launcher(*args: str, folder: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a process that cannot import the package."""
    script = "import sys; sys.modules['docker'] = None\nfrom launcher.__main__ import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", script, *args],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, **environ},
        timeout=100,
    )
    assert "Traceback" not in done.stderr
    return done


@NEEDS_OPENSSL
@pytest.mark.usefixtures("launcher_home")
def test_a_job_is_planned_applied_read_and_removed(tmp_path: Path, token: str) -> None:
    make_images(SHELL_IMAGE)
    folder = certificates(tmp_path / "certificates")
    with engine_port(server_tls(folder)) as port:
        tls = {"DOCKER_TLS_VERIFY": "1", "DOCKER_CERT_PATH": str(folder)}
        _live_a_life(tmp_path, token, {"DOCKER_HOST": f"tcp://127.0.0.1:{port}", **tls})


def _live_a_life(tmp_path: Path, token: str, environ: dict[str, str]) -> None:
    def launcher(*args: str) -> subprocess.CompletedProcess[str]:
        return _launcher(*args, folder=tmp_path, **environ)

    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "hello").write_text(token)
    job = {
        "version": 1,
        "project": token,
        "name": "job",
        "scheduler": "local_docker",
        "workspace": "src",
        "roles": {"r": {"image": SHELL_IMAGE, "entrypoint": "cat", "args": ["hello"]}},
    }
    (tmp_path / "job.yaml").write_text(json.dumps(job))
    image = ""
    try:
        planned = launcher("plan", "job.yaml")
        assert planned.returncode == 0, planned.stderr
        applied = launcher("apply", "job.yaml", "--yes", "--wait")
        assert applied.returncode == 0, applied.stderr
        [container] = [one for one in Daemon().containers() if token in json.dumps(dict(one.labels))]
        image = Daemon().inspect(container.id)["Config"]["Image"]
        assert image.startswith("launcher-workspace:")
        listed = launcher("list", "--json")
        app = next(one for one in json.loads(listed.stdout) if token in json.dumps(one))
        assert token in launcher("logs", app["handle"]).stdout
        assert launcher("status", app["handle"]).returncode == 0
        gone = launcher("gc", "-s", "local_docker", "--older-than", "0")
        assert gone.returncode == 0, gone.stderr
        assert [one for one in Daemon().containers() if token in json.dumps(dict(one.labels))] == []
    finally:
        if image:
            Daemon().remove_image(image)
