"""Codes about keys: there, missing, known."""

from __future__ import annotations

from launcher.jobfile.diagnostics.explain.example import in_yaml

_ROLE = "version: 1\nname: train\nroles:\n  main:\n    entrypoint: env\n"

EXPLANATIONS = (
    in_yaml(
        "unknown-field",
        "The mapping has no such key. Unknown keys are errors, because a misspelt one would otherwise change "
        "nothing, without an error. The message names the nearest field, or the mapping that has it: "
        "then the indentation is off. Keys that begin with `x-` are free, for anchors and notes.",
        _ROLE + "    num_replica: 2\n",
        _ROLE + "    num_replicas: 2\n    x-note: one for each half of the data\n",
    ),
    in_yaml(
        "missing-field",
        "A job needs `version`, `name` and `roles`; a role needs "
        "`entrypoint`; a mount needs its type, where it comes from and where it goes.",
        "version: 1\nname: train\nroles:\n  main:\n    args: [-m, train]\n",
        "version: 1\nname: train\nroles:\n  main:\n    entrypoint: python\n    args: [-m, train]\n",
    ),
    in_yaml(
        "conflicting-fields",
        "Two fields say the same thing in different ways, and nothing tells which one counts. Keep one.",
        _ROLE + "    resource: {memory: 4GiB, memMB: 4096}\n",
        _ROLE + "    resource: {memory: 4GiB}\n",
    ),
    in_yaml(
        "unknown-option",
        "The scheduler of the job has no such run option. Each scheduler has options of its own: "
        "`launcher runopts NAME` lists them.",
        "version: 1\nname: train\nscheduler: local_cwd\ncfg: {grace: 5}\nroles: {main: {entrypoint: env}}\n",
        "version: 1\nname: train\nscheduler: local_cwd\ncfg: {grace_s: 5}\n"
        "roles: {main: {entrypoint: env}}\n",
    ),
)
