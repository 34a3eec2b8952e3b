"""Output folders of jobs."""

import json
import os
import re

from launcher.schedulers.slurm.site.agent.folder import NAME, Json, OpError, checked, token
from launcher.schedulers.slurm.site.agent.removal import remove_tree
from launcher.schedulers.slurm.site.agent.site import Site


def outputs(site: Site, op: Json) -> Json:
    try:
        return {"outputs": sorted(name for name in os.listdir(site.outputs) if NAME.match(name))}
    except FileNotFoundError:
        return {"outputs": []}


def make_output(site: Site, op: Json) -> Json:
    path = os.path.join(site.outputs, checked(op["name"]))
    os.makedirs(path, 0o700, exist_ok=True)
    return {"folder": path}


def remove_output(site: Site, op: Json) -> Json:
    """Remove an output folder. Raises OpError live while an app has it in its variables or arguments."""
    path = os.path.join(site.outputs, checked(op["name"]))
    if not os.path.isdir(path):
        return {"removed": False}
    word = re.compile(re.escape(json.dumps("/outputs/" + op["name"])[1:-1]) + r"(?![\w.+@-])")
    for app_id in site.app_ids():
        with site.open(app_id) as folder:
            if "outcome" not in folder.names() and word.search(folder.text("app.json") or ""):
                raise OpError("live", f"{app_id} uses it", app_id=app_id)
    gone = os.path.join(site.outputs, ".gone-{}-{}".format(op["name"], token()))
    os.rename(path, gone)
    remove_tree(gone)
    return {"removed": True}
