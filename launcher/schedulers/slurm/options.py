"""The run options of slurm."""

from __future__ import annotations

from typing import TypedDict

from launcher.schedulers.checks import add_times
from launcher.schedulers.slurm.known import DEFAULT_JOB_DIR
from launcher.specs.runopts import runopts

DEFAULT_GRACE_S = 10.0
ON_PREEMPTED = ("fail", "requeue")

_WORD = r"[^\s\x00-\x1f\x7f]+"
_LINE = r"[^\x00-\x1f\x7f]+"
_NAME = r"[A-Za-z0-9_][A-Za-z0-9_.-]*"
_HOST = rf"(?:{_NAME}@)?[A-Za-z0-9_:][A-Za-z0-9_.:%-]*"
_CLOCK = r"[0-9]+(?::[0-5]?[0-9]){0,2}|[0-9]+-[0-9]{1,2}(?::[0-5]?[0-9]){0,2}"
_DURATION = r"(?=.)(?:[0-9]+w)?(?:[0-9]+d)?(?:[0-9]+h)?(?:[0-9]+m)?"


class SlurmOpts(TypedDict, total=False):
    """The run options as a type for programs; `options` has all of them."""

    partition: str
    time: str
    comment: str | None
    constraint: str | None
    qos: str | None
    job_dir: str | None
    nomem: bool | None


def options() -> runopts:
    opts = runopts()
    _of_queue(opts)
    _of_nodes(opts)
    _of_site(opts)
    add_times(opts, DEFAULT_GRACE_S)
    return opts


def _of_queue(opts: runopts) -> None:
    for name, what in (
        ("partition", "the partition, or several with commas; the cluster's default if not given"),
        ("account", "the account that pays for the job; the user's default if not given"),
        ("qos", "the quality of service; the default of the account if not given"),
    ):
        opts.add(name, str, what, pattern=_WORD, wants="a name without spaces")
    opts.add(
        "time",
        str,
        "Slurm's limit on the time of the job, as 2h, 90 (minutes), 2:00:00 or 1-12:00:00; if not given,"
        " the timeout and two minutes, or the partition's default",
        pattern=rf"{_CLOCK}|{_DURATION}|UNLIMITED|INFINITE",
        wants="a time such as 2h, 90 (minutes), 2:00:00 or 1-12:00:00",
        takes_number=True,
    )
    opts.add("comment", str, "a note for people, in squeue", pattern=_LINE, wants="text on one line")
    opts.add(
        "on_preempted",
        str,
        "what becomes of the app when Slurm takes its nodes for another job: fail, or requeue (it starts"
        " again from the beginning)",
        default="fail",
        choices=ON_PREEMPTED,
    )


def _of_nodes(opts: runopts) -> None:
    opts.add("nodes", int, "number of nodes; as many as Slurm finds fit if not given", minimum=1)
    opts.add("ntasks_per_node", int, "the most replicas on one node", minimum=1)
    opts.add(
        "constraint",
        str,
        "features that the nodes must have, as a100 or ib&ssd",
        pattern=_WORD,
        wants="features such as a100 or ib&ssd, without spaces",
    )
    opts.add(
        "gres",
        str,
        "generic resources of each node, as gpu:a100:2, in the place of the GPUs of each replica",
        pattern=_WORD,
        wants="resources such as gpu:a100:2, without spaces",
    )
    opts.add("nomem", bool, "request no memory, for clusters that do not manage it", default=False)


def _of_site(opts: runopts) -> None:
    opts.add(
        "host",
        str,
        "login node of the cluster, as ssh knows it; commands run on this machine if not given",
        pattern=_HOST,
        wants="a host as ssh knows it, such as login1 or me@login1",
    )
    opts.add(
        "job_dir",
        str,
        "folder on the cluster for the records, logs and workspaces of apps; every node must see it",
        default=DEFAULT_JOB_DIR,
        pattern=r"(?:/|~\Z|~/)[^\x00-\x1f\x7f$]*",
        wants="an absolute path on the cluster, or one that begins with `~/`; variables are not expanded",
    )
    opts.add(
        "workdir",
        str,
        "folder on the cluster that commands run in; the app's copy of the workspace if not given",
        pattern=r"/[^\0]*",
        wants="an absolute path on the cluster",
    )
    opts.add(
        "setup",
        list[str],
        "lines of bash that run on the first node before the replicas, such as `module load cuda`; replicas"
        " inherit the environment that they leave",
    )
    opts.add(
        "sbatch",
        dict[str, str],
        "other options of sbatch by their long names, as {reservation: maintenance, exclusive: ''}",
    )
