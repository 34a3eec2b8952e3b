"""The long options of sbatch: those that the option `sbatch` may hold, and those that it may not."""

from __future__ import annotations

from math import ceil

from launcher.text import seconds_in

_LONG_OPTIONS = """
account acctg-freq array batch bb bbf begin chdir cluster-constraint clusters comment constraint
container container-id contiguous core-spec cores-per-socket cpu-freq cpus-per-gpu cpus-per-task
deadline delay-boot dependency distribution error exclude exclusive export export-file extra
extra-node-info get-user-env gid gpu-bind gpu-freq gpus gpus-per-node gpus-per-socket gpus-per-task
gres gres-flags help hint hold ignore-pbs input job-name kill-on-invalid-dep licenses mail-type
mail-user mcs-label mem mem-bind mem-per-cpu mem-per-gpu mincpus network nice no-kill no-requeue
nodefile nodelist nodes ntasks ntasks-per-core ntasks-per-gpu ntasks-per-node ntasks-per-socket
oom-kill-step open-mode output overcommit oversubscribe parsable partition power prefer priority
profile propagate qos quiet reboot requeue reservation resv-ports segment signal sockets-per-node
spread-job stepmgr switches test-only thread-spec threads-per-core time time-min tmp tres-bind
tres-per-task uid umask usage use-min-nodes verbose version wait wait-all-nodes wckey wrap x11
"""
KNOWN = frozenset(_LONG_OPTIONS.split())
"""Of Slurm 20.11 to 24.11. Plug-ins of a site add more. Source: sbatch(1)."""

OWN_OPTION = {
    "account": "account",
    "comment": "comment",
    "constraint": "constraint",
    "gres": "gres",
    "nodes": "nodes",
    "ntasks-per-node": "ntasks_per_node",
    "partition": "partition",
    "qos": "qos",
    "time": "time",
    "chdir": "workdir",
    "requeue": "on_preempted",
    "no-requeue": "on_preempted",
}
"""Option of sbatch → the run option to use in its place."""

_THE_CALL = "launcher reads the answer of sbatch, and this changes it"
_THE_OUTPUT = "launcher keeps the output of each replica: `launcher logs` shows it"
REFUSED = {
    "array": "the tasks of an array share one name, by which launcher finds a job: use `matrix`",
    "clusters": "launcher follows jobs on the cluster of its host: give another cluster by `host`",
    "container": "launcher runs no containers on Slurm",
    "container-id": "launcher runs no containers on Slurm",
    "cpus-per-task": "give the role `resource.cpu`",
    "dependency": "use `needs`",
    "error": _THE_OUTPUT,
    "export-file": "launcher hands variables over itself: use `env` of the role",
    "gid": "a job runs as the user who submits it",
    "gpus-per-task": "give the role `resource.gpu`",
    "help": _THE_CALL,
    "hold": "launcher holds a job until its submission is recorded, and then releases it",
    "input": "replicas read nothing from standard input",
    "job-name": "launcher finds a job by its name, which is the app id",
    "kill-on-invalid-dep": "use `needs`",
    "ntasks": "it is the sum of `num_replicas` of the roles",
    "open-mode": _THE_OUTPUT,
    "output": _THE_OUTPUT,
    "parsable": _THE_CALL,
    "quiet": _THE_CALL,
    "signal": "launcher stops the replicas before the time limit by this signal",
    "test-only": _THE_CALL,
    "uid": "a job runs as the user who submits it",
    "usage": _THE_CALL,
    "verbose": _THE_CALL,
    "version": _THE_CALL,
    "wait": "use `launcher wait`",
    "wrap": "the command is that of the roles",
}
"""Option of sbatch → why it cannot be given."""

MEMORY = ("mem", "mem-per-cpu", "mem-per-gpu")
"""Options that exclude each other: any of them may stand where launcher gives none."""


def minutes_of(time: str) -> int | None:
    """Minutes, rounded up, of a time limit: as Slurm writes it (`90`, `1:30`, `2:00:00`, `1-12`) or `2h`.

    None where there is no limit.
    """
    if time in ("UNLIMITED", "INFINITE"):
        return None
    if (seconds := seconds_in(time)) is not None:
        return ceil(seconds / 60)
    days, dash, clock = time.rpartition("-")
    parts = [int(part) for part in clock.split(":")]
    if dash:  # days-hours[:minutes[:seconds]]
        hours, minutes, left = (*parts, 0, 0)[:3]
        return ceil((int(days) * 86400 + hours * 3600 + minutes * 60 + left) / 60)
    if len(parts) == 1:
        return parts[0]
    hours, minutes, left = parts if len(parts) == 3 else (0, *parts)
    return ceil((hours * 3600 + minutes * 60 + left) / 60)


def slurm_time(minutes: int) -> str:
    """2880 + 90 → "2-01:30:00", 90 → "01:30:00"."""
    days, rest = divmod(minutes, 1440)
    clock = f"{rest // 60:02}:{rest % 60:02}:00"
    return f"{days}-{clock}" if days else clock
