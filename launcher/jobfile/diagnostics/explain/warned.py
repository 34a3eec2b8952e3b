"""Codes of warnings: the job works, and may not mean what it should."""

from __future__ import annotations

from launcher.jobfile.diagnostics.explain.example import Example, Explanation, in_yaml

_IMAGE = "version: 1\nname: train\nroles:\n  main:\n    image: pytorch/pytorch:%s\n    entrypoint: env\n"


def _newer_toml(why: str, wrong: str, right: str) -> Explanation:
    file, command = "job.launcher.toml", "validate job.launcher.toml"
    head = 'version = 1\nname = "train"\n'
    return Explanation(
        "newer-toml", why, Example({file: head + wrong}, command), Example({file: head + right}, command)
    )


_PREPARE = "version: 1\nname: prepare\nroles: {main: {entrypoint: env}}\n"
_TRAIN = "version: 1\nname: train\nneeds: [%s]\nroles: {main: {entrypoint: env}}\n"
_INPUTS = "version: 1\nname: train\ninputs: [%s]\nroles: {main: {entrypoint: env}}\n"
_TRAIN_FILE = "train.launcher.yaml"

EXPLANATIONS = (
    in_yaml(
        "command-line",
        "`entrypoint` is the program to run, one word or path; no shell splits it. Its arguments are a list "
        "of their own, `args`. Of several words nothing would start, for no program has that name. In the "
        "same way each argument is one item: `--lr 0.1` in one item is an option with a blank in its name.",
        "version: 1\nname: train\nroles: {main: {entrypoint: python train.py}}\n",
        "version: 1\nname: train\nroles: {main: {entrypoint: python, args: [train.py]}}\n",
    ),
    in_yaml(
        "unexpanded-argument",
        "The program gets its arguments as they are written. Variables (`$HOME`), commands (`$(date)`), `~`, "
        "`|` and `>` are the language of a shell: have one run the command, with `run`. A value known "
        "before the job starts is a variable of the job file, `$<var.NAME>`.",
        "version: 1\nname: train\nroles: {main: {entrypoint: ls, args: [$HOME]}}\n",
        "version: 1\nname: train\nroles: {main: {run: ls $HOME}}\n",
    ),
    in_yaml(
        "env-name",
        "A shell can use variables whose names consist of letters, digits and `_`, with no digit first. It "
        "hides others from its scripts, and some shells do not pass them on to the programs that they start. "
        "Other programs may look for names with `.`, `-` or `:`, so these are reported only for shells.",
        "version: 1\nname: train\nroles: {main: {entrypoint: sh, args: [a.sh], env: {LOG-LEVEL: debug}}}\n",
        "version: 1\nname: train\nroles: {main: {entrypoint: sh, args: [a.sh], env: {LOG_LEVEL: debug}}}\n",
    ),
    in_yaml(
        "lookalike-character",
        "Text that was copied from a page or a word processor may have typographic quotes, which YAML takes "
        "as part of the text, or blanks that are no blanks to it. The program would get them too. Where they "
        "are meant, put the value in plain quotes.",
        "version: 1\nname: greet\nroles: {main: {entrypoint: echo, args: [“hello”]}}\n",
        'version: 1\nname: greet\nroles: {main: {entrypoint: echo, args: ["hello"]}}\n',
    ),
    in_yaml(
        "lookalike-reference",
        "References are written `$<var.lr>`, without blanks and with the bracket closed. Every other `$` is "
        "left as it is, for shells and programs, so a slip would reach them as text.",
        "version: 1\nname: train\nroles: {main: {entrypoint: train, args: [--id, $< app_id >]}}\n",
        "version: 1\nname: train\nroles: {main: {entrypoint: train, args: [--id, $<app_id>]}}\n",
    ),
    _newer_toml(
        "Launcher reads TOML 1.1, and most editors, linters and libraries read 1.0: they refuse the file. "
        "What is new are inline tables of several lines or with a comma at their end, the escapes `\\e` and "
        "`\\x`, and times without seconds.",
        'roles.main = {\n  entrypoint = "env",\n}\n',
        '[roles.main]\nentrypoint = "env"\n',
    ),
    in_yaml(
        "overridden-variable",
        "Every replica gets some variables from its scheduler: the id of its job, the host of replica 0, a "
        "folder for its scratch files. What a role says under these names is not used. Delete it, or use "
        "another name.",
        "version: 1\nname: train\nroles: {main: {entrypoint: train, env: {LAUNCHER_SCRATCH: /tmp}}}\n",
        "version: 1\nname: train\nroles: {main: {entrypoint: train, env: {SCRATCH: /tmp}}}\n",
    ),
    Explanation(
        "unknown-need",
        "`needs` names jobs of the same project and target, or matrices of them. No job file below the "
        "folder of the project (that of launcher.toml, else the work tree) declares one of this name. It may "
        "be on record, if its file was deleted; otherwise no plan can be made. A role waits for a role of "
        "its own job with `depends_on`.",
        Example(
            {"prepare.launcher.yaml": _PREPARE, _TRAIN_FILE: _TRAIN % "prepair"}, f"validate {_TRAIN_FILE}"
        ),
        Example(
            {"prepare.launcher.yaml": _PREPARE, _TRAIN_FILE: _TRAIN % "prepare"}, f"validate {_TRAIN_FILE}"
        ),
    ),
    Explanation(
        "unmatched-glob",
        "A glob of `inputs` with `*`, `?` or `[` matches no file at the moment. That may be right: a file "
        "that it matches later is a change, and the job runs again. More often a folder is missing or "
        "misspelt; `*` stops at slashes, `**` is any number of folders, and globs are relative to the job "
        "file.",
        Example({_TRAIN_FILE: _INPUTS % "config/*.yaml", "conf/a.yaml": ""}, "validate train.launcher.yaml"),
        Example({_TRAIN_FILE: _INPUTS % "conf/*.yaml", "conf/a.yaml": ""}, "validate train.launcher.yaml"),
    ),
    in_yaml(
        "unpinned-image",
        "The tag `latest`, which an image without a tag gets too, may name another image tomorrow. The "
        "digest of the job stays the same, so it would count as unchanged. Name a version, or the image's "
        "digest.",
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
        "unused-field",
        "Some fields only say how another one works: `shell` is the shell of `run`, `retry_delay` the pause "
        "before the restarts that `max_retries` allows. Alone they change nothing. Add what is missing, or "
        "delete them. In `defaults` they are for the roles that have a use for them.",
        "version: 1\nname: train\nroles: {main: {entrypoint: train, retry_delay: 10s}}\n",
        "version: 1\nname: train\nroles: {main: {entrypoint: train, max_retries: 3, retry_delay: 10s}}\n",
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
