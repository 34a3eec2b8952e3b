"""Runs apps as containers of a Docker engine.

::

    client/      the engine's API: requests, streams, errors, the values it answers with
    images, image_build                      pull images, build them from workspaces
    rules, request, job                      options, AppDef → the containers to create; asks no engine
    reserve, containers, submission, share   from a reserved app id to running replicas
    record, journal                          the record of an app on this machine
    labels, names, tombstones                the objects of an app at the engine
    facts, status, apps, observe             the state of apps, from record and engine
    watching/    the process that restarts, stops and records an app, and its clients
    watchers     the watchers in containers of the engine, as all clients see them
    app_logs, log_reader                     the output of replicas
    outputs, gc                              output folders, and the removal of an ended app's other objects
"""

from __future__ import annotations

import os

from launcher import paths

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT_HOST = "unix:///var/run/docker.sock"


def shared_engine() -> str:
    """See `Scheduler.shared_engine`."""
    return "the Docker engine"


def config_folder(environ: Mapping[str, str]) -> str:
    """The folder of the configuration of the `docker` command."""
    return environ.get("DOCKER_CONFIG") or os.path.join(environ.get("HOME", "/"), ".docker")


def has_no_socket() -> bool:
    """Whether the engine should be on this machine, but its socket is missing, so that it cannot answer."""
    host = os.environ.get("DOCKER_HOST", "").strip()
    if not host:
        contexts = os.path.join(config_folder(os.environ), "contexts")
        if os.environ.get("DOCKER_CONTEXT") or os.path.exists(contexts):
            return False  # a context may name another engine
        host = DEFAULT_HOST
    is_local, path = host.startswith("unix://"), host[len("unix://") :]
    return is_local and "%" not in path and not os.path.exists(path)


def records_root() -> str:
    """The folder of all records of Docker apps."""
    return os.path.join(paths.home(), "docker")
