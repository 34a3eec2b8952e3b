"""Submit many apps as tasks of job arrays, each step in one request to the cluster."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from launcher.errors import LauncherError, SchedulerError
from launcher.schedulers.ids import random_id
from launcher.schedulers.slurm import known
from launcher.schedulers.slurm.cluster import Cluster, checked, error_of, program_name
from launcher.schedulers.slurm.clusters import Clusters, forget
from launcher.schedulers.slurm.request import SlurmRequest, build_request
from launcher.schedulers.slurm.script import Array, array_script
from launcher.schedulers.slurm.submit import Held, SlurmReservation, reserve_all, secrets_of
from launcher.schedulers.staged import Batches, Member, Reservation
from launcher.specs.app import CfgVal
from launcher.specs.attempt import Attempt
from launcher.specs.outputs import read_outputs
from launcher.state.records import of_attempt
from launcher.workspace.archive import archive


class SlurmBatches(Batches):
    """Submits apps with the same options of sbatch and the same setup as tasks of one array, or of few."""

    def __init__(self, clusters: Clusters, *, take_over: bool) -> None:
        self._clusters = clusters
        self._take_over = take_over

    def traits(self, request: SlurmRequest) -> Mapping[str, str]:
        own = {"host": request.host, "job_dir": request.job_dir, "setup": "\n".join(request.setup)}
        return {**{name: value for name, value in request.options.items() if name != "job-name"}, **own}

    def most(self, cfg: Mapping[str, CfgVal]) -> int:
        return int(self._clusters.at(known.place_of(cfg)).about.get("max_array", 0))

    def reserve(self, attempts: Sequence[Attempt]) -> list[Reservation | LauncherError]:
        for each in attempts:
            self._clusters.noted(each.app_id)  # true no longer
        cluster = self._clusters.at(known.place_of(attempts[0].document.get("cfg", {})))
        apps = [(of_attempt(each), each.to_json()) for each in attempts]
        found = reserve_all(cluster, apps, take_over=self._take_over)
        return [
            SlurmReservation(held, attempt) if isinstance(held, Held) else held
            for held, attempt in zip(found, attempts, strict=True)
        ]

    def create(self, members: Sequence[Member], at_once: int | None) -> list[LauncherError | None]:
        new = [each for each in members if not _held(each.reservation).resumed]
        if not new:
            return [None] * len(members)
        cluster = _held(new[0].reservation).cluster
        errors: dict[str, LauncherError] = {}
        _check_count(cluster, len(new))
        _put_workspaces(cluster, new)
        reads = any(read_outputs(each.reservation.attempt) for each in new)
        there = set(cluster.ask("outputs")["outputs"]) if reads else set()
        most = int(cluster.about["max_array"])
        for first in range(0, len(new), most):
            errors |= _create_array(cluster, new[first : first + most], at_once, there)
        return [errors.get(each.reservation.app_id) for each in members]

    def start(self, reservations: Sequence[Reservation]) -> list[LauncherError | None]:
        held = [*map(_held, reservations)]
        for each in held:
            each.is_over = True
        op = {"op": "start_all", "apps": [*map(_owned, held)]}
        (answer,) = held[0].cluster.call(op, one_look=True)
        errors: list[LauncherError | None] = []
        for reservation, each, found in zip(reservations, held, checked(answer)["apps"], strict=True):
            each.take_answer(found)
            errors.append(error_of(found))
            reservation.accepted = found.get("state", reservation.accepted)
        return errors

    def abort(self, reservations: Sequence[Reservation]) -> None:
        held = [each for each in map(_held, reservations) if not each.is_over]
        if held:
            op = {"op": "abort_all", "apps": [*map(_owned, held)]}
            checked(*held[0].cluster.call(op, one_look=True))
            for each in held:
                each.is_over = True
            forget(*(each.app_id for each in held))


def _held(reservation: Reservation) -> Held:
    if not isinstance(reservation, SlurmReservation):
        raise TypeError(f"{reservation.app_id} was not reserved here")
    return reservation.held


def _owned(held: Held) -> dict[str, str]:
    return {"app_id": held.app_id, "nonce": held.nonce}


def _check_count(cluster: Cluster, count: int) -> None:
    """Raise SchedulerError for more jobs than a cluster takes from all users: sbatch would try for long."""
    most = int(cluster.about.get("max_jobs", 0))
    if count > most > 0:
        raise SchedulerError(
            f"{count} jobs are more than the cluster takes: MaxJobCount is {most}",
            hint="apply some of them first: --select",
        )


def _create_array(
    cluster: Cluster, members: Sequence[Member], at_once: int | None, outputs: Collection[str]
) -> dict[str, LauncherError]:
    """Submit held arrays, one unless the apps wait for different jobs.

    Returns app id → error for apps that another client has by now, or that cannot wait for their needs.
    """
    apps: list[dict[str, Any]] = []
    before, name = [*cluster.programs], random_id()
    errors: dict[str, LauncherError] = {}
    for each in members:
        reservation = each.reservation
        assert isinstance(reservation, SlurmReservation)
        try:
            needs = reservation.needs()
        except SchedulerError as error:
            errors[reservation.app_id] = error
            continue
        session = reservation.attempt.key.session
        request = each.request or build_request(each.app, each.cfg, session=session)
        bound = reservation.bound(request, each.app, outputs)
        before += reservation.make_output(each.app)
        texts = {"app": json.dumps(bound.app), "secret": secrets_of(bound), "needs": needs}
        apps.append({**_owned(reservation.held), **texts})
    if not apps:
        return errors
    array = Array(name, len(apps), at_once)
    script = array_script(request.options, request.job_dir, request.setup, array, program_name())
    op = {"op": "create_array", "array": name, "argv": ["sbatch"], "script": script, "at_once": at_once}
    more = {"aftercorr": cluster.about.get("aftercorr"), "program": program_name(), "apps": apps}
    *made, answer = cluster.call(*before, {**op, **more})
    for done in made:
        checked(done)
    lost: dict[str, str] = checked(answer)["lost"]
    return errors | {app_id: SchedulerError(message) for app_id, message in lost.items()}


def _put_workspaces(cluster: Cluster, members: Iterable[Member]) -> None:
    """Send each workspace once, to the folder of one app; the cluster copies it to the other apps."""
    same: dict[str, tuple[str, list[str]]] = {}  # digest → a folder with it, and the apps
    for each in members:
        if each.workspace is not None:
            _, app_ids = same.setdefault(each.workspace.digest, (each.workspace.folder, []))
            app_ids.append(each.reservation.app_id)
    for digest, (folder, (first, *others)) in same.items():
        cluster.put(first, archive(folder, digest=digest))
        if others:
            cluster.ask("copy_workspace", app_id=first, to=others)
