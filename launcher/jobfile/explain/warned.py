"""Codes of warnings: the job works, and may not mean what it should."""

from __future__ import annotations

from launcher.jobfile.explain.example import in_yaml

_IMAGE = "version: 1\nname: train\nroles:\n  main:\n    image: pytorch/pytorch:%s\n    entrypoint: env\n"

EXPLANATIONS = (
    in_yaml(
        "command-line",
        "`entrypoint` is the program to run, one word or path; no shell splits it. Its arguments are a list "
        "of their own, `args`. Of several words nothing would start, for no program has that name.",
        "version: 1\nname: train\nroles: {main: {entrypoint: python train.py}}\n",
        "version: 1\nname: train\nroles: {main: {entrypoint: python, args: [train.py]}}\n",
    ),
    in_yaml(
        "unpinned-image",
        "The tag `latest`, which no tag means too, names another image tomorrow, and a digest of the file "
        "cannot tell: the job would count as unchanged. Name a version, or the image's digest.",
        _IMAGE % "latest",
        _IMAGE % "2.5.1-cpu",
    ),
    in_yaml(
        "secret-literal",
        "A value is written out under a name that looks like a secret's. What stands in a job file stands in "
        "git, in plans and in the records of every attempt. Refer to it instead.",
        "version: 1\nname: train\nroles: {main: {entrypoint: env, env: {API_TOKEN: t0ps3cret}}}\n",
        "version: 1\nname: train\n"
        'roles: {main: {entrypoint: env, env: {API_TOKEN: {secret: "env:API_TOKEN"}}}}\n',
    ),
    in_yaml(
        "secret-variable",
        "A variable takes its value from an environment variable that is named like a secret. The value "
        "becomes part of the document: it is hashed, shown in plans and stored with every attempt. A "
        "reference in a role's `env` is read while submitting, and stored nowhere.",
        "version: 1\nname: train\nvars: {token: {type: str, default: none, from_env: HF_TOKEN}}\n"
        "roles: {main: {entrypoint: train, args: [$<var.token>]}}\n",
        "version: 1\nname: train\n"
        'roles: {main: {entrypoint: train, env: {HF_TOKEN: {secret: "env:HF_TOKEN"}}}}\n',
    ),
    in_yaml(
        "unused-variable",
        "A variable is declared and nothing refers to it: a value given to it changes nothing. Use it, or "
        "delete it.",
        "version: 1\nname: train\nvars: {epochs: {type: int, default: 3}}\n"
        "roles: {main: {entrypoint: train, args: [--epochs, 3]}}\n",
        "version: 1\nname: train\nvars: {epochs: {type: int, default: 3}}\n"
        "roles: {main: {entrypoint: train, args: [--epochs, $<var.epochs>]}}\n",
    ),
)
