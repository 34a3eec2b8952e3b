"""Runs apps as containers of a Docker engine.

::

    client/      the engine's API: requests, streams, errors, the values it answers with
    images/      pull images, build them from workspaces
    request/     AppDef → the containers to create; nothing here asks an engine
    reserve, containers, submission          from a reserved app id to running replicas
    record, journal, rows, recorded          what this machine stores of an app, and reads from it
    labels, names, network, tombstones       what the engine stores of it
    replicas, status, apps, describe         the state of apps, from both
    watching/    the process that restarts, stops and records an app, and its clients
    logs/        the output of replicas
    gc           what is removed after the end
"""

from __future__ import annotations


def shared_engine() -> str:
    """See `Scheduler.shared_engine`."""
    return "the Docker engine"
