"""Requests that the tests of slurm make."""

from typing import Any

from launcher.schedulers.slurm.options import options
from launcher.schedulers.slurm.request import SlurmRequest, bind_request, build_request
from launcher.specs import AppDef, Role
from launcher.specs.macros import SYMBOLIC_APP_ID


def role(name: str = "r", **fields: Any) -> Role:
    return Role(**{"name": name, "image": "", "entrypoint": "true", **fields})


def request_of(*roles: Role, app_id: str = "a-1-x", **cfg: Any) -> SlurmRequest:
    request = build_request(AppDef("app", list(roles)), options().resolve(cfg), session="s")
    return request if app_id == SYMBOLIC_APP_ID else bind_request(request, app_id, program="p.zip")


def sbatch_lines(request: SlurmRequest) -> list[str]:
    """Return the options of the script, without their prefix."""
    lines = [line for line in request.script.splitlines() if line.startswith("#SBATCH")]
    return [line.removeprefix("#SBATCH --") for line in lines]
