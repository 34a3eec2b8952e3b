"""Ask Slurm whether it would take jobs, without submitting them: `sbatch --test-only`.

That is a rehearsal of the scheduler on the nodes that are available now. So it refuses for lack of nodes also
what sbatch would take and let wait for a node that is down or drained; every other refusal is sbatch's own.
"""

from typing import Dict, Optional, Sequence

from launcher.schedulers.slurm.site.agent.site import Site
from launcher.schedulers.slurm.site.agent.slurm import BUSY, SUBMIT_S, OpError, one_line, refusal
from launcher.schedulers.slurm.site.shared import Json

NO_NODES = "Requested node configuration is not available"
UP = frozenset({"alloc", "comp", "idle", "mix", "plnd", "resv"})
"""The states of the nodes that `--test-only` counts as available."""
AT_REST = "~#-"
"""Flags after the state of an available node: it is powered down, coming up, or planned for a job."""


def check(site: Site, op: Json) -> Json:
    """Ask about each of `jobs`: a script, the partitions that it names ("" for the default), and whether one
    node has to hold all of it. Answers are {} for a job that Slurm takes, `refused`, or `unchecked`: why."""
    return {"answers": [_answer(site, job) for job in op["jobs"]]}


def _answer(site: Site, job: Json) -> Dict[str, str]:
    try:
        code, out, err = site.slurm.run(["sbatch", "--test-only"], SUBMIT_S, text=job["script"])
        if code == 0:
            return {} if "to start at" in err else {"unchecked": one_line(err or out)}
        why = refusal(err or out)
        doubt = _doubt(site, job) if NO_NODES in err else None
    except OpError as error:
        return {"unchecked": str(error)}
    if BUSY.search(err):
        return {"unchecked": why}
    return {"refused": why} if doubt is None else {"unchecked": f"{why}, and {doubt}"}


def _doubt(site: Site, job: Json) -> Optional[str]:
    """Return why Slurm may take the job later: nodes that are unavailable now; None where these would not do.

    For a job of one node, an unavailable node is no better than an available one of the same kind.
    """
    of_partition = ["-p", job["partition"]] if job["partition"] else []
    argv = ["sinfo", "-h", "-a", "-N", *of_partition, "-o", "%P\x1f%n\x1f%t\x1f%a\x1f%c\x1f%m\x1f%G\x1f%f"]
    nodes = [line.split("\x1f") for line in site.slurm.read(argv).splitlines()]
    wanted = [node for node in nodes if job["partition"] or node[0].endswith("*")]
    away = [node for node in wanted if not _is_available(node)]
    if not wanted:
        return "its partition has no nodes"
    if job["one_node"]:
        kinds = {tuple(node[4:]) for node in wanted if _is_available(node)}
        away = [node for node in away if tuple(node[4:]) not in kinds]
    count = len({node[1] for node in away})
    return (
        f"{count} of its partition's nodes {'is' if count == 1 else 'are'} down or drained" if away else None
    )


def _is_available(node: Sequence[str]) -> bool:
    return node[3] == "up" and node[2].rstrip(AT_REST) in UP
