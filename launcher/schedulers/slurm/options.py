"""The run options of slurm, and the long options of sbatch that the option `sbatch` may hold."""

from __future__ import annotations

from functools import cache
from math import ceil

from launcher.schedulers.checks import add_times
from launcher.schedulers.slurm.known import DEFAULT_JOB_DIR
from launcher.specs.runopts import runopts
from launcher.text import seconds_in

DEFAULT_GRACE_S = 10.0
ON_PREEMPTED = {
    "fail": "The app fails.",
    "requeue": "The app goes back into the queue, and starts again from the beginning.",
}

_WORD = r"[^\s\x00-\x1f\x7f]+"
_LINE = r"[^\x00-\x1f\x7f]+"
_NAME = r"[A-Za-z0-9_][A-Za-z0-9_.-]*"
_HOST = rf"(?:{_NAME}@)?[A-Za-z0-9_:][A-Za-z0-9_.:%-]*"
_CLOCK = r"[0-9]+(?::[0-5]?[0-9]){0,2}|[0-9]+-[0-9]{1,2}(?::[0-5]?[0-9]){0,2}"
_DURATION = r"(?=.)(?:[0-9]+w)?(?:[0-9]+d)?(?:[0-9]+h)?(?:[0-9]+m)?"


def options() -> runopts:
    """A new copy of the run options, to which plug-ins may add options."""
    opts = runopts()
    opts.update(all_options())
    return opts


@cache
def all_options() -> runopts:
    """All run options. The value is cached: callers must not edit it."""
    opts = runopts()
    _of_queue(opts)
    _of_nodes(opts)
    _of_site(opts)
    add_times(opts, DEFAULT_GRACE_S)
    return opts


def _of_queue(opts: runopts) -> None:
    for name, example, what in (
        ("partition", "gpu", "the partition, or several with commas; the cluster's default if not given"),
        ("account", "vision", "the account that pays for the job; the user's default if not given"),
        ("qos", "long", "the quality of service; the default of the account if not given"),
    ):
        opts.add(name, str, what, pattern=_WORD, wants="a name without spaces", example=example)
    what = (
        "Slurm's limit on the time of the job, as 2h, 90 (minutes), 2:00:00 or 1-12:00:00; if not given,"
        " the timeout, the grace period and two minutes, or the partition's default"
    )
    form = rf"{_CLOCK}|{_DURATION}|UNLIMITED|INFINITE"
    wants = "a time such as 2h, 90 (minutes), 2:00:00 or 1-12:00:00"
    opts.add("time", str, what, pattern=form, wants=wants, takes_number=True, example="2h")
    what, wants = "a note for people, in squeue", "text on one line"
    opts.add("comment", str, what, pattern=_LINE, wants=wants, example="first try")
    what = (
        "what becomes of the app when Slurm takes its nodes for another job: fail, or requeue (it starts"
        " again from the beginning)"
    )
    opts.add("on_preempted", str, what, default="fail", choices=ON_PREEMPTED)


def _of_nodes(opts: runopts) -> None:
    opts.add("nodes", int, "number of nodes; as many as Slurm finds fit if not given", minimum=1)
    opts.add("ntasks_per_node", int, "the most replicas on one node", minimum=1)
    what, wants = "features that the nodes must have, as a100 or ib&ssd", "features such as a100 or ib&ssd"
    opts.add("constraint", str, what, pattern=_WORD, wants=f"{wants}, without spaces", example="a100")
    what = "generic resources of each node, as gpu:a100:2, in the place of the GPUs of each replica"
    wants = "resources such as gpu:a100:2, without spaces"
    opts.add("gres", str, what, pattern=_WORD, wants=wants, example="gpu:a100:2")
    opts.add("nomem", bool, "request no memory, for clusters that do not manage it", default=False)


def _of_site(opts: runopts) -> None:
    what = "login node of the cluster, as ssh knows it; commands run on this machine if not given"
    wants = "a host as ssh knows it, such as login1 or me@login1"
    opts.add("host", str, what, pattern=_HOST, wants=wants, example="login1")
    what = "folder on the cluster for the records, logs and workspaces of apps; every node must see it"
    form = r"~|(?:/|~/)[^\x00-\x1f\x7f$]*"
    wants = "an absolute path on the cluster, or one that begins with `~/`; variables are not expanded"
    opts.add("job_dir", str, what, default=DEFAULT_JOB_DIR, pattern=form, wants=wants)
    what = "folder on the cluster that commands run in; the app's copy of the workspace if not given"
    wants = "an absolute path on the cluster"
    opts.add("workdir", str, what, pattern=r"/[^\x00]*", wants=wants, example="/scratch/train")
    what = (
        "lines of bash that run on the first node before the replicas, such as `module load cuda`; replicas"
        " inherit the environment that they leave"
    )
    opts.add("setup", list[str], what, example=["module load cuda"])
    what = "other options of sbatch by their long names, as {reservation: maintenance, exclusive: ''}"
    opts.add("sbatch", dict[str, str], what, example={"reservation": "maintenance"})


# Options of sbatch

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
"""The long options of sbatch in Slurm 20.11 to 24.11. Plug-ins of a site add more. Source: sbatch(1)."""

_SAME_NAME = "account comment constraint gres nodes ntasks-per-node partition qos time"
OWN_OPTION = {name: name.replace("-", "_") for name in _SAME_NAME.split()}
OWN_OPTION |= {"chdir": "workdir", "requeue": "on_preempted", "no-requeue": "on_preempted"}
"""Option of sbatch → the run option to use in its place."""

_THE_CONTAINER = (
    "it would put launcher's own program into the container: give it to a `srun` in `run` of the role"
)
_THE_CALL = "help parsable quiet test-only usage verbose version"
_PYXIS = "image mounts workdir name mount-home remap-root entrypoint writable env"
OF_PYXIS = frozenset(f"container-{name}" for name in _PYXIS.split())
"""Options that the plug-in pyxis adds. Source: its README."""
REFUSED = {
    **dict.fromkeys(OF_PYXIS, _THE_CONTAINER),
    **dict.fromkeys(_THE_CALL.split(), "launcher reads the answer of sbatch, and this changes it"),
    **dict.fromkeys(
        ("error", "open-mode", "output"),
        "launcher keeps the output of each replica: `launcher logs` shows it",
    ),
    **dict.fromkeys(("container", "container-id"), "launcher runs no containers on Slurm"),
    **dict.fromkeys(("uid", "gid"), "a job runs as the user who submits it"),
    **dict.fromkeys(("dependency", "kill-on-invalid-dep"), "use `needs`"),
    "array": "the tasks of an array share one name, by which launcher finds a job: use `matrix`",
    "clusters": "launcher follows jobs on the cluster of its host: give another cluster by `host`",
    "cpus-per-task": "give the role `resource.cpu`",
    "export-file": "launcher hands variables over itself: use `env` of the role",
    "gpus-per-task": "give the role `resource.gpu` and, for a kind, `resource.gpu_type`",
    "hold": "launcher holds a job until its submission is recorded, and then releases it",
    "input": "replicas read nothing from standard input",
    "job-name": "launcher finds a job by its name, which is the app id",
    "ntasks": "it is the sum of `num_replicas` of the roles",
    "signal": "launcher stops the replicas before the time limit by this signal",
    "wait": "use `launcher wait`",
    "wrap": "the command is that of the roles",
}
"""Option of sbatch → why it cannot be given."""

MEMORY = ("mem", "mem-per-cpu", "mem-per-gpu")
"""Groups of options that exclude each other: users may set one of a group that launcher does not set."""


def minutes_of(time: str) -> int | None:
    """The minutes, rounded up, of a limit such as `90`, `1:30`, `2:00:00`, `1-12`, `2h`; None for none."""
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
    """Return minutes in Slurm's form: 2880 + 90 → "2-01:30:00", 90 → "01:30:00"."""
    days, rest = divmod(minutes, 1440)
    clock = f"{rest // 60:02}:{rest % 60:02}:00"
    return f"{days}-{clock}" if days else clock
