"""Codes about files: finding them, reading them, what the parsers refuse, two that declare one job."""

from __future__ import annotations

from launcher.jobfile.diagnostics.explain.example import JOB, Example, Explanation, Link, in_yaml

_TOML = "job.launcher.toml"
_COMMAND = f"validate {_TOML}"
_GOOD = "version: 1\nname: train\nroles: {main: {entrypoint: env}}\n"
_WORDS = """\
version: 1
name: words
%s
roles: {main: {image: "busybox:1.37", entrypoint: write, args: [$<output_dir>]}}
"""
_COUNT = """\
version: 1
name: count
needs: [words]
roles: {main: {entrypoint: count, args: [$<needs.words.output_dir>]}}
"""
_MERGES = """\
version: 1
name: train
x-common: &common {image: python:3.12-slim}
roles:
  main:
    <<: [%s]
    entrypoint: env
"""

EXPLANATIONS = (
    Explanation(
        "no-such-file",
        "Nothing stands at the path that was given. Paths on the command line begin at the current "
        "directory. Those in `inputs` of a job file are relative to that file, and one without `*`, `?` or "
        "`[` has to be there.",
        Example({"train.launcher.yaml": _GOOD}, "validate trian.launcher.yaml"),
        Example({"train.launcher.yaml": _GOOD}, "validate train.launcher.yaml"),
    ),
    Explanation(
        "no-job-files",
        "A directory stands for the job files below it: NAME.launcher.yaml, .launcher.yml, .launcher.toml. "
        "Hidden folders and what git ignores are left out. A job file with another name is found only when "
        "it is given itself.",
        Example({"jobs/train.yaml": _GOOD}, "validate jobs"),
        Example({"jobs/train.launcher.yaml": _GOOD}, "validate jobs"),
    ),
    Explanation(
        "unreadable",
        "The file or the directory is there, and the system does not let it be read: permissions, a disk "
        "error, a link that leads back to itself. The message ends with what the system says.",
        Example({JOB: Link(JOB)}),
        Example({"train.yaml": _GOOD, JOB: Link("train.yaml")}),
    ),
    Explanation(
        "encoding",
        "Job files are UTF-8 text, with or without a byte order mark, whatever the locale of the machine: "
        "one file has to mean the same everywhere.",
        Example({JOB: b"version: 1\nname: train\ndescription: caf\xe9\nroles: {main: {entrypoint: env}}\n"}),
        Example(
            {JOB: "version: 1\nname: train\ndescription: café\nroles: {main: {entrypoint: env}}\n".encode()}
        ),
    ),
    in_yaml(
        "too-large",
        "A job file has at most 1 MiB, 64 levels and 20,000 values; aliases and merge keys count as often as "
        "they are used, and one merge key takes at most 8 mappings. The bounds keep a few lines of aliases "
        "from filling the memory. Data belongs into files of its own.",
        _MERGES % ", ".join(["*common"] * 9),
        _MERGES % "*common",
    ),
    Explanation(
        "duplicate-job",
        "A job is known by its project, its target and its name. Two files that declare the same one would "
        "stop each other's work: rename one of them, or give it another `project`.",
        Example({"a.launcher.yaml": _GOOD, "b.launcher.yaml": _GOOD}, "validate ."),
        Example(
            {"a.launcher.yaml": _GOOD, "b.launcher.yaml": _GOOD.replace("train", "evaluate")}, "validate ."
        ),
    ),
    Explanation(
        "needs-cycle",
        "A job starts when the jobs that it `needs` have succeeded. Of jobs that need each other none would "
        "ever start. The name of a matrix means all of its jobs, so a job of a matrix cannot need its own "
        "matrix. Circles are looked for over all files that are given.",
        Example(
            {
                "train.launcher.yaml": _GOOD + "needs: [evaluate]\n",
                "evaluate.launcher.yaml": _GOOD.replace("train", "evaluate") + "needs: [train]\n",
            },
            "validate .",
        ),
        Example(
            {
                "train.launcher.yaml": _GOOD,
                "evaluate.launcher.yaml": _GOOD.replace("train", "evaluate") + "needs: [train]\n",
            },
            "validate .",
        ),
    ),
    Explanation(
        "needs-across-engines",
        "The output folder of a job is where its engine keeps it: below the state folder of this machine, or "
        "in a volume of a Docker engine. Jobs of the same engine can read it. So can containers of an engine "
        "on this machine, which get the folder of a local job, read-only. Otherwise run both jobs on one "
        "engine.",
        Example(
            {"words.launcher.yaml": _WORDS % "scheduler: local_docker", "count.launcher.yaml": _COUNT},
            "validate .",
        ),
        Example({"words.launcher.yaml": _WORDS % "", "count.launcher.yaml": _COUNT}, "validate ."),
    ),
    in_yaml(
        "yaml-syntax",
        "The text is no YAML from the marked place on, or uses what job files do without: tags of other "
        "languages, a second document, `%YAML` lines. Most often text needs quotes: inside brackets `{`, "
        "`}`, `[`, `]` and `,` are punctuation, and a value without quotes cannot begin with `*`, `&`, `@`, "
        "`%` or a backtick.",
        "version: 1\nname: serve\nroles:\n  main:\n    entrypoint: sh\n"
        "    args: [-c, serve --port ${PORT:-80}]\n",
        "version: 1\nname: serve\nroles:\n  main:\n    entrypoint: sh\n"
        '    args: [-c, "serve --port ${PORT:-80}"]\n',
    ),
    Explanation(
        "toml-syntax",
        "The text is no TOML from the marked place on. Text needs quotes in TOML, truth values are `true` "
        "and `false`, and there is no null: what has no value is left out.",
        Example({_TOML: 'version = 1\nname = train\n\n[roles.main]\nentrypoint = "env"\n'}, _COMMAND),
        Example({_TOML: 'version = 1\nname = "train"\n\n[roles.main]\nentrypoint = "env"\n'}, _COMMAND),
    ),
    in_yaml(
        "duplicate-key",
        "A key stands twice in one mapping. Many parsers take the last one and say nothing; here it is an "
        "error, because one of the two values is not what runs.",
        "version: 1\nname: train\nroles:\n  main:\n    entrypoint: env\n    num_replicas: 2\n"
        "    num_replicas: 4\n",
        "version: 1\nname: train\nroles:\n  main:\n    entrypoint: env\n    num_replicas: 4\n",
    ),
    in_yaml(
        "newer-version",
        "The file says that it is written in a later version of the language than this launcher knows. "
        "Nothing else is said of such a file: upgrade launcher.",
        "version: 2\nname: train\nroles: {main: {entrypoint: env}}\n",
        "version: 1\nname: train\nroles: {main: {entrypoint: env}}\n",
    ),
)
