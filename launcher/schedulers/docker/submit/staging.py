"""An attempt of a job in stages: its id taken, its containers created, all of them started, or none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from launcher.schedulers.docker.client.engine import Engine
from launcher.schedulers.docker.records.owner import this_process
from launcher.schedulers.docker.request.derive import build_request
from launcher.schedulers.docker.request.labelling import attempt_labels
from launcher.schedulers.docker.submit.reserve import Place, give_back, reserve
from launcher.schedulers.docker.submit.submission import Submission
from launcher.schedulers.staged import Reservation
from launcher.specs.app import AppDef, CfgVal
from launcher.specs.attempt import Attempt

if TYPE_CHECKING:
    Report = Callable[[str, Mapping[str, Any]], None]


class DockerReservation(Reservation):
    """An attempt whose app id is ours; `resumed`: a dead owner had started some of it."""

    def __init__(self, attempt: Attempt, place: Place, labels: Mapping[str, str]) -> None:
        super().__init__(attempt)
        self.place = place
        self.labels = labels
        self.resumed = place.resumed is not None
        self.submission: Submission | None = None
        self.is_over = False  # started, or removed


def take(
    engine: Engine, attempt: Attempt, *, take_over: bool, report: Report, fresh: set[str]
) -> DockerReservation:
    """Its id is ours. Raises ReservedError, EngineError, StateError, with nothing left behind."""
    labels = attempt_labels(attempt, this_process())
    place = reserve(engine, attempt, labels, take_over=take_over, report=report, fresh=fresh)
    return DockerReservation(attempt, place, labels)


def create(
    engine: Engine,
    mine: DockerReservation,
    app: AppDef,
    cfg: Mapping[str, CfgVal],
    report: Report,
    fresh: set[str],
) -> None:
    """Make all that is to be started. `cfg`: resolved. When it fails, all of the attempt is removed."""
    job = build_request(app, cfg, mine.app_id, session=mine.attempt.key.session)
    made = Submission(engine, mine.place.lock, report, fresh, marker=mine.place.marker)
    mine.submission = made
    try:
        if mine.place.resumed is not None:
            made.resume(job, mine.place.resumed)
        else:
            made.create(job, mine.labels)
    except BaseException:
        abort(engine, mine)
        raise


def start(mine: DockerReservation) -> None:
    if mine.submission is None:
        raise ValueError(f"{mine.app_id} was not created")
    mine.is_over = True
    mine.submission.start()


def abort(engine: Engine, mine: DockerReservation) -> None:
    """Remove the attempt, unless it was started or removed before."""
    if mine.is_over:
        return
    mine.is_over = True
    if mine.submission is not None:
        mine.submission.abort()
    else:
        give_back(engine, mine.place)


def ours(reservation: Reservation) -> DockerReservation:
    if not isinstance(reservation, DockerReservation):
        raise TypeError(f"{reservation.app_id} was not reserved here")
    return reservation
