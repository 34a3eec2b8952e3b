"""Words of other tools, by the mapping that they are used in: our field, or why there is none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial, reduce
from typing import Any, NamedTuple

from launcher.jobfile.messages import foreign_values as to
from launcher.jobfile.messages.collector import spelt_alike
from launcher.jobfile.messages.foreign_values import Fields, Write
from launcher.jobfile.text.document import Path


class Word(NamedTuple):
    """A field of another tool.

    Attributes:
        tools: the tools that have the field; "" for many.
        example: a value that the field takes there. A value of another type means something else.
        answer: the path of our field with the same value, from the same mapping on; or a function that makes
            our fields from the value; or a sentence when we have no such field.
    """

    tools: str
    example: Any
    answer: tuple[str, ...] | Write | str

    @property
    def reason(self) -> str:
        """The reason why there is no such field of ours; "" when there is one."""
        return self.answer if isinstance(self.answer, str) else ""

    @property
    def name(self) -> str:
        """Our field with the same meaning; "" for none."""
        return next(iter(self.fields(self.example) or ("",)))

    def fields(self, value: Any) -> Fields | None:
        """Return our fields with the same meaning as this value; None if they are unknown or do not exist."""
        if isinstance(self.answer, str):
            return None
        if callable(self.answer):
            return self.answer(value)
        found: Fields = reduce(lambda inner, key: {key: inner}, reversed(self.answer), value)
        return found


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

_RECEIVERS = "`[notify]` of launcher.toml, or `launcher apply --notify`, sends outcomes to a URL or a command"

_MOUNTS = "`mounts` is a list of `{type: bind, src: …, dst: …}`"
_OPTIONS = "`cfg` of the role has options of its containers: `cfg: {shm_size: 1g}`, on local_docker"
_PROBES = "`ready: {port: 80}` says how a replica is seen to be ready"
_AMOUNTS = "write its fields here: there is one amount, which is the limit too"
_COUNTS = "`num_replicas` of a role runs it several times; `matrix` makes several jobs"
_SCHEDULER = "`scheduler: local_docker` or `slurm` says where it runs"
_AFTER = "write it at the end of `run`, or with `trap` of the shell"
_VOLUMES = "name a volume where it is mounted: `{type: volume, src: data, dst: /data}`"
_ENV_FILE = "name each variable in `env`, secrets as `{secret: env:NAME}`"
_STAGES = "`needs: [NAME]` orders jobs; there are no stages"
_SUCCESS = "a job starts after all of its needs have succeeded: `needs: [NAME]` says so"
_FOLDERS = (
    "`workspace: src` is a folder that travels with the job, in which it runs; `cd src` in `run` another"
)
_FOLDER = "begin the script of `run` with `cd /src`"
_COMMANDS: Mapping[str, tuple[Word, ...]] = {
    "command": (
        Word("Compose, Kubernetes, Nomad", "python train.py", to.command),
        Word("Compose, Kubernetes, Nomad", ["python", "train.py"], to.command),
    ),
    "commands": (Word("dstack", ["pip install .", "python train.py"], to.script),),
    "cmd": (
        Word("Docker", "python train.py", to.command),
        Word("Docker", ["python", "train.py"], to.command),
    ),
    "script": (
        Word("GitLab", "make all", to.script),
        Word("GitLab", ["make", "make test"], to.script),
    ),
    "exec": (Word("Nomad", "python train.py", to.command), Word("", ["python", "train.py"], to.command)),
    "program": (Word("", "python", ("entrypoint",)),),
    "arguments": (Word("", ["-m", "train"], ("args",)),),
}
_ROLE: Mapping[str, tuple[Word, ...]] = {
    **_COMMANDS,
    "container": (Word("GitLab", "python:3.12", ("image",)),),
    "image_uri": (Word("Sagemaker", "python:3.12", ("image",)),),
    "docker_image": (Word("", "python:3.12", ("image",)),),
    "environment": (
        Word("Compose", {"A": "1"}, ("env",)),
        Word("Compose", ["A=1"], to.variables),
    ),
    "variables": (Word("GitLab", {"A": "1"}, ("env",)),),
    "env_vars": (Word("", {"A": "1"}, ("env",)),),
    "envs": (Word("SkyPilot", {"A": "1"}, ("env",)),),
    "replicas": (Word("Kubernetes", 2, ("num_replicas",)),),
    "instances": (Word("", 2, ("num_replicas",)),),
    "num_nodes": (Word("SkyPilot", 2, ("num_replicas",)),),
    "nodes": (Word("Slurm, dstack", 2, ("num_replicas",)),),
    "count": (Word("Nomad", 2, ("num_replicas",)),),
    "scale": (Word("Compose", 2, ("num_replicas",)),),
    "parallelism": (Word("Kubernetes", 2, ("num_replicas",)),),
    "completions": (Word("Kubernetes", 2, ("num_replicas",)),),
    "ntasks": (Word("Slurm", 2, ("num_replicas",)),),
    "retries": (Word("Argo, Airflow", 3, ("max_retries",)),),
    "retry": (Word("GitLab", 3, ("max_retries",)),),
    "backofflimit": (Word("Kubernetes", 3, ("max_retries",)),),
    "max_restarts": (Word("", 3, ("max_retries",)),),
    "deploy": (Word("Compose", {"replicas": 2}, to.replicas),),
    "restart": (Word("Compose", "on-failure:3", to.retries),),
    "restart_policy": (Word("Compose", {"condition": "any"}, _RESTARTS),),
    "restartpolicy": (Word("Kubernetes", "OnFailure", _RESTARTS),),
    "backoff": (Word("", "30s", ("retry_delay",)),),
    "resources": (Word("Kubernetes", {"limits": {"cpu": 2}}, to.resources),),
    "limits": (Word("Kubernetes", {"cpu": 2}, ("resource",)),),
    "cpus": (
        Word("Compose", 2, ("resource", "cpu")),
        Word("Compose", 0.5, ("resource", "cpu")),
    ),
    "cpus_per_task": (Word("Slurm", 4, ("resource", "cpu")),),
    "threads": (Word("Snakemake", 4, ("resource", "cpu")),),
    "gpus": (Word("Slurm", 1, ("resource", "gpu")),),
    "gpus_per_task": (Word("Slurm", 1, ("resource", "gpu")),),
    "accelerators": (Word("SkyPilot", "A100:2", partial(to.of_role, to.accelerators)),),
    "mem": (Word("Slurm", "4G", partial(to.of_role, to.memory)),),
    "mem_limit": (Word("Compose", "512m", ("resource", "memory")),),
    "mem_mb": (Word("Snakemake", 4096, ("resource", "memMB")),),
    "volumes": (Word("Compose", ["./data:/data"], to.mounts),),
    "volumemounts": (Word("Kubernetes", [{"name": "data", "mountPath": "/data"}], to.named_volumes),),
    "devices": (Word("Compose", ["/dev/fuse"], to.devices),),
    "tmpfs": (Word("Compose", "/tmp", _OPTIONS),),
    "shm_size": (Word("Compose", "1g", _OPTIONS),),
    "ulimits": (Word("Compose", {"nofile": 65536}, _OPTIONS),),
    "cap_add": (Word("Compose", ["SYS_PTRACE"], _OPTIONS),),
    "extra_hosts": (Word("Compose", ["db=10.0.0.1"], _OPTIONS),),
    "read_only": (Word("Compose", True, _OPTIONS),),
    "user": (Word("Compose", "1000:1000", _OPTIONS),),
    "ports": (
        Word("Compose", ["8080:80"], to.ports),
        Word("", {"web": 80}, ("port_map",)),
    ),
    "expose": (Word("Compose", ["80"], to.ports),),
    "healthcheck": (Word("Compose", {"test": "pg_isready", "interval": "5s"}, to.healthcheck),),
    "readinessprobe": (Word("Kubernetes", {"tcpSocket": {"port": 80}}, to.probe),),
    "readiness": (Word("", {"port": 80}, ("ready",)),),
    "after": (Word("", ["db"], ("depends_on",)),),
    "daemon": (Word("", True, ("service",)),),
    "sidecar": (Word("", True, ("service",)),),
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
    "cwd": (Word("", "/src", _FOLDER),),
    "chdir": (Word("Slurm", "/src", _FOLDER),),
    "workingdir": (Word("Kubernetes", "/src", _FOLDER),),
    "setup": (Word("SkyPilot", "pip install .", "write it at the start of `run`"),),
    "before_script": (Word("GitLab", ["pip install ."], "write it at the start of `run`"),),
    "after_script": (Word("GitLab", ["rm -r tmp"], _AFTER),),
    "steps": (Word("GitHub Actions", [{"run": "make"}], _NO_STEPS),),
    "labels": (Word("Compose", {"a": "b"}, ("metadata",)),),
    "annotations": (Word("Kubernetes", {"a": "b"}, ("metadata",)),),
    "sbatch": (Word("", {"time": "1:00:00"}, "options of a scheduler stand in `cfg` of the job"),),
}
_JOB: Mapping[str, tuple[Word, ...]] = {
    "services": (Word("Compose", {"main": {"entrypoint": "env"}}, ("roles",)),),
    "tasks": (Word("Nomad", {"main": {"entrypoint": "env"}}, ("roles",)),),
    "containers": (Word("Kubernetes", {"main": {"entrypoint": "env"}}, ("roles",)),),
    "parameters": (Word("Argo", {"lr": 1.5}, to.typed),),
    "variables": (Word("GitLab", {"lr": 1.5}, to.typed),),
    "profiles": (Word("Skaffold", {"dev": {"description": "x"}}, ("targets",)),),
    "environments": (Word("", {"dev": {"description": "x"}}, ("targets",)),),
    "overlays": (Word("", {"dev": {"description": "x"}}, ("targets",)),),
    "backend": (Word("", "slurm", to.scheduler),),
    "executor": (Word("Nextflow", "slurm", to.scheduler),),
    "engine": (Word("", "slurm", to.scheduler),),
    "runner": (Word("", "slurm", to.scheduler),),
    "dependencies": (Word("Argo", ["prepare"], ("needs",)),),
    "dependency": (Word("Slurm", "afterok:1", "`needs: [NAME]` names the jobs that must have succeeded"),),
    "after": (Word("", ["prepare"], ("needs",)),),
    "requires": (Word("CircleCI", ["prepare"], ("needs",)),),
    "sources": (Word("Task", ["*.py"], ("inputs",)),),
    "input_files": (Word("", ["*.py"], ("inputs",)),),
    "input": (Word("Snakemake", ["*.py"], ("inputs",)),),
    "outputs": (Word("", ["out.txt"], _OUTPUTS),),
    "artifacts": (Word("GitLab", {"paths": ["out"]}, _OUTPUTS),),
    "options": (Word("", {}, ("cfg",)),),
    "run_opts": (Word("TorchX", {}, ("cfg",)),),
    "walltime": (Word("PBS", "02:00:00", to.timeout),),
    "timeout_minutes": (Word("GitHub Actions", 30, partial(to.with_unit, "timeout", "m")),),
    "timeout_seconds": (Word("", 90, partial(to.with_unit, "timeout", "s")),),
    "activedeadlineseconds": (Word("Kubernetes", 90, partial(to.with_unit, "timeout", "s")),),
    "max_duration": (Word("dstack", "2h", to.timeout),),
    "time": (Word("Slurm", "1-02:30:00", to.clock),),
    "time_limit": (Word("", "2h", to.timeout),),
    "deadline": (Word("", "2h", ("timeout",)),),
    "partition": (Word("Slurm", "gpu", partial(to.for_slurm, "partition")),),
    "account": (Word("Slurm", "ml", partial(to.for_slurm, "account")),),
    "qos": (Word("Slurm", "high", partial(to.for_slurm, "qos")),),
    "constraint": (Word("Slurm", "a100", partial(to.for_slurm, "constraint")),),
    "strategy": (Word("GitHub Actions", {"matrix": {"n": [1, 2]}}, to.matrix),),
    "parallel": (Word("GitLab", 4, _COUNTS),),
    "array": (Word("Slurm", "0-9", to.array),),
    "concurrency": (Word("GitHub Actions", "main", _PARALLEL),),
    "on": (Word("GitHub Actions", "push", _BY_ITSELF),),
    "schedule": (Word("GitHub Actions, Kubernetes", "0 3 * * *", _BY_ITSELF),),
    "cron": (Word("cron", "0 3 * * *", _BY_ITSELF),),
    "if": (Word("GitHub Actions", "success()", _CONDITION),),
    "when": (Word("GitLab", "on_success", _CONDITION),),
    "rules": (Word("GitLab", [{"if": "x"}], _CONDITION),),
    "disabled": (Word("", True, lambda value: {"enabled": not value}),),
    "working_dir": (Word("", "/src", _FOLDERS),),
    "workdir": (Word("SkyPilot", "/src", _FOLDERS),),
    "cwd": (Word("", "/src", _FOLDERS),),
    "chdir": (Word("Slurm", "/src", _FOLDERS),),
    "runs_on": (Word("GitHub Actions", "ubuntu", _SCHEDULER),),
    "stage": (Word("GitLab", "test", _STAGES),),
    "stages": (Word("GitLab", ["test"], _STAGES),),
    "labels": (Word("Kubernetes", {"a": "b"}, ("metadata",)),),
    "tags": (Word("", {"a": "b"}, ("metadata",)),),
    "namespace": (Word("Kubernetes, Nomad", "ml", ("project",)),),
    "job_name": (Word("Slurm", "train", ("name",)),),
    "id": (Word("Nomad", "train", ("name",)),),
    "type": (Word("Nomad, dstack", "batch", _ONE_SHOT),),
    "steps": (Word("GitHub Actions", [{"run": "make"}], _NO_STEPS),),
    "secrets": (Word("Compose", {"a": {}}, _SECRETS),),
    "volumes": (Word("Compose", {"data": {}}, _VOLUMES),),
    "networks": (Word("Compose", {"front": {}}, _HOSTS),),
    "update": (Word("Nomad", {"max_parallel": 1}, _RULES),),
    "notify": (Word("", {"url": "https://example.com/hook"}, _RECEIVERS),),
    "notifications": (Word("Travis CI", {"webhooks": "https://example.com/hook"}, _RECEIVERS),),
    "webhook_notifications": (Word("Databricks", {"on_failure": [{"id": "a"}]}, _RECEIVERS),),
    "email_notifications": (Word("Databricks", {"on_failure": ["ada@example.com"]}, _RECEIVERS),),
    "mail_type": (Word("Slurm", "END", _RECEIVERS),),
    "on_failure_callback": (Word("Airflow", "notify", _RECEIVERS),),
}
_RESOURCE: Mapping[str, tuple[Word, ...]] = {
    "cpus": (Word("Compose", 2, ("cpu",)),),
    "cores": (Word("Nomad", 2, ("cpu",)),),
    "vcpus": (Word("", 2, ("cpu",)),),
    "gpus": (Word("SkyPilot", 1, ("gpu",)),),
    "mem": (Word("Slurm", "4G", to.memory),),
    "ram": (Word("", "4GiB", ("memory",)),),
    "mem_mb": (Word("Snakemake", 4096, ("memMB",)),),
    "memory_mb": (Word("", 4096, ("memMB",)),),
    "nvidia.com/gpu": (Word("Kubernetes", 1, ("gpu",)),),
    "accelerators": (Word("SkyPilot", "A100:2", to.accelerators),),
    "limits": (Word("Kubernetes", {"cpu": 2}, _AMOUNTS),),
    "requests": (Word("Kubernetes", {"cpu": 2}, _AMOUNTS),),
    "disk": (Word("SkyPilot", 100, "no scheduler is asked for disk space"),),
}
_MOUNT: Mapping[str, tuple[Word, ...]] = {
    "source": (Word("Compose, Docker", "/data", ("src",)),),
    "hostpath": (Word("Kubernetes", "/data", ("src",)),),
    "destination": (Word("Docker", "/data", ("dst",)),),
    "target": (Word("Compose, Docker", "/data", ("dst",)),),
    "mountpath": (Word("Kubernetes", "/data", ("dst",)),),
    "readonly": (Word("Docker, Kubernetes", True, ("read_only",)),),
    "ro": (Word("Docker", True, ("read_only",)),),
    "mode": (Word("", "rwm", ("permissions",)),),
    "perm": (Word("", "rwm", ("permissions",)),),
}
_READY: Mapping[str, tuple[Word, ...]] = {
    "interval": (Word("Compose", "5s", ("every",)),),
    "periodseconds": (Word("Kubernetes", 5, partial(to.with_unit, "every", "s")),),
    "timeoutseconds": (Word("Kubernetes", 60, partial(to.with_unit, "timeout", "s")),),
    "test": (Word("Compose", ["pg_isready"], ("command",)),),
    "exec": (Word("Kubernetes", ["pg_isready"], ("command",)),),
    "path": (Word("Kubernetes", "/healthz", ("http",)),),
    "tcp": (Word("Nomad", 80, ("port",)),),
}

_VARIABLE: Mapping[str, tuple[Word, ...]] = {
    "value": (Word("Argo", 1.5, ("default",)),),
    "description": (Word("GitLab", "learning rate", ("help",)),),
    "options": (Word("GitLab", [1.5, 2.5], ("choices",)),),
    "enum": (Word("JSON Schema", [1.5, 2.5], ("choices",)),),
    "minimum": (Word("JSON Schema", 1.5, ("min",)),),
    "maximum": (Word("JSON Schema", 2.5, ("max",)),),
    "env": (Word("", "LR", ("from_env",)),),
}

_NEED: Mapping[str, tuple[Word, ...]] = {
    "condition": (Word("Compose", "service_completed_successfully", _SUCCESS),),
    "optional": (Word("GitLab", True, "every job that `needs` names has to be there"),),
    "artifacts": (Word("GitLab", True, _OUTPUTS),),
}

WORDS: Mapping[str, Mapping[str, tuple[Word, ...]]] = {
    "job": _JOB,
    "role": _ROLE,
    "resource": _RESOURCE,
    "mount": _MOUNT,
    "ready": _READY,
    "variable": _VARIABLE,
    "need": _NEED,
}
"""Kind of mapping → word in lower case, with `_` for `-` → its meanings, by the type of their example."""


def kind_of(path: Path) -> str:
    """Return the kind of the mapping at a path of a job file; "" for a mapping that other tools lack."""
    if path[:1] in (("targets",), ("jobs",)):
        path = path[2:]
    match path:
        case ():
            return "job"
        case ("roles", _) | ("defaults", "role"):
            return "role"
        case ("roles", _, "resource" | "ready" as kind) | ("defaults", "role", "resource" | "ready" as kind):
            return kind
        case ("vars", _):
            return "variable"
        case ("needs", _):
            return "need"
        case (*_, "mounts", int()):
            return "mount"
    return ""


def word_for(path: Path, key: str, value: Any) -> Word | None:
    """Return the meaning of another tool's key in the mapping at `path`, for this value if possible."""
    meanings = WORDS.get(kind_of(path), {}).get(_plain(key), ())
    alike = (each for each in meanings if type(each.example) is type(value))
    return next(alike, meanings[0] if meanings else None)


def near_word_for(path: Path, key: str, value: Any) -> Word | None:
    """Return the result of `word_for` for a misspelt word."""
    near = spelt_alike(_plain(key), (*WORDS.get(kind_of(path), {}),))
    return word_for(path, near, value) if near else None


def meanings(key: str) -> Iterator[tuple[str, str, Any, Fields | str]]:
    """Yield all meanings of a word: kind of mapping, tools, example value, and our answer."""
    for kind, words in WORDS.items():
        for word in words.get(_plain(key), ()):
            yield kind, word.tools, word.example, word.reason or word.fields(word.example) or {}


def _plain(key: str) -> str:
    return key.lower().replace("-", "_")
