"""The language of job files as pydantic models. The JSON Schema is generated from them.

Strict types, closed mappings; what fields must agree on is checked elsewhere (`build`, `specs.check`).
`null` never reaches these models, so `None` as a default means only "not given".
"""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag

from launcher.jobfile.model.role import RoleSpec
from launcher.jobfile.model.types import (
    ADDRESS_PATTERN,
    MEMORY_PATTERN,
    SECRET_PATTERN,
    VAR_NAME,
    Attempts,
    Count,
    EnvName,
    Label,
    Model,
    Traits,
    address_of,
    form_tag,
    kind_tag,
    mapping_tag,
    memory_mib,
    model_classes,
    seconds,
    secret_of,
    switched,
    traits_of,
)
from launcher.specs.jobkey import DEFAULT_SCHEDULER
from launcher.text import DURATION_PATTERN

NEVER = Traits("never")


class _VarBase(Model):
    help: Annotated[str, Traits("never", after="choices")] = Field(
        "", description="What the variable is for.", examples=["passes over the data"]
    )
    from_env: Annotated[EnvName | None, Traits("never", after="type")] = Field(
        None,
        description="Environment variable that gives the value where --var does not.",
        examples=["HF_HOME"],
    )


_TYPE = "The type of the value."
_VALUE = "The value where none is given."
_LEAST = "The smallest value allowed."
_MOST = "The largest value allowed."
_ALLOWED = "The values allowed."


class IntVar(_VarBase):
    """A variable that is a whole number."""

    type: Annotated[Literal["int"], NEVER] = Field(description=_TYPE, examples=["int"])
    default: Annotated[int | None, NEVER] = Field(None, description=_VALUE, examples=[3])
    min: Annotated[int | None, NEVER] = Field(None, description=_LEAST, examples=[1])
    max: Annotated[int | None, NEVER] = Field(None, description=_MOST, examples=[100])
    choices: Annotated[list[int] | None, NEVER] = Field(None, description=_ALLOWED, examples=[[1, 2, 4]])


class FloatVar(_VarBase):
    """A variable that is a number."""

    type: Annotated[Literal["float"], NEVER] = Field(description=_TYPE, examples=["float"])
    default: Annotated[float | None, NEVER] = Field(None, description=_VALUE, examples=[0.1])
    min: Annotated[float | None, NEVER] = Field(None, description=_LEAST, examples=[0.0])
    max: Annotated[float | None, NEVER] = Field(None, description=_MOST, examples=[1.0])
    choices: Annotated[list[float] | None, NEVER] = Field(None, description=_ALLOWED, examples=[[0.1, 0.01]])


class StrVar(_VarBase):
    """A variable that is text."""

    type: Annotated[Literal["str"], NEVER] = Field(description=_TYPE, examples=["str"])
    default: Annotated[str | None, NEVER] = Field(None, description=_VALUE, examples=["fp32"])
    choices: Annotated[list[str] | None, NEVER] = Field(
        None, description=_ALLOWED, examples=[["fp32", "bf16"]]
    )


class BoolVar(_VarBase):
    """A variable that is true or false."""

    type: Annotated[Literal["bool"], NEVER] = Field(description=_TYPE, examples=["bool"])
    default: Annotated[bool | None, NEVER] = Field(None, description=_VALUE, examples=[False])


Var = Annotated[
    Annotated[IntVar, Tag("<int>")]
    | Annotated[FloatVar, Tag("<float>")]
    | Annotated[StrVar, Tag("<str>")]
    | Annotated[BoolVar, Tag("<bool>")],
    Discriminator(kind_tag),
]
Vars = dict[Annotated[str, Field(pattern=VAR_NAME)], Var]


class Declarations(Model):
    """The variables of a file alone: their values are needed before the other fields can be validated."""

    vars: Vars


class FilesTrigger(Model):
    """Files whose contents run finished work again."""

    files: list[Annotated[str, Field(min_length=1)]] = Field(
        min_length=1,
        description="Globs, relative to the job file; `**` is any number of folders.",
        examples=[["data/*.csv"]],
    )


TriggerItem = Annotated[
    Annotated[FilesTrigger, Tag("<mapping>")] | Annotated[Literal["every_apply"], Tag("<text>")],
    Discriminator(mapping_tag),
]


WorkspaceSpec = Annotated[
    Annotated[dict[Annotated[str, Field(min_length=1)], str], Field(min_length=1), Tag("<mapping>")]
    | Annotated[str, Field(min_length=1), Tag("<text>")],
    Discriminator(form_tag),
]


ON_NEW_RUN = {"never": "Only the order counts: a new run of the other job does not run this one again."}


class NeedSpec(Model):
    """A need: another job must have succeeded before this one starts."""

    rerun: Annotated[Literal["never"] | None, Traits(choices=ON_NEW_RUN)] = Field(
        None,
        description="Whether a new run of the other job runs this one again. It does, unless set to `never`.",
        examples=["never"],
    )


Needs = Annotated[
    Annotated[dict[str, NeedSpec | None], Tag("<mapping>")] | Annotated[list[str], Tag("<list>")],
    Discriminator(form_tag),
]


OnEnd = Literal["hold", "rerun"]
_HOLD = {"hold": "Do nothing until a user decides."}
QUEUE = {"on": "Wait in line for a share of the machine.", "off": "Take it at once."}
ON_CHANGE = {"replace": "Stop what runs, then start what the file now says.", **_HOLD}
ON_EDIT = {"note": "Keep it, and say which files differ.", "rerun": "Run it again."}
ON_END = {**_HOLD, "rerun": "Run it again, at most `max_attempts` times."}


class LifecycleSpec(Model):
    """The policies for attempts of this job: what stops, restarts and protects them."""

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
        default_factory=list,
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
    name: Annotated[Label, Traits("matrix", job_names=True)] = Field(
        description="The job's identity within its project. With a `matrix` it may hold its values,"
        " `train-$<matrix.lr>`, and `matrix.group` names all of the jobs.",
        examples=["mnist"],
    )
    description: str = Field("", description="What the job does.", examples=["Train MNIST on two replicas."])
    project: Label | None = Field(
        None, description="The project; else from launcher.toml, else `default`.", examples=["vision"]
    )
    extends: Annotated[str | None, Traits("never")] = Field(
        None,
        min_length=1,
        description="A job file whose fields this one has where it does not say otherwise; relative to this"
        " file, and below the repository.",
        examples=["../base.launcher.yaml"],
    )
    abstract: Annotated[bool, Traits("never")] = Field(
        False, description="Where true, the file is no job, only a parent of others.", examples=[True]
    )
    remove: Annotated[list[str], Traits("never")] = Field(
        default_factory=list,
        description="Fields of launcher.toml, of parents and of `defaults` that this one is without.",
        examples=[["timeout", "roles.main.env.NAME"]],
    )
    vars: Annotated[Vars, Traits("never")] = Field(
        default_factory=dict,
        description="Typed inputs, given with --var.",
        examples=[{"epochs": {"type": "int"}}],
    )
    needs: Annotated[Needs, Traits(nulls=True, job_names=True)] = Field(
        default_factory=dict,
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
    inputs: Annotated[list[Annotated[str, Field(min_length=1)]], Traits(after="workspace")] = Field(
        default_factory=list,
        description="Files that its result depends on, below the repository: paths and globs, relative to the"
        " job file; `**` is any number of folders. A change of their content runs the job again.",
        examples=[["train.py", "conf/**/*.yaml"]],
    )
    cfg: Annotated[dict[str, Any], Traits("bound", nulls=True)] = Field(
        default_factory=dict, description="Options of the scheduler.", examples=[{"log_dir": "logs"}]
    )
    component: str | None = Field(
        None,
        min_length=1,
        description="Makes the roles, in place of `roles`: a name, or file.py:function beside the job file.",
        examples=["dist.ddp"],
    )
    args: Annotated[dict[str, Any], Traits("run", nulls=True)] = Field(
        default_factory=dict,
        description="Arguments of the component by name, each of its type.",
        examples=[{"script": "train.py", "j": "1x2"}],
    )
    roles: dict[Label, RoleSpec] = Field(
        min_length=1,
        description="What runs, by name and in this order.",
        examples=[{"main": {"entrypoint": "env"}}],
    )
    metadata: Annotated[dict[str, str], Traits("bound", as_written=True)] = Field(
        default_factory=dict, description="For people and tools.", examples=[{"team": "vision"}]
    )
    output: bool = Field(
        False,
        description="Where true, the job has an output folder, and the variable LAUNCHER_OUTPUT_DIR, on every"
        " engine. Without it, one has it where its roles speak of one, and a local job always.",
        examples=[True],
    )
    timeout: Annotated[int, BeforeValidator(seconds)] | None = Field(
        None,
        description="The whole app fails past it: 90s, 1h30m, 1.5h; a bare number is seconds.",
        examples=["2h"],
        json_schema_extra={"type": ["string", "integer"], "minimum": 1, "pattern": DURATION_PATTERN},
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
        default_factory=dict,
        description="What every role has that does not say otherwise.",
        examples=[{"role": {"image": "python:3.12-slim"}}],
    )
    matrix: dict[str, Any] = Field(
        default_factory=dict,
        description="One job for each combination of these axes, with `$<matrix.AXIS>` for its values."
        " `exclude` leaves combinations out, `include` adds some, or further values.",
        examples=[{"lr": [0.1, 0.01], "seed": {"range": [0, 4]}}],
    )
    max_parallel: Attempts | None = Field(
        None, description="How many jobs of the matrix run at once, at most.", examples=[4]
    )
    targets: dict[str, Any] = Field(
        default_factory=dict,
        description="Overlays by name, chosen with --target: maps merge, all else replaces, null removes."
        " A list names those of parents and of launcher.toml.",
        examples=[{"dev": {"scheduler": "local_cwd"}}],
    )
    jobs: dict[str, Any] = Field(
        default_factory=dict,
        description="Several jobs in one file, by name. `project`, `vars`, `defaults`, `targets`, `scheduler`"
        " and `timeout` beside it are for all of them.",
        examples=[{"train": {"roles": {"main": {"entrypoint": "env"}}}}],
    )


_SHARED = ("project", "vars", "defaults", "targets", "scheduler", "timeout")
BESIDE_JOBS = ("version", "extends", "remove", *_SHARED)
"""Fields that a file with `jobs` may have at its top: they lie under each job."""


class ComponentJob(JobFile):
    """One job whose roles a component makes."""

    roles: dict[Label, RoleSpec] = Field(default_factory=dict, description="Made by the component.")


class QueueSpec(Model):
    """`[queue]` of launcher.toml: the share of a machine that the jobs of a project take together."""

    cpu: Annotated[float, Field(gt=0, le=100_000)] | None = Field(None, description="Cores.", examples=[8])
    memory: Annotated[int, BeforeValidator(lambda text: memory_mib(text, other=""))] | None = Field(
        None,
        description="Memory with its unit.",
        examples=["32GiB"],
        json_schema_extra={"type": "string", "pattern": MEMORY_PATTERN},
    )
    gpus: Count | None = Field(None, description="GPUs.", examples=[2])
    max_parallel: Attempts | None = Field(None, description="A number of jobs.", examples=[4])


Hours = Annotated[float, Field(ge=0, le=1_000_000_000)]


class BudgetSpec(Model):
    """`[budget]` of launcher.toml, and its tables of targets: the most that the jobs of one plan may take."""

    gpu_hours: Hours | None = Field(None, description="GPUs times hours.", examples=[100])
    core_hours: Hours | None = Field(None, description="Cores times hours.", examples=[2000])


Outcome = Literal["succeeded", "failed", "cancelled", "skipped", "lost"]
OUTCOMES = {
    "succeeded": "All of its replicas have ended with 0.",
    "failed": "A replica has failed, after its restarts.",
    "cancelled": "A user stopped it.",
    "skipped": "It never started, since a job that it needs did not succeed, or a plan withdrew it.",
    "lost": "The process that held it died, and left no outcome.",
}


class NotifySpec(Model):
    """`[notify]` of launcher.toml: the receivers of the outcomes of attempts."""

    url: Annotated[str, AfterValidator(address_of)] | None = Field(
        None,
        description="An http or https URL that gets them, or the reference `env:NAME` or `file:PATH` of one.",
        examples=["https://example.com/hook"],
        json_schema_extra={"pattern": ADDRESS_PATTERN},
    )
    secret: Annotated[str, AfterValidator(secret_of)] | None = Field(
        None,
        description="The reference of the key that signs them, which begins with `whsec_`.",
        examples=["env:HOOK_KEY"],
        json_schema_extra={"pattern": SECRET_PATTERN},
    )
    command: Annotated[list[Annotated[str, Field(min_length=1)]], Field(min_length=1)] | None = Field(
        None,
        description="A program and its arguments, which gets them on its standard input.",
        examples=[["page", "--urgent"]],
    )
    on: Annotated[list[Outcome] | None, Field(min_length=1), Traits(choices=OUTCOMES)] = Field(
        None, description="The outcomes that are sent; all where it is absent.", examples=[["failed", "lost"]]
    )


def choices() -> dict[str, str]:
    """Return the meaning of each value of the fields that take one of a few."""
    fields = (info for model in model_classes() for info in model.model_fields.values())
    return {value: text for info in fields for value, text in traits_of(info).choices.items()}
