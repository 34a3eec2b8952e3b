"""Codes about fields: there, missing, known, and the values in them."""

from __future__ import annotations

from launcher.jobfile.diagnostics.explain.example import in_yaml

_JOB = "version: 1\nname: train\n"
_ROLE = _JOB + "roles:\n  main:\n    entrypoint: env\n"
_ROLES = "roles: {main: {entrypoint: env}}\n"

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
        "Two fields say the same thing in different ways, so it is not clear which one counts. Keep one.",
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
    in_yaml(
        "wrong-type",
        "The field takes a value of another type. Nothing is converted behind your back, with one exception: "
        "numbers in `env` and `args` are taken as they are written. In YAML `yes`, `on` and `22:30` are "
        "text, truth values are `true` and `false`.",
        _ROLE + '    num_replicas: "2"\n',
        _ROLE + "    num_replicas: 2\n    env: {OMP_NUM_THREADS: 4}\n",
    ),
    in_yaml(
        "out-of-range",
        "The number is smaller or larger than the field allows, or than the `min` and `max` of its variable.",
        _ROLE + "    num_replicas: 0\n",
        _ROLE + "    num_replicas: 1\n",
    ),
    in_yaml(
        "unknown-variant",
        "The value is none of those that are allowed here: a word out of a fixed set, a scheduler, a named "
        "resource, one of the `choices` of a variable. The message has the nearest one, or all of them.",
        _ROLE + "    retry_policy: replicas\n",
        _ROLE + "    retry_policy: replica\n",
    ),
    in_yaml(
        "invalid-value",
        "The value has the right type, and cannot be used: a text that is no duration, an amount without a "
        "unit, an empty command.",
        _JOB + "timeout: 2 hours\n" + _ROLES,
        _JOB + "timeout: 2h\n" + _ROLES,
    ),
    in_yaml(
        "invalid-name",
        "Names of projects, targets, jobs and roles become parts of paths, host names and container names. "
        "So they are made of lower-case letters, digits and `-`, with no `-` at either end, at most 63 of "
        "them. A variable's name begins with a letter; an environment variable's holds no `=`.",
        "version: 1\nname: Train_MNIST\n" + _ROLES,
        "version: 1\nname: train-mnist\n" + _ROLES,
    ),
    in_yaml(
        "constraint",
        "Each field is right by itself, but they contradict each other: `min_replicas` above `num_replicas`, "
        "two mounts on one path, a variable whose `min` is more than its `max`.",
        _ROLE + "    num_replicas: 2\n    min_replicas: 3\n",
        _ROLE + "    num_replicas: 4\n    min_replicas: 3\n",
    ),
)
