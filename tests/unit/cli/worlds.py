"""Launches, attempts and plans for the tests of renderers: small, and made by the real planner."""

from launcher.plan.reconcile import NOTHING, Choices, reconcile
from launcher.plan.snapshot import Snapshot
from launcher.specs import AppDef, Attempt, JobKey, Launch, Lifecycle, Role, attempt_id, canonical
from launcher.state.store import Store


def launch(job, *, project="default", args=("1",), enabled=True, env=None, **lifecycle):
    role = Role(name="main", image="", entrypoint="run", args=list(args), env=env or {})
    return Launch(
        key=JobKey(project, "default", job), app=AppDef(name=job, roles=[role]), scheduler="local_cwd",
        root="/repo", file=f"jobs/{job}.launcher.yaml", origin="example.org/repo",
        lifecycle=Lifecycle(**lifecycle), enabled=enabled,
    )  # fmt: skip


def attempt(of, state, *, number=1, message="", **fields):
    document = canonical.document(of)
    return Attempt(
        key=of.key, number=number, app_id=attempt_id(of.key, number), scheduler=of.scheduler,
        digest=canonical.digest(document), document=document, origin=of.origin, path=of.file, state=state,
        message=message, created_at=1.0, **fields,
    )  # fmt: skip


def record(*attempts):
    """Put attempts into the ledger."""
    with Store.open() as store:
        for each in attempts:
            assert store.record(each)


def plan(launches, attempts=(), edited=NOTHING, **choices):
    latest = {seen.key: seen for seen in attempts}
    live = [seen for seen in attempts if seen.is_live]
    seen = Snapshot(latest=latest, ran=latest, live=live)
    return reconcile(launches, seen, Choices(**choices), edited=edited)
