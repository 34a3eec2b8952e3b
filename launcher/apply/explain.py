"""Explain what the latest success of a job stands on, by the plan of its job files. Writes nothing."""

from __future__ import annotations

from collections.abc import Sequence

from launcher.apply.approval import check_plan
from launcher.apply.arguments import check_launches
from launcher.apply.engines import Engines
from launcher.apply.look import NO_CHOICES, Choices, planned
from launcher.apply.seen import CheckoutFiles
from launcher.plan.explain import Explanation, explain
from launcher.plan.grounds import Grounds
from launcher.plan.select import one_named, select
from launcher.schedulers.appstore import open_store
from launcher.specs.launch import Launch


def explain_success(launches: Sequence[Launch], job: str, *, choices: Choices = NO_CHOICES) -> Explanation:
    """Explain what the latest success of a job stands on, and whether each part is current.

    Args:
        job: its name, as `job` or `project/job`.

    Raises what `make_plan` does, and UsageError for a name of no job, or of several.
    """
    check_launches("explain_success", launches)
    chosen, _ = select(launches, choices.select)
    launch = one_named(chosen, job, "--explain")
    with (
        open_store(readonly=True) as store,
        Engines(readonly=True, take_over=choices.take_over) as engines,
    ):
        plan, snapshot = planned(launches, choices, store, engines)
        check_plan(plan)
        steps = {step.key: step for step in plan.steps if step.launch is not None}
        edited = CheckoutFiles(engines).edited_of([launch], snapshot.succeeded).get(launch.key, ())
        return explain(steps[launch.key], snapshot, Grounds(snapshot, steps).of(launch), edited)
