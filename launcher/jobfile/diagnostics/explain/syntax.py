"""Codes about the text: what the parsers refuse."""

from __future__ import annotations

from launcher.jobfile.diagnostics.explain.example import Example, Explanation, in_yaml

_TOML = "job.launcher.toml"
_COMMAND = f"validate {_TOML}"

EXPLANATIONS = (
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
