"""The language of job files as pydantic models. The JSON Schema is generated from them.

Strict types, closed mappings; what fields must agree on is checked elsewhere (`build`, `specs.check`).
`null` never reaches these models, so `None` as a default means only "not given".
"""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag

from launcher.jobfile.model.base import (
    Attempts,
    Count,
    EnvName,
    Label,
    MiB,
    Model,
    Port,
    Replicas,
    Traits,
    kind_tag,
    model_classes,
    traits_of,
)
from launcher.jobfile.model.quantities import (
    MEMORY_PATTERN,
    PROBE_TIME,
    SECRET_PATTERN,
    interval,
    memory_mib,
    memory_of_project,
    mount_of,
    pause,
    seconds,
    secret_of,
    switched,
)
from launcher.jobfile.model.variables import Vars
from launcher.specs.app import LONGEST_DELAY_S
from launcher.specs.jobkey import DEFAULT_SCHEDULER
from launcher.specs.probe import EVERY_S, TIMEOUT_S
from launcher.text import DURATION_PATTERN


class Resources(Model):
    """What one replica needs; a part left out is left to the scheduler."""

    cpu: Annotated[Annotated[float, Field(gt=0, le=100_000)] | None, Traits(foreign=("cpus",))] = Field(
        None, description="Cores; may be a fraction.", examples=[2]
    )
    gpu: Annotated[Count | None, Traits(foreign=("gpus",))] = Field(None, description="GPUs.", examples=[1])
    memory: Annotated[Annotated[int, BeforeValidator(memory_mib)] | None, Traits(foreign=("mem",))] = Field(
        None,
        description="Memory with its unit: 512MiB, 4GiB, 4Gi, 4g; GB counts in thousands.",
        examples=["4GiB"],
        json_schema_extra={"type": "string", "pattern": MEMORY_PATTERN},
    )
    memMB: MiB | None = Field(None, description="Memory in MiB; instead of `memory`.", examples=[4096])
    devices: dict[str, Count] = Field({}, description="Special devices by name.", examples=[{"vpc/efa": 4}])
    capabilities: dict[str, Any] = Field(
        {}, description="What the machine must be.", examples=[{"zone": "a"}]
    )
    tags: dict[str, Any] = Field({}, description="For other tools.", examples=[{"team": "vision"}])


MOUNT_SOURCE = Traits("run", foreign=("source",))
MOUNT_DESTINATION = Traits("bound", foreign=("destination", "target"))


class BindMount(Model):
    """A file or folder of the host."""

    type: Literal["bind"] = Field(description="A file or folder of the host.", examples=["bind"])
    src: Annotated[str, MOUNT_SOURCE] = Field(
        min_length=1,
        description="Path, relative to the job file; `~` is the home folder.",
        examples=["./data"],
    )
    dst: Annotated[str, MOUNT_DESTINATION] = Field(
        min_length=1, description="Path in the container.", examples=["/data"]
    )
    read_only: Annotated[bool, Traits(foreign=("readonly", "ro"))] = Field(
        False, description="Replicas cannot write to it.", examples=[True]
    )


class VolumeMount(Model):
    """A named volume of the engine."""

    type: Literal["volume"] = Field(description="A named volume of the engine.", examples=["volume"])
    src: Annotated[str, MOUNT_SOURCE] = Field(
        min_length=1, description="Name of the volume.", examples=["cache"]
    )
    dst: Annotated[str, MOUNT_DESTINATION] = Field(
        min_length=1, description="Path in the container.", examples=["/cache"]
    )
    read_only: Annotated[bool, Traits(foreign=("readonly", "ro"))] = Field(
        False, description="Replicas cannot write to it.", examples=[True]
    )


class DeviceMount(Model):
    """A device of the host."""

    type: Literal["device"] = Field(description="A device of the host.", examples=["device"])
    src: Annotated[str, MOUNT_SOURCE] = Field(
        min_length=1, description="Path of the device.", examples=["/dev/fuse"]
    )
    dst: Annotated[str | None, MOUNT_DESTINATION] = Field(
        None, min_length=1, description="Path in the container; `src` if left out.", examples=["/dev/fuse"]
    )
    permissions: Annotated[str, Traits(foreign=("mode", "perm"))] = Field(
        "rwm", pattern=r"^[rwm]+$", description="Of r(ead), w(rite), m(knod).", examples=["rwm"]
    )


MountItem = Annotated[
    Annotated[BindMount, Tag("<bind>")]
    | Annotated[VolumeMount, Tag("<volume>")]
    | Annotated[DeviceMount, Tag("<device>")]
    | Annotated[str, AfterValidator(mount_of), Tag("<text>")],
    Discriminator(kind_tag),
]


class SecretRef(Model):
    """A reference to the value of a secret variable."""

    secret: Annotated[Annotated[str, AfterValidator(secret_of)], Traits("bound")] = Field(
        description="Where it is, `env:NAME` or `file:PATH`; read while submitting, written nowhere.",
        examples=["env:WANDB_API_KEY"],
        json_schema_extra={"pattern": SECRET_PATTERN},
    )


class FilesTrigger(Model):
    """Files whose contents run finished work again."""

    files: list[Annotated[str, Field(min_length=1)]] = Field(
        min_length=1,
        description="Globs, relative to the job file; `**` is any number of folders.",
        examples=[["data/*.csv"]],
    )


def _is_mapping_tag(value: Any) -> str:
    return "<mapping>" if isinstance(value, dict) else "<text>"


EnvValue = Annotated[
    Annotated[SecretRef, Tag("<mapping>")] | Annotated[str, Tag("<text>")], Discriminator(_is_mapping_tag)
]
TriggerItem = Annotated[
    Annotated[FilesTrigger, Tag("<mapping>")] | Annotated[Literal["every_apply"], Tag("<text>")],
    Discriminator(_is_mapping_tag),
]


def _text_or_mapping(value: Any) -> str | None:
    return "<text>" if isinstance(value, str) else "<mapping>" if isinstance(value, dict) else None


ResourceSpec = Annotated[
    Annotated[Resources, Tag("<mapping>")] | Annotated[str, Tag("<text>")], Discriminator(_text_or_mapping)
]


WorkspaceSpec = Annotated[
    Annotated[dict[Annotated[str, Field(min_length=1)], str], Field(min_length=1), Tag("<mapping>")]
    | Annotated[str, Field(min_length=1), Tag("<text>")],
    Discriminator(_text_or_mapping),
]


class ProbeSpec(Model):
    """How to see that a replica is ready: `port`, `http` with `port`, `file` or `command`."""

    port: Port | None = Field(None, description="Something listens on this port.", examples=[6379])
    http: Annotated[str, Field(pattern=r"^/")] | None = Field(
        None, description="Path that answers a plain GET on `port` with 2xx or 3xx.", examples=["/health"]
    )
    file: str | None = Field(
        None,
        min_length=1,
        description="File in the working directory, made or written since the replica was started.",
        examples=["ready.txt"],
    )
    command: Annotated[list[str], Traits(as_written=True)] = Field(
        [],
        description="Command that ends with 0; runs where the replica runs.",
        examples=[["pg_isready"]],
    )
    every: Annotated[float, BeforeValidator(interval)] = Field(
        EVERY_S,
        description="Time between two probes; the first ones follow faster.",
        examples=["2s"],
        json_schema_extra=PROBE_TIME,
    )
    timeout: Annotated[float, BeforeValidator(interval)] = Field(
        TIMEOUT_S,
        description="Time from the start of the replica; then it has failed.",
        examples=["5m"],
        json_schema_extra=PROBE_TIME,
    )


WAITS_FOR = {
    "started": "All of its replicas were started.",
    "ready": "All of its replicas are ready, by its probe.",
    "succeeded": "All of its replicas have ended with 0.",
}


def _list_or_mapping(value: Any) -> str | None:
    return "<list>" if isinstance(value, list) else "<mapping>" if isinstance(value, dict) else None


ON_NEW_RUN = {"never": "Only the order counts: a new run of the other job does not run this one again."}


class NeedSpec(Model):
    """How a job depends on another one that must have succeeded before it starts."""

    rerun: Annotated[Literal["never"] | None, Traits(choices=ON_NEW_RUN)] = Field(
        None,
        description="Whether a new run of the other job runs this one again. It does, unless set to `never`.",
        examples=["never"],
    )


Needs = Annotated[
    Annotated[dict[str, NeedSpec | None], Tag("<mapping>")] | Annotated[list[str], Tag("<list>")],
    Discriminator(_list_or_mapping),
]


DependsOn = Annotated[
    Annotated[dict[Label, Literal["started", "ready", "succeeded"]], Tag("<mapping>")]
    | Annotated[list[str], Tag("<list>")],
    Discriminator(_list_or_mapping),
]


RETRY = {
    "application": "Every replica of the job is stopped and started again.",
    "replica": "Only the replica that failed is started again.",
    "role": "The replicas of its role are stopped and started again.",
}
SHELLS = {
    "sh": "Runs `sh -euc`: ends at the first command that fails, and at an unset variable.",
    "bash": "Runs `bash -euo pipefail -c`: as `sh`, and a pipeline fails with any of its commands.",
}


class RoleSpec(Model):
    """One kind of replica: processes or containers with one command line."""

    image: Annotated[str, Traits("bound", foreign=("container",))] = Field(
        "", description="Container image, or the folder for `local_dir`.", examples=["python:3.12-slim"]
    )
    entrypoint: Annotated[
        str | None, Traits("run", as_written=True, foreign=("cmd", "command", "program"))
    ] = Field(None, min_length=1, description="The program to run.", examples=["python"])
    args: Annotated[list[str], Traits("run", as_written=True, foreign=("arguments",))] = Field(
        [], description="Its arguments; numbers are taken as written.", examples=[["-m", "train"]]
    )
    run: Annotated[str | None, Traits("run", as_written=True, foreign=("script",))] = Field(
        None,
        min_length=1,
        description="A script for a shell, in place of `entrypoint` and `args`.",
        examples=["./prepare.sh && ./train.sh --lr 0.1"],
    )
    shell: Annotated[Literal["sh", "bash"], Traits(choices=SHELLS)] = Field(
        "sh", description="The shell of `run`.", examples=["bash"]
    )
    env: Annotated[dict[EnvName, EnvValue], Traits("run", as_written=True, foreign=("environment",))] = Field(
        {},
        description="Environment variables; numbers are taken as written, `{secret: …}` is read elsewhere.",
        examples=[{"OMP_NUM_THREADS": "4"}],
    )
    num_replicas: Annotated[Replicas, Traits(foreign=("instances", "replicas"))] = Field(
        1, description="How many replicas run.", examples=[2]
    )
    min_replicas: Count | None = Field(None, description="Minimum number of replicas to start.", examples=[1])
    max_retries: Annotated[Count, Traits(foreign=("retries",))] = Field(
        0, description="How often a failure is followed by a restart.", examples=[2]
    )
    retry_policy: Annotated[
        Literal["application", "replica", "role"], Traits(foreign=("restart_policy",), choices=RETRY)
    ] = Field("application", description="What restarts when a replica fails.", examples=["replica"])
    retry_delay: Annotated[Annotated[int, BeforeValidator(pause)], Traits(foreign=("backoff",))] = Field(
        0,
        description="Pause before the first restart; doubled before each further one, up to 5 minutes.",
        examples=["2s"],
        json_schema_extra={
            "type": ["string", "integer"],
            "minimum": 0,
            "maximum": LONGEST_DELAY_S,
            "pattern": DURATION_PATTERN,
        },
    )
    service: Annotated[bool, Traits(foreign=("daemon", "sidecar"))] = Field(
        False,
        description="It serves the other roles, and is stopped when all of these have ended with 0.",
        examples=[True],
    )
    ready: Annotated[ProbeSpec | None, Traits(foreign=("healthcheck", "readiness"))] = Field(
        None, description="When a replica is ready for the roles that wait for it.", examples=[{"port": 6379}]
    )
    depends_on: Annotated[DependsOn, Traits(foreign=("needs", "after"), choices=WAITS_FOR)] = Field(
        {},
        description="Roles that it waits for, until they are `ready` where they have a probe, else `started`;"
        " or each with its condition.",
        examples=[["server"]],
    )
    resource: Annotated[ResourceSpec | None, Traits(foreign=("resources",))] = Field(
        None, description="What one replica needs: its parts, or a named resource.", examples=["gpu.small"]
    )
    port_map: Annotated[dict[str, Port], Traits(foreign=("ports",))] = Field(
        {}, description="Ports by name.", examples=[{"tcp_store": 29500}]
    )
    mounts: Annotated[list[MountItem], Traits("run", foreign=("devices", "volumes"))] = Field(
        [], description="Folders, volumes and devices.", examples=[["type=bind,src=./data,dst=/data"]]
    )
    metadata: Annotated[dict[str, Any], Traits("run")] = Field(
        {}, description="For schedulers and people.", examples=[{"tier": "gold"}]
    )


OnEnd = Literal["hold", "rerun"]
_HOLD = {"hold": "Do nothing until a user decides."}
QUEUE = {"on": "Wait in line for a share of the machine.", "off": "Take it at once."}
ON_CHANGE = {"replace": "Stop what runs, then start what the file now says.", **_HOLD}
ON_EDIT = {"note": "Keep it, and say which files differ.", "rerun": "Run it again."}
ON_END = {**_HOLD, "rerun": "Run it again, at most `max_attempts` times."}


class LifecycleSpec(Model):
    """What happens to attempts of this job."""

    on_change: Annotated[Literal["replace", "hold"] | None, Traits(choices=ON_CHANGE)] = Field(
        None,
        description="After a change of the file: stop a running attempt and start anew, or hold.",
        examples=["replace"],
    )
    on_failed: Annotated[OnEnd, Traits(choices=ON_END)] = Field(
        "hold", description="After a failure.", examples=["rerun"]
    )
    on_cancelled: Annotated[OnEnd, Traits(choices=ON_END)] = Field(
        "hold", description="After a cancel.", examples=["hold"]
    )
    on_lost: Annotated[OnEnd, Traits(choices=ON_END)] = Field(
        "hold", description="After its supervisor or containers are gone.", examples=["rerun"]
    )
    max_attempts: Attempts | None = Field(
        None, description="Bounds automatic re-runs of one content of the file.", examples=[3]
    )
    protect: bool = Field(
        False, description="A running attempt is never stopped by an apply.", examples=[True]
    )
    rerun_on: list[TriggerItem] = Field(
        [],
        description="What runs finished work again: `every_apply`, or changed files.",
        examples=[[{"files": ["data/*.csv"]}]],
    )
    on_edit: Annotated[Literal["note", "rerun"], Traits(choices=ON_EDIT)] = Field(
        "note",
        description="After an edit of files of the checkout that a local job names or imports: say so, or run"
        " finished work again.",
        examples=["rerun"],
    )
    queue: Annotated[Annotated[bool, BeforeValidator(switched)], Traits(choices=QUEUE)] = Field(
        True,
        description="Whether it waits in line for the cores, memory and GPUs that its roles ask for; `off`"
        " takes them at once, also where others have them.",
        examples=["off"],
    )


class JobFile(Model):
    """One job."""

    version: Annotated[Literal[1], Traits("never")] = Field(
        description="Version of the job file language.", examples=[1]
    )
    name: Annotated[Label, Traits("never")] = Field(
        description="The job's identity within its project.", examples=["mnist"]
    )
    description: str = Field("", description="What the job does.", examples=["Train MNIST on two replicas."])
    project: Label | None = Field(
        None, description="The project; else from launcher.toml, else `default`.", examples=["vision"]
    )
    vars: Annotated[Vars, Traits("never", foreign=("parameters", "variables"))] = Field(
        {}, description="Typed inputs, given with --var.", examples=[{"epochs": {"type": "int"}}]
    )
    needs: Annotated[
        Needs, Traits(nulls=True, job_names=True, foreign=("after", "depends_on", "dependencies", "requires"))
    ] = Field(
        {},
        description="Jobs of the same project and target that must have succeeded before this one starts: a"
        " list, or each with its options. The name of a matrix means all of its jobs.",
        examples=[["prepare"]],
    )
    scheduler: str = Field(
        DEFAULT_SCHEDULER, min_length=1, description="Where the job runs.", examples=["local_cwd"]
    )
    workspace: Annotated[WorkspaceSpec | None, Traits(after="cfg")] = Field(
        None,
        description="Files that travel with the job: a folder, relative to the job file; or several folders"
        " and files, each with the folder of the workspace that it goes into.",
        examples=["."],
    )
    inputs: Annotated[
        list[Annotated[str, Field(min_length=1)]],
        Traits(after="workspace", foreign=("sources", "input_files")),
    ] = Field(
        [],
        description="Files that its result depends on, below the repository: paths and globs, relative to the"
        " job file; `**` is any number of folders. A change of their content runs the job again.",
        examples=[["train.py", "conf/**/*.yaml"]],
    )
    cfg: Annotated[dict[str, Any], Traits("bound", nulls=True, foreign=("options", "run_opts"))] = Field(
        {}, description="Options of the scheduler.", examples=[{"log_dir": "logs"}]
    )
    component: str | None = Field(
        None,
        min_length=1,
        description="Makes the roles, in place of `roles`: a name, or file.py:function beside the job file.",
        examples=["dist.ddp"],
    )
    args: Annotated[dict[str, Any], Traits("run", nulls=True)] = Field(
        {},
        description="Arguments of the component by name, each of its type.",
        examples=[{"script": "train.py", "j": "1x2"}],
    )
    roles: Annotated[dict[Label, RoleSpec], Traits(foreign=("services", "tasks"))] = Field(
        min_length=1,
        description="What runs, by name and in this order.",
        examples=[{"main": {"entrypoint": "env"}}],
    )
    metadata: Annotated[dict[str, str], Traits("bound", as_written=True)] = Field(
        {}, description="For people and tools.", examples=[{"team": "vision"}]
    )
    output: bool = Field(
        False,
        description="Where true, the job has an output folder, and the variable LAUNCHER_OUTPUT_DIR, on every"
        " engine. Without it, one has it where its roles speak of one, and a local job always.",
        examples=[True],
    )
    timeout: Annotated[Annotated[int, BeforeValidator(seconds)] | None, Traits(foreign=("walltime",))] = (
        Field(
            None,
            description="The whole app fails past it: 90s, 1h30m, 1.5h; a bare number is seconds.",
            examples=["2h"],
            json_schema_extra={"type": ["string", "integer"], "minimum": 1, "pattern": DURATION_PATTERN},
        )
    )
    lifecycle: LifecycleSpec = Field(
        default_factory=LifecycleSpec,
        description="What happens to attempts of this job.",
        examples=[{"on_failed": "rerun"}],
    )
    enabled: bool = Field(
        True, description="Where false, the job does not run, and stops if it does.", examples=[False]
    )
    defaults: dict[str, Any] = Field(
        {},
        description="What every role has that does not say otherwise.",
        examples=[{"role": {"image": "python:3.12-slim"}}],
    )
    matrix: dict[str, Any] = Field(
        {},
        description="One job for each combination of these axes, with `$<matrix.AXIS>` for its values.",
        examples=[{"lr": [0.1, 0.01], "seed": {"range": [0, 4]}}],
    )
    max_parallel: Attempts | None = Field(
        None, description="How many jobs of the matrix run at once, at most.", examples=[4]
    )
    targets: dict[str, Any] = Field(
        {},
        description="Overlays by name, chosen with --target: maps merge, all else replaces, null removes.",
        examples=[{"dev": {"scheduler": "local_cwd"}}],
    )


class ComponentJob(JobFile):
    """One job whose roles a component makes."""

    roles: dict[Label, RoleSpec] = Field({}, description="Made by the component.")


class QueueSpec(Model):
    """`[queue]` of launcher.toml: how much of a machine the jobs of a project take together."""

    cpu: Annotated[float, Field(gt=0, le=100_000)] | None = Field(None, description="Cores.", examples=[8])
    memory: Annotated[int, BeforeValidator(memory_of_project)] | None = Field(
        None,
        description="Memory with its unit.",
        examples=["32GiB"],
    )
    gpus: Count | None = Field(None, description="GPUs.", examples=[2])
    max_parallel: Attempts | None = Field(None, description="A number of jobs.", examples=[4])


def _all_traits() -> Iterator[tuple[str, Traits]]:
    for model in model_classes():
        for name, info in model.model_fields.items():
            yield name, traits_of(info)


def foreign_names() -> Iterator[tuple[str, str]]:
    """What other tools call a field, and the field. One word may stand for fields of several mappings."""
    for name, traits in _all_traits():
        for foreign in traits.foreign:
            yield foreign, name


def choices() -> dict[str, str]:
    """What the values of fields mean that take one of a few."""
    return {value: text for _, traits in _all_traits() for value, text in traits.choices.items()}
