"""Which modules may import inside functions and hide imports from the interpreter, and that no other does.

`TYPE_CHECKING = False` and imports inside functions save the frequent commands milliseconds. Everywhere else
they only make code longer: there, imports stand at the top, and `typing.TYPE_CHECKING` is for names that
exist for type checkers alone.
"""

from __future__ import annotations

import ast
import subprocess
import sys

import pytest

from tests.unit.test_layers import modules

_FAST = {
    "launcher": "__main__ database errors files looks paths text",
    "launcher.apply": "engines",
    "launcher.cli": ("arguments completion console main list log_reader logs app_actions queue status"),
    "launcher.cli.render": "apps document log_lines values",
    "launcher.holding": "app events hold journal replica state use way",
    "launcher.inventory": "find listing logs lookup project recorded status turns",
    "launcher.schedulers": (
        "api appfolder backend docker logs loop many pids probes readback record registry staged"
    ),
    "launcher.schedulers.docker": "labels scheduler tombstones",
    "launcher.schedulers.docker.client": "errors view wire",
    "launcher.schedulers.docker.watching": "client rendezvous",
    "launcher.schedulers.local": (
        "appview claim driver filewatch held kernel line_holder logfiles "
        "logs logwriter observe probes replicas rundir scheduler spawn starter "
        "stop supervisor waiting"
    ),
    "launcher.schedulers.slurm": "known scheduler",
    "launcher.specs": "jobkey",
    "launcher.state": "outbox reader records rows store",
    "launcher.turns": "bells line machine queue table",
}
FAST = frozenset(f"{package}.{name}" for package, names in _FAST.items() for name in names.split())
"""Loaded by `list`, `status`, `logs`, `wait`, `cancel`, `describe`, `queue`, `start`, `--help`,
`--version`, shell completion, or a supervisor or line holder of local apps, which live as long as they do."""

ON_USE = {
    "argparse": "help and wrong arguments",
    "concurrent": "workspaces with many files",
    "copy": "deep copies of values that are no plain data",
    "difflib": "the difference between two long lists, and misspelt keywords",
    "dataclasses": "fields of ours, for tools that ask for them",
    "docker": "credentials of registries",
    "hashlib": "OpenSSL, which hashes the contents of files faster",
    "graphlib": "the order of jobs that need others",
    "inspect": "signatures, for tools that ask for them",
    "ruamel": "YAML",
    "shlex": "commands in messages and dry runs",
    "shtab": "completion scripts",
    "tomli": "TOML",
}
"""Libraries that take long to load, and what needs them: any module may import them where it does."""

ON_BRANCH = {
    "launcher.apply.apply": "threads, for applies that do not wait for another one",
    "launcher.cli.jobs": "job files, for commands that get a saved plan or a component",
    "launcher.cli.render.plan_lines": "manifests of workspaces, for plans without changed ones",
    "launcher.cli.render.findings": "JSON, SARIF and GitHub, for text; texts of diagnostics, for none",
    "launcher.cli.plan": (
        "what explains one job, Markdown and GitHub, for plans as text; saved plans, for job files"
    ),
    "launcher.cli.run": "components, for job files; tickets, for `run` without --queue",
    "launcher.cli.use": "what edits job files, without --write",
    "launcher.cli.top": "Textual, for its help, and where it is not installed or there is no terminal",
    "launcher.cli.validate": "saved plans, for job files",
    "launcher.jobfile.compile.compiled": "errors, dataclasses, for outcomes without errors or shared files",
    "launcher.plan.grounds": "documents, for known digests; outputs, for jobs without needs",
    "launcher.plan.model": "effects, for plans without any",
    "launcher.plan.reconcile": "lines of shared files, for plans without changes",
    "launcher.plan.recheck": "dates, for plans that do not expire",
    "launcher.cli.live_display": "rich, for output that is no terminal",
    "launcher.cli.watch": "progress bars, for output that is no terminal; the lines of logs, without --logs",
    "launcher.apply.execute": "turns, for jobs that ask for nothing",
    "launcher.apply.plans": "turns, for jobs that ask for nothing; the check of saved plans, for job files",
    "launcher.apply.follow": (
        "threads for one app; restarts of apps, for applies without any; errors of replicas without one"
    ),
    "launcher.apply.approval": "workspaces, for jobs without one",
    "launcher.apply.dry_run": "workspaces, for jobs without one; outputs, for plans that start nothing",
    "launcher.apply.submit": "workspaces, for jobs without one",
    "launcher.apply.observe": "the search for seen files, for jobs that run in no checkout",
    "launcher.workspace.seen": "the imports of Python files, for jobs that run none",
    "launcher.command": "subprocess, for commands that run none",
    "launcher.components.calls": "what calls a component, for job files that have none",
    "launcher.git": "launcher.command, for folders outside of work trees",
    "launcher.inventory.listing": "git and targets, for apps that no apply has to start again",
    "launcher.jobfile.compile.build": "components, for job files that have none",
    "launcher.jobfile.compile.project": "the defaults of components, for projects without any",
    "launcher.jobfile.format": "YAML for TOML files, and TOML for YAML files",
    "launcher.jobfile.compile.discover": "diagnostics, for folders whose job files are found",
    "launcher.jobfile.compile.inputs": "workspaces and triggers, for jobs without them",
    "launcher.jobfile.messages.remedies": "components, for job files that have none",
    "launcher.jobfile.text.parse": "TOML for YAML files, and YAML for TOML files",
    "launcher.runner.config": "the signatures of components, for files without defaults for them",
    "launcher.runner.runner": "workspaces, for apps without one",
    "launcher.schedulers.checks": "launcher.turns, for apps that ask for no kind of GPU",
    "launcher.schedulers.docker.client.configuration": "warnings, for registries without credentials",
    "launcher.schedulers.docker.client.engine": "archives, for apps whose folders need none",
    "launcher.schedulers.docker.client.transport": "subprocess, without SSH; urllib.request, without a proxy",
    "launcher.schedulers.docker.observe": "what stops, ends and removes apps, for commands that only read",
    "launcher.schedulers.docker.request": "launcher.turns, for apps without GPUs",
    "launcher.schedulers.docker.submission": (
        "the tables of turns, for apps that take none; the watcher on the engine, for apps without it"
    ),
    "launcher.schedulers.docker.watching.waiting": "the watcher on the engine, for apps without it",
    "launcher.schedulers.docker.watching.hold": "what creates containers, while an app waits",
    "launcher.schedulers.docker.watching.ends": "workspaces, for apps without inputs: watchers stay small",
    "launcher.schedulers.leftovers": "what clears shares, for supervisors that start its process",
    "launcher.schedulers.local.comparison": "workspaces, for the supervisor that starts its process",
    "launcher.schedulers.local.outputs": "archives, for apps whose outputs are not copied",
    "launcher.schedulers.docker.watching.actions": (
        "probes, for apps without them; the watcher on the engine, for apps without it"
    ),
    "launcher.schedulers.docker.watching.app": "probes, needs and turns, for apps without them",
    "launcher.schedulers.docker.watching.services": "turns, for watchers that no client asks about them",
    "launcher.schedulers.docker.watching.watcher": "needs, for apps without them",
    "launcher.schedulers.local.request": "launcher.turns, for apps without GPUs",
    "launcher.schedulers.slurm.cluster": (
        "ssh, for clusters of this machine; zipfile, for requests that submit nothing"
    ),
    "launcher.secrets": "typing, for every process that reads a secret",
    "launcher.specs.attempt": "documents, for known digests",
    "launcher.specs.resources": "the table of AWS instances and the plug-ins, for roles that name none",
    "launcher.specs.status": "dates and wrapped text, for replicas without an error",
    "launcher.specs.notify": "Base64, for commands that use no key of a receiver",
}
"""Module → what it imports inside a function, and for whom it does not import it at the top."""


def _is_counted(module: str) -> bool:
    return "__getattr__" not in ast.unparse(modules()[module]) and module not in FAST


def _hidden(module: str) -> list[str]:
    """Return the imports of a module inside functions, without ON_USE, and how it hides its types."""
    inside = [
        node
        for function in ast.walk(modules()[module])
        if isinstance(function, ast.FunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    names = [str(node.module) if isinstance(node, ast.ImportFrom) else node.names[0].name for node in inside]
    found = [name for name in names if name.partition(".")[0] not in ON_USE]
    found += ["TYPE_CHECKING = False"] * any(
        isinstance(node, ast.Assign) and ast.unparse(node).startswith("TYPE_CHECKING = ")
        for node in modules()[module].body
    )
    return found


@pytest.mark.slow
def test_modules_off_the_fast_path_import_at_the_top():
    hidden = {module: _hidden(module) for module in modules() if _is_counted(module)}
    assert {module: found for module, found in hidden.items() if found and module not in ON_BRANCH} == {}


@pytest.mark.slow
def test_the_lists_name_only_modules_that_need_them():
    assert [module for module in FAST | ON_BRANCH.keys() if module not in modules()] == []
    assert [module for module in FAST | ON_BRANCH.keys() if not _hidden(module)] == []


_LOADED = """
import os, sys
leave = os._exit
def _exit(code):
    sys.stderr.write("\\nloaded: " + " ".join(sys.modules))
    sys.stderr.flush()
    leave(code)
os._exit = _exit
from launcher.__main__ import main
main()
"""
_COMMANDS = [["list"], ["list", "--json"], ["status"], ["status", "job"], ["status", "job", "--json"]]
_COMMANDS += [
    ["logs", "job"],
    ["wait", "job"],
    ["describe", "job"],
    ["queue"],
    ["queue", "--json"],
    ["list", "--help"],
    ["--help"],
    ["--version"],
]


def _loaded_by(scenario, argv: list[str]) -> set[str]:
    command = [sys.executable, "-c", _LOADED, *argv]
    done = subprocess.run(command, cwd=scenario.folder, capture_output=True, text=True, check=False)
    assert "loaded: " in done.stderr
    return set(done.stderr.rpartition("loaded: ")[2].split())


def _closure(module: str, found: set[str]) -> set[str]:
    """Return the modules of ours that an import of this one loads."""
    if module in modules() and module not in found:
        found.add(module)
        for node in modules()[module].body:
            if isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    full = f"{node.module}.{alias.name}"
                    _closure(full if full in modules() else str(node.module), found)
    return found


@pytest.fixture
def fast(scenario) -> set[str]:
    """The modules that fast commands and the supervisor load."""
    scenario.run_to_end(scenario.job("echo hello"))
    loaded = {name for argv in _COMMANDS for name in _loaded_by(scenario, argv)}
    scenario.apply(scenario.job("exec sleep 1000"), "--yes")
    for argv in (["status", "job"], ["wait", "job", "--timeout", "200ms"], ["cancel", "job"]):
        loaded |= _loaded_by(scenario, argv)
    # The last one only where a stop takes its time.
    entries = ("cli.completion", "schedulers.local.supervisor", "schedulers.local.filewatch")
    entries += ("schedulers.local.probes",)  # the supervisor of roles with a probe
    entries += ("cli.render.log_lines",)  # of several replicas
    entries += ("turns.line", "turns.table")  # of an app that takes its turn
    entries += ("schedulers.local.line_holder", "holding.way")  # apps that wait for others, or in line
    # With an engine, and without: what a list of its apps loads.
    entries += ("schedulers.docker.scheduler", "schedulers.docker.apps", "schedulers.docker.client.wire")
    entries += ("schedulers.docker.watching.client", "schedulers.docker.watching.rendezvous")
    entries += ("schedulers.slurm.scheduler",)  # of an app on a cluster
    return loaded.union(*(_closure(f"launcher.{entry}", set()) for entry in entries))


@pytest.mark.slow
def test_every_module_on_the_list_is_on_a_fast_path(fast):
    assert sorted(FAST - fast) == []
