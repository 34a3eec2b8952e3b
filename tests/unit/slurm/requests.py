"""Requests that the tests of slurm make."""

from typing import Any

from launcher.schedulers.slurm.options import options
from launcher.schedulers.slurm.request import SlurmRequest, build_request
from launcher.specs import AppDef, Role


def role(name: str = "r", **fields: Any) -> Role:
    return Role(**{"name": name, "image": "", "entrypoint": "true", **fields})


def request_of(*roles: Role, app_id: str = "a-1-x", **cfg: Any) -> SlurmRequest:
    return build_request(AppDef("app", list(roles)), options().resolve(cfg), app_id, session="s")


def sbatch_lines(request: SlurmRequest) -> list[str]:
    """The options of the script, without their prefix."""
    return [
        line.removeprefix("#SBATCH --") for line in request.script.splitlines() if line.startswith("#SBATCH")
    ]
