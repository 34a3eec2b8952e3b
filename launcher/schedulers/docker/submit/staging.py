"""Submit an attempt of a job in stages: reserve its id, create its containers, start all of them or none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from launcher.schedulers.docker.client.engine import Engine
from launcher.schedulers.docker.records.owner import this_process
from launcher.schedulers.docker.request.derive import build_request
from launcher.schedulers.docker.request.labelling import attempt_labels
from launcher.schedulers.docker.submit.reserve import ReservedId, release, reserve
from launcher.schedulers.docker.submit.submission import Submission
from launcher.schedulers.staged import Reservation
from launcher.specs.app import AppDef, CfgVal
from launcher.specs.attempt import Attempt

if TYPE_CHECKING:
    Report = Callable[[str, Mapping[str, Any]], None]


class DockerReservation(Reservation):
    """An attempt whose app id is reserved; `resumed`: a dead owner had started a part of it."""

    def __init__(self, attempt: Attempt, reserved: ReservedId, labels: Mapping[str, str]) -> None:
        super().__init__(attempt)
        self.reserved = reserved
        self.labels = labels
        self.resumed = reserved.resumed is not None
        self.submission: Submission | None = None
        self.is_over = False  # started, or removed


def reserve_attempt(
    engine: Engine, attempt: Attempt, *, take_over: bool, report: Report, fresh: set[str]
) -> DockerReservation:
    """Reserve its app id. Raises ReservedError, EngineError, StateError, with nothing left behind."""
    labels = attempt_labels(attempt, this_process())
    reserved = reserve(engine, attempt, labels, take_over=take_over, report=report, fresh=fresh)
    return DockerReservation(attempt, reserved, labels)


def create(
    engine: Engine,
    reservation: DockerReservation,
    app: AppDef,
    cfg: Mapping[str, CfgVal],
    report: Report,
    fresh: set[str],
) -> None:
    """Create all containers. `cfg`: resolved. When it fails, all of the attempt is removed."""
    job = build_request(app, cfg, reservation.app_id, session=reservation.attempt.key.session)
    made = Submission(engine, reservation.reserved.lock, report, fresh, marker=reservation.reserved.marker)
    reservation.submission = made
    try:
        if reservation.reserved.resumed is not None:
            made.resume(job, reservation.reserved.resumed)
        else:
            made.create(job, reservation.labels)
    except BaseException:
        abort(engine, reservation)
        raise


def start(reservation: DockerReservation) -> None:
    if reservation.submission is None:
        raise ValueError(f"{reservation.app_id} was not created")
    reservation.is_over = True
    reservation.submission.start()


def abort(engine: Engine, reservation: DockerReservation) -> None:
    """Remove the attempt, unless it was started or removed before."""
    if reservation.is_over:
        return
    reservation.is_over = True
    if reservation.submission is not None:
        reservation.submission.abort()
    else:
        release(engine, reservation.reserved)


def as_docker_reservation(reservation: Reservation) -> DockerReservation:
    if not isinstance(reservation, DockerReservation):
        raise TypeError(f"{reservation.app_id} was not reserved here")
    return reservation
