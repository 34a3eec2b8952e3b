"""Runs apps as containers of a Docker engine.

::

    client/      the engine's API: requests, streams, errors, the values it answers with
    images, image_build                      pull images, build them from workspaces
    rules, request, job                      options, AppDef → the containers to create; asks no engine
    reserve, containers, submission, share   from a reserved app id to running replicas
    record, journal                          the record of an app on this machine
    labels, names, tombstones                the objects of an app at the engine
    facts, status, apps, observe             the state of apps, from both
    watching/    the process that restarts, stops and records an app, and its clients
    watchers     such processes in containers of the engine, as all clients see them
    app_logs, log_reader                     the output of replicas
    outputs, gc                              output folders, and the removal of the rest after the end
"""

from __future__ import annotations

import os

from launcher import paths


def shared_engine() -> str:
    """See `Scheduler.shared_engine`."""
    return "the Docker engine"


def records_root() -> str:
    """The folder of all records of Docker apps."""
    return os.path.join(paths.home(), "docker")
