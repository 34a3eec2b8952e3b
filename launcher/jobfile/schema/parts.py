"""The mappings of a job file in the order of reference pages: title, place and model of each."""

from __future__ import annotations

from launcher.jobfile.model import job_file as model
from launcher.jobfile.model import role as model_role
from launcher.jobfile.model.base import Model

PARTS: tuple[tuple[str, str, type[Model]], ...] = (
    ("A job", "The top of the file.", model.JobFile),
    (
        "A need",
        "A value in `needs:`, where it is no list. In the name of a job, `train-$<matrix.lr>`, values of\n"
        "a matrix and numbers read as in the names that a matrix makes: `train-0p1`. Text reads as it is.",
        model.NeedSpec,
    ),
    ("A role", "`roles:` has one mapping for each, by name.", model_role.RoleSpec),
    ("Probes", "`ready:` of a role.", model_role.ProbeSpec),
    ("Resources", "`resource:` of a role, where it is no name of a resource.", model_role.Resources),
    ("Bind mounts", "An item of `mounts:`.", model_role.BindMount),
    ("Volume mounts", "An item of `mounts:`.", model_role.VolumeMount),
    ("Device mounts", "An item of `mounts:`.", model_role.DeviceMount),
    ("Secrets", "A value in `env:`.", model_role.SecretRef),
    ("Lifecycle", "`lifecycle:` of a job.", model.LifecycleSpec),
    ("Triggers", "An item of `lifecycle.rerun_on`.", model.FilesTrigger),
    ("Variables: whole numbers", "A value in `vars:`.", model.IntVar),
    ("Variables: numbers", "A value in `vars:`.", model.FloatVar),
    ("Variables: text", "A value in `vars:`.", model.StrVar),
    ("Variables: truth values", "A value in `vars:`.", model.BoolVar),
)
