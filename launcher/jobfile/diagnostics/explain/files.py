"""Codes about whole files: finding them, reading them, two that declare one job."""

from __future__ import annotations

from launcher.jobfile.diagnostics.explain.example import JOB, Example, Explanation, Link, in_yaml

_GOOD = "version: 1\nname: train\nroles: {main: {entrypoint: env}}\n"
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
        "directory.",
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
)
