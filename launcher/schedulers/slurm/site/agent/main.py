"""Answer one request: a JSON object in, one out. Loads the modules of the operations that it asks for."""

import json
import os
import sys
from importlib import import_module
from typing import Dict, List

from launcher.schedulers.slurm.site.agent.folder import FULL, Json, OpError
from launcher.schedulers.slurm.site.agent.site import Site

MODULES: Dict[str, str] = {
    op: module
    for module, ops in (
        ("site", "hello"),
        ("submit", "reserve abort create start"),
        ("observe", "observe"),
        ("wait", "wait release"),
        ("read", "read tail events"),
        ("removal", "cancel withdraw end remove sweep outputs make_output remove_output"),
    )
    for op in ops.split()
}
"""Operation → the module with the function of its name."""


def answer(request: Json) -> Json:
    """Do the operations of a request in order; one that fails does not keep later ones from running."""
    site = Site(request["job_dir"])
    out: List[Json] = []
    for op in request["ops"]:
        try:
            out.append(_do(site, op))
        except OpError as error:
            out.append({"error": error.kind, "message": str(error), "detail": error.detail})
        except OSError as error:
            kind = "full-disk" if error.errno in FULL else "state"
            where = error.filename or site.job_dir
            message = f"{os.fsdecode(where)}: {error.strerror or error}"
            out.append({"error": kind, "message": message, "detail": {}})
    return {"ok": out}


def _do(site: Site, op: Json) -> Json:
    name = op["op"]
    return getattr(import_module(f"launcher.schedulers.slurm.site.agent.{MODULES[name]}"), name)(site, op)


def main() -> None:
    request = json.loads(sys.stdin.buffer.read().decode("utf-8"))
    sys.stdout.write(json.dumps(answer(request)) + "\n")
