"""Submit an app in a claimed folder, and undo the submission when it fails."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from launcher.errors import SchedulerError
from launcher.schedulers.appstore import open_store
from launcher.schedulers.local import attemptfile
from launcher.schedulers.local.claim import Claim, discard, discard_ownerless
from launcher.schedulers.local.popen import PopenRequest
from launcher.schedulers.local.supervisor_client import SupervisorClient
from launcher.secrets import resolve
from launcher.specs.secret import Secret

if TYPE_CHECKING:
    from launcher.specs.attempt import AttemptState
    from launcher.specs.launch import InputRef
    from launcher.turns.ask import Ask

_TAKE_BACK_S = 10.0
"""How long a supervisor may take to remove what it made; it gives its replicas less (TAKE_BACK_GRACE_S)."""


def create(
    state_dir: str, claim: Claim, request: PopenRequest, *, attached: bool, output: str = ""
) -> SupervisorClient:
    """Start a supervisor that has prepared the app and waits for "go".

    Args:
        output: the output folder, which the supervisor makes when the app starts; "" for none.

    Raises StartError, SecretError or SchedulerError, with the app removed.
    """
    try:
        secrets = _values_of_secrets(request)
        attemptfile.write_request(claim.app_dir, request.to_json())
        supervisor = SupervisorClient.spawn(claim.app_dir, claim.lock_fd)
    except BaseException:
        discard(state_dir, claim.app_dir, claim)
        raise
    # The supervisor must hold the only copy of the lock: with a second one it would look alive when killed.
    claim.release()
    try:
        supervisor.create(request, attached=attached, secrets=secrets, output=output)
    except BaseException:
        take_back(state_dir, supervisor)
        raise
    return supervisor


def _values_of_secrets(request: PopenRequest) -> dict[str, str]:
    """Reference → value of every secret in the request. Held only in the supervisor's memory."""
    params = [param for params in request.role_params.values() for param in params]
    found = {value for param in params for value in param.env.values() if isinstance(value, Secret)}
    return {str(reference): resolve(reference) for reference in sorted(found)}


def start(
    state_dir: str,
    supervisor: SupervisorClient,
    needs: Sequence[tuple[str, str]] = (),
    turn: Ask | None = None,
    inputs: InputRef | None = None,
) -> AttemptState:
    """Return running when every replica has started, or waiting or queued. Raises StartError, with the app
    removed.

    On an interrupt a detached app keeps running and an attached one is cancelled.

    Args:
        needs: job and folder of the apps that have to succeed first.
        turn: what the app asks of this machine.
        inputs: where to compare its input files.
    """
    try:
        return supervisor.go(needs, turn, inputs)
    except SchedulerError:
        take_back(state_dir, supervisor)
        raise
    except BaseException:
        supervisor.close()
        raise


def take_back(state_dir: str, supervisor: SupervisorClient) -> None:
    """Undo the submission: the supervisor removes the app when the socket closes before "go"."""
    supervisor.close()
    if not supervisor.ends(_TAKE_BACK_S):
        supervisor.kill()  # suspended, or it hangs
    supervisor.reap(block=True)
    if os.path.isdir(supervisor.app_dir):  # it was killed before it could
        discard_ownerless(state_dir, supervisor.app_dir)
        return
    with open_store(durable=False) as store:
        store.remove_void(os.path.basename(supervisor.app_dir), supervisor.app_dir)
