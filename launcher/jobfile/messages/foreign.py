"""Words of other tools, by the mapping in which they stand: the field of ours, or why there is none."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from launcher.jobfile.text.document import Path
from launcher.text import nearest

Fields = Mapping[str, Any]
Write = Callable[[Any], Fields | None]
"""The value of a foreign field → fields of ours that mean the same; None for a value that has none."""


class Word(NamedTuple):
    """A field of another tool.

    Attributes:
        tools: those that have it; "" for many.
        example: a value that it takes there. One of another type means something else.
        write: the fields of ours, in the same mapping; a sentence where there is none.
    """

    tools: str
    example: Any
    write: Write | str


def _as(field: str) -> Write:
    return lambda value: {field: value}


def _within(outer: str, field: str) -> Write:
    return lambda value: {outer: {field: value}}


def _for_slurm(option: str) -> Write:
    return lambda value: {"cfg": {option: value}, "scheduler": "slurm"}


def _with_unit(field: str, unit: str) -> Write:
    return lambda value: {field: f"{value}{unit}"}


def _command(value: Any) -> Fields | None:
    """A command in words is a program and its arguments; in one text a shell reads it."""
    if isinstance(value, str):
        return {"run" if len(value.split()) > 1 else "entrypoint": value}
    if not value or not all(isinstance(word, str) for word in value):
        return None
    return {"entrypoint": value[0], **({"args": value[1:]} if value[1:] else {})}


def _script(value: Any) -> Fields | None:
    lines = [value] if isinstance(value, str) else value
    return {"run": "\n".join(lines)} if all(isinstance(line, str) for line in lines) else None


def _variables(value: Any) -> Fields | None:
    """`[A=1]` of Compose, `[{name: A, value: "1"}]` of Kubernetes."""
    pairs: list[Any] = [
        (each.get("name"), each.get("value")) if isinstance(each, dict) else str(each).split("=", 1)
        for each in value
    ]
    is_plain = all(len(pair) == 2 and isinstance(pair[0], str) and pair[1] is not None for pair in pairs)
    return {"env": dict(pairs)} if is_plain else None


def _memory(value: Any) -> Fields | None:
    """`--mem` of Slurm in binary units: `4G` is 4 GiB, and a number is of MiB."""
    amount, unit = (value, "M") if value.isdecimal() else (value[:-1], value[-1:].upper())
    is_plain = amount.isdecimal() and unit in ("K", "M", "G", "T")
    return {"memory": f"{amount}{unit}iB"} if is_plain else None


def _memory_of_role(value: Any) -> Fields | None:
    found = _memory(value)
    return {"resource": found} if found else None


def _clock(value: Any) -> Fields | None:
    """`--time` of Slurm, `[D-]HH:MM:SS`, as one duration."""
    days, _, clock = value.rpartition("-")
    parts = [days or "0", *clock.split(":")]
    if len(parts) != 4 or not all(part.isdecimal() for part in parts):
        return None
    text = "".join(f"{int(part)}{unit}" for part, unit in zip(parts, "dhms", strict=True) if int(part))
    return {"timeout": text} if text else None


_BY_ITSELF = "nothing starts by itself: run `launcher apply` from cron, or from a workflow with a schedule"
_NO_STEPS = "write the commands as a script, in `run` of a role; a step of its own is a job that others need"
_RESTARTS = "`max_retries` of a role says how often it is started again after it failed"
_ONE_SHOT = "a job runs to its end; `service: true` is for a role that others of the job need"
_CONDITION = "`enabled: false` leaves a job out; `needs` starts it only where others have succeeded"
_SECRETS = "write `{secret: env:NAME}` as the value of a variable in `env` of a role"
_BUILD = "launcher builds no image from a Dockerfile: build and push it, and name it in `image`"
_NAMED = "apps get names of launcher, which `launcher list` shows; the job has the `name`"
_LOGS = "output is kept for `launcher logs`; nothing has to be redirected"
_HOSTS = "roles find each other by `$<role.NAME.host>`; the replicas of a job share a network"
_RULES = "`lifecycle` says what happens to it when the file changes and after it ended"
_OUTPUTS = "`$<output_dir>` is the folder for results; jobs that need this one read it"
_PARALLEL = (
    "`max_parallel` of a job with a `matrix`, or of [queue] in launcher.toml, limits how many run at once"
)

_MOUNTS = "`mounts` is a list of `{type: bind, src: …, dst: …}`"
_PORTS = "`port_map: {web: 80}` names the ports of a replica"
_PROBES = "`ready: {port: 80}` says how a replica is seen to be ready"
_AMOUNTS = "write its fields here: there is one amount, which is the limit too"
_COUNTS = "`num_replicas` of a role runs it several times; `matrix` makes several jobs"
_SCHEDULER = "`scheduler: local_docker` or `slurm` says where it runs"
_AFTER = "write it at the end of `run`, or with `trap` of the shell"
_VOLUMES = "name a volume where it is mounted: `{type: volume, src: data, dst: /data}`"
_ENV_FILE = "name each variable in `env`, secrets as `{secret: env:NAME}`"
_STAGES = "`needs: [NAME]` orders jobs; there are no stages"
_FOLDER = "begin the script of `run` with `cd /src`"
_COMMANDS: Mapping[str, tuple[Word, ...]] = {
    "command": (
        Word("Compose, Kubernetes, Nomad", "python train.py", _command),
        Word("Compose, Kubernetes, Nomad", ["python", "train.py"], _command),
    ),
    "commands": (Word("dstack", ["pip install .", "python train.py"], _script),),
    "cmd": (
        Word("Docker", "python train.py", _command),
        Word("Docker", ["python", "train.py"], _command),
    ),
    "script": (
        Word("GitLab", "make all", _script),
        Word("GitLab", ["make", "make test"], _script),
    ),
    "program": (Word("", "python", _as("entrypoint")),),
    "arguments": (Word("", ["-m", "train"], _as("args")),),
}
_ROLE: Mapping[str, tuple[Word, ...]] = {
    **_COMMANDS,
    "container": (Word("GitLab", "python:3.12", _as("image")),),
    "image_uri": (Word("Sagemaker", "python:3.12", _as("image")),),
    "docker_image": (Word("", "python:3.12", _as("image")),),
    "environment": (
        Word("Compose", {"A": "1"}, _as("env")),
        Word("Compose", ["A=1"], _variables),
    ),
    "env_vars": (Word("", {"A": "1"}, _as("env")),),
    "envs": (Word("SkyPilot", {"A": "1"}, _as("env")),),
    "replicas": (Word("Kubernetes", 2, _as("num_replicas")),),
    "instances": (Word("", 2, _as("num_replicas")),),
    "num_nodes": (Word("SkyPilot", 2, _as("num_replicas")),),
    "nodes": (Word("Slurm, dstack", 2, _as("num_replicas")),),
    "count": (Word("Nomad", 2, _as("num_replicas")),),
    "scale": (Word("Compose", 2, _as("num_replicas")),),
    "parallelism": (Word("Kubernetes", 2, _as("num_replicas")),),
    "completions": (Word("Kubernetes", 2, _as("num_replicas")),),
    "ntasks": (Word("Slurm", 2, _as("num_replicas")),),
    "retries": (Word("Argo, Airflow", 3, _as("max_retries")),),
    "retry": (Word("GitLab", 3, _as("max_retries")),),
    "backofflimit": (Word("Kubernetes", 3, _as("max_retries")),),
    "max_restarts": (Word("", 3, _as("max_retries")),),
    "restart": (Word("Compose", "always", _RESTARTS),),
    "restart_policy": (Word("Compose", {"condition": "always"}, _RESTARTS),),
    "restartpolicy": (Word("Kubernetes", "OnFailure", _RESTARTS),),
    "backoff": (Word("", "30s", _as("retry_delay")),),
    "resources": (Word("Kubernetes", {"cpu": 2}, _as("resource")),),
    "limits": (Word("Kubernetes", {"cpu": 2}, _as("resource")),),
    "cpus": (
        Word("Compose", 2, _within("resource", "cpu")),
        Word("Compose", 0.5, _within("resource", "cpu")),
    ),
    "cpus_per_task": (Word("Slurm", 4, _within("resource", "cpu")),),
    "threads": (Word("Snakemake", 4, _within("resource", "cpu")),),
    "gpus": (Word("Slurm", 1, _within("resource", "gpu")),),
    "gpus_per_task": (Word("Slurm", 1, _within("resource", "gpu")),),
    "accelerators": (Word("SkyPilot", "A100:1", "`resource: {gpu: 1}` asks for GPUs"),),
    "mem": (Word("Slurm", "4G", _memory_of_role),),
    "mem_limit": (Word("Compose", "512m", _within("resource", "memory")),),
    "mem_mb": (Word("Snakemake", 4096, _within("resource", "memMB")),),
    "volumes": (Word("Compose", ["./data:/data"], _MOUNTS),),
    "volumemounts": (Word("Kubernetes", [{"name": "a"}], _MOUNTS),),
    "devices": (Word("Compose", ["/dev/fuse"], "`mounts` takes `{type: device, src: /dev/fuse}`"),),
    "ports": (
        Word("Compose", ["8080:80"], _PORTS),
        Word("", {"web": 80}, _as("port_map")),
    ),
    "expose": (Word("Compose", ["80"], _PORTS),),
    "healthcheck": (Word("Compose", {"test": "x"}, _PROBES),),
    "readinessprobe": (Word("Kubernetes", {"port": 80}, _PROBES),),
    "readiness": (Word("", {"port": 80}, _as("ready")),),
    "needs": (Word("GitHub Actions", ["db"], _as("depends_on")),),
    "after": (Word("", ["db"], _as("depends_on")),),
    "daemon": (Word("", True, _as("service")),),
    "sidecar": (Word("", True, _as("service")),),
    "build": (Word("Compose", ".", _BUILD),),
    "dockerfile": (Word("", "Dockerfile", _BUILD),),
    "env_file": (Word("Compose", ".env", _ENV_FILE),),
    "secrets": (Word("Compose", ["token"], _SECRETS),),
    "container_name": (Word("Compose", "web", _NAMED),),
    "hostname": (Word("Compose", "web", _HOSTS),),
    "networks": (Word("Compose", ["front"], _HOSTS),),
    "links": (Word("Compose", ["db"], _HOSTS),),
    "logging": (Word("Compose", {"driver": "json"}, _LOGS),),
    "stdout": (Word("", "out.log", _LOGS),),
    "working_dir": (Word("Compose", "/src", _FOLDER),),
    "workdir": (Word("SkyPilot", "/src", _FOLDER),),
    "workingdir": (Word("Kubernetes", "/src", _FOLDER),),
    "setup": (Word("SkyPilot", "pip install .", "write it at the start of `run`"),),
    "before_script": (Word("GitLab", ["pip install ."], "write it at the start of `run`"),),
    "after_script": (Word("GitLab", ["rm -r tmp"], _AFTER),),
    "steps": (Word("GitHub Actions", [{"run": "make"}], _NO_STEPS),),
    "labels": (Word("Compose", {"a": "b"}, _as("metadata")),),
    "annotations": (Word("Kubernetes", {"a": "b"}, _as("metadata")),),
    "sbatch": (Word("", {"time": "1:00:00"}, "options of a scheduler stand in `cfg` of the job"),),
}
_JOB: Mapping[str, tuple[Word, ...]] = {
    "services": (Word("Compose", {"main": {"entrypoint": "env"}}, _as("roles")),),
    "tasks": (Word("Nomad", {"main": {"entrypoint": "env"}}, _as("roles")),),
    "containers": (Word("Kubernetes", {"main": {"entrypoint": "env"}}, _as("roles")),),
    "parameters": (Word("Argo", {"lr": {"type": "float", "default": 1.5}}, _as("vars")),),
    "variables": (Word("GitLab", {"lr": {"type": "float", "default": 1.5}}, _as("vars")),),
    "depends_on": (Word("Compose", ["prepare"], _as("needs")),),
    "dependencies": (Word("Argo", ["prepare"], _as("needs")),),
    "dependency": (Word("Slurm", "afterok:1", "`needs: [NAME]` names the jobs that must have succeeded"),),
    "after": (Word("", ["prepare"], _as("needs")),),
    "requires": (Word("CircleCI", ["prepare"], _as("needs")),),
    "sources": (Word("Task", ["*.py"], _as("inputs")),),
    "input_files": (Word("", ["*.py"], _as("inputs")),),
    "input": (Word("Snakemake", ["*.py"], _as("inputs")),),
    "outputs": (Word("", ["out.txt"], _OUTPUTS),),
    "artifacts": (Word("GitLab", {"paths": ["out"]}, _OUTPUTS),),
    "options": (Word("", {}, _as("cfg")),),
    "run_opts": (Word("TorchX", {}, _as("cfg")),),
    "walltime": (Word("PBS", "2h", _as("timeout")),),
    "timeout_minutes": (Word("GitHub Actions", 30, _with_unit("timeout", "m")),),
    "timeout_seconds": (Word("", 90, _with_unit("timeout", "s")),),
    "activedeadlineseconds": (Word("Kubernetes", 90, _with_unit("timeout", "s")),),
    "max_duration": (Word("dstack", "2h", _as("timeout")),),
    "time": (Word("Slurm", "1-02:30:00", _clock),),
    "time_limit": (Word("", "2h", _as("timeout")),),
    "deadline": (Word("", "2h", _as("timeout")),),
    "partition": (Word("Slurm", "gpu", _for_slurm("partition")),),
    "account": (Word("Slurm", "ml", _for_slurm("account")),),
    "qos": (Word("Slurm", "high", _for_slurm("qos")),),
    "constraint": (Word("Slurm", "a100", _for_slurm("constraint")),),
    "strategy": (
        Word("GitHub Actions", {"matrix": {"n": [1, 2]}}, "write its `matrix` as `matrix` of the job"),
    ),
    "parallel": (Word("GitLab", 4, _COUNTS),),
    "array": (Word("Slurm", "0-9", "`matrix: {index: {range: [0, 9]}}` makes a job of each value"),),
    "max_parallel_jobs": (Word("", 2, _PARALLEL),),
    "concurrency": (Word("GitHub Actions", "main", _PARALLEL),),
    "on": (Word("GitHub Actions", "push", _BY_ITSELF),),
    "schedule": (Word("GitHub Actions, Kubernetes", "0 3 * * *", _BY_ITSELF),),
    "cron": (Word("cron", "0 3 * * *", _BY_ITSELF),),
    "if": (Word("GitHub Actions", "success()", _CONDITION),),
    "when": (Word("GitLab", "on_success", _CONDITION),),
    "rules": (Word("GitLab", [{"if": "x"}], _CONDITION),),
    "disabled": (Word("", True, lambda value: {"enabled": not value}),),
    "runs_on": (Word("GitHub Actions", "ubuntu", _SCHEDULER),),
    "stage": (Word("GitLab", "test", _STAGES),),
    "stages": (Word("GitLab", ["test"], _STAGES),),
    "labels": (Word("Kubernetes", {"a": "b"}, _as("metadata")),),
    "tags": (Word("", {"a": "b"}, _as("metadata")),),
    "namespace": (Word("Kubernetes, Nomad", "ml", _as("project")),),
    "job_name": (Word("Slurm", "train", _as("name")),),
    "type": (Word("Nomad, dstack", "batch", _ONE_SHOT),),
    "steps": (Word("GitHub Actions", [{"run": "make"}], _NO_STEPS),),
    "secrets": (Word("Compose", {"a": {}}, _SECRETS),),
    "volumes": (
        Word(
            "Compose",
            {"data": {}},
            _VOLUMES,
        ),
    ),
    "networks": (Word("Compose", {"front": {}}, _HOSTS),),
    "update": (Word("Nomad", {"max_parallel": 1}, _RULES),),
}
_RESOURCE: Mapping[str, tuple[Word, ...]] = {
    "cpus": (Word("Compose", 2, _as("cpu")),),
    "cores": (Word("Nomad", 2, _as("cpu")),),
    "vcpus": (Word("", 2, _as("cpu")),),
    "gpus": (Word("SkyPilot", 1, _as("gpu")),),
    "mem": (Word("Slurm", "4G", _memory),),
    "ram": (Word("", "4GiB", _as("memory")),),
    "mem_mb": (Word("Snakemake", 4096, _as("memMB")),),
    "memory_mb": (Word("", 4096, _as("memMB")),),
    "nvidia.com/gpu": (Word("Kubernetes", 1, _as("gpu")),),
    "accelerators": (Word("SkyPilot", "A100:1", "`gpu: 1` asks for a GPU"),),
    "limits": (Word("Kubernetes", {"cpu": 2}, _AMOUNTS),),
    "requests": (Word("Kubernetes", {"cpu": 2}, _AMOUNTS),),
    "disk": (Word("SkyPilot", 100, "no scheduler is asked for disk space"),),
}
_MOUNT: Mapping[str, tuple[Word, ...]] = {
    "source": (Word("Compose, Docker", "/data", _as("src")),),
    "hostpath": (Word("Kubernetes", "/data", _as("src")),),
    "destination": (Word("Docker", "/data", _as("dst")),),
    "target": (Word("Compose, Docker", "/data", _as("dst")),),
    "mountpath": (Word("Kubernetes", "/data", _as("dst")),),
    "readonly": (Word("Docker, Kubernetes", True, _as("read_only")),),
    "ro": (Word("Docker", True, _as("read_only")),),
    "mode": (Word("", "rwm", _as("permissions")),),
    "perm": (Word("", "rwm", _as("permissions")),),
}
_READY: Mapping[str, tuple[Word, ...]] = {
    "interval": (Word("Compose", "5s", _as("every")),),
    "periodseconds": (Word("Kubernetes", 5, _with_unit("every", "s")),),
    "timeoutseconds": (Word("Kubernetes", 60, _with_unit("timeout", "s")),),
    "test": (Word("Compose", ["pg_isready"], _as("command")),),
    "exec": (Word("Kubernetes", ["pg_isready"], _as("command")),),
    "path": (Word("Kubernetes", "/healthz", _as("http")),),
    "tcp": (Word("Nomad", 80, _as("port")),),
}

WORDS: Mapping[str, Mapping[str, tuple[Word, ...]]] = {
    "job": _JOB,
    "role": _ROLE,
    "resource": _RESOURCE,
    "mount": _MOUNT,
    "ready": _READY,
}
"""Kind of mapping → word in lower case, with `_` for `-` → its meanings, by the type of their example."""


def kind_of(path: Path) -> str:
    """The kind of the mapping at a path of a job file; "" for one that no other tool has."""
    if path[:1] == ("targets",):
        path = path[2:]
    match path:
        case ():
            return "job"
        case ("roles", _) | ("defaults", "role"):
            return "role"
        case ("roles", _, "resource" | "ready" as kind) | ("defaults", "role", "resource" | "ready" as kind):
            return kind
        case (*_, "mounts", int()):
            return "mount"
    return ""


def word_for(path: Path, key: str, value: Any) -> Word | None:
    """The meaning of a key of another tool in the mapping at `path`: for values like this one, else any."""
    meanings = WORDS.get(kind_of(path), {}).get(_plain(key), ())
    alike = (each for each in meanings if type(each.example) is type(value))
    return next(alike, meanings[0] if meanings else None)


def near_word_for(path: Path, key: str, value: Any) -> Word | None:
    """As `word_for`, for a word that is misspelt."""
    near = nearest(_plain(key), WORDS.get(kind_of(path), {}))
    return word_for(path, near, value) if near else None


def meanings(key: str) -> Iterator[tuple[str, str, Any, Fields | str]]:
    """All meanings of a word: the kind of mapping, its tools, a value that it takes, and the answer to it."""
    for kind, words in WORDS.items():
        for word in words.get(_plain(key), ()):
            answer = word.write if isinstance(word.write, str) else word.write(word.example)
            yield kind, word.tools, word.example, answer or {}


def _plain(key: str) -> str:
    return key.lower().replace("-", "_")
