"""Answer one request: a JSON object in, one out. Loads only the modules of the requested operations."""

import json
import sys
from importlib import import_module
from typing import Dict

from launcher.schedulers.slurm.site.agent.folder import Json, answered
from launcher.schedulers.slurm.site.agent.site import Site

MODULES: Dict[str, str] = {
    op: module
    for module, ops in (
        ("site", "hello put_program"),
        ("submit", "reserve create start start_all"),
        ("arrays", "copy_workspace create_array"),
        ("observe", "observe"),
        ("wait", "wait release"),
        ("read", "read tail events"),
        (
            "removal",
            "abort abort_all cancel withdraw end remove remove_logs sweep outputs make_output hash_output"
            " remove_output",
        ),
    )
    for op in ops.split()
}
"""Operation → the module with the function of its name."""


def answer(request: Json) -> Json:
    """Do the operations of a request in order; later operations run also after a failed one.

    With `one_look` they are of the same kind, for many apps: Slurm is asked once for all jobs.
    """
    site = Site(request["job_dir"])
    if not request.get("one_look"):
        return {"ok": [_answer(site, op) for op in request["ops"]]}
    with site.one_look():
        return {"ok": [_answer(site, op) for op in request["ops"]]}


def _answer(site: Site, op: Json) -> Json:
    return answered(lambda: _do(site, op), site.job_dir)


def _do(site: Site, op: Json) -> Json:
    name = op["op"]
    do = getattr(import_module(f"launcher.schedulers.slurm.site.agent.{MODULES[name]}"), name)
    return do(site, op)  # type: ignore[no-any-return]


def main() -> None:
    request = json.loads(sys.stdin.buffer.read().decode("utf-8"))
    sys.stdout.write(json.dumps(answer(request)) + "\n")
