"""A plan as text: one line per job that is not kept, its changes below it, the counts, the digest."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from launcher.cli.render.values import listing
from launcher.plan.model import Plan
from launcher.plan.step import Step
from launcher.text import paint, plural

STYLES = {
    "keep": "dim",
    "create": "green",
    "replace": "yellow",
    "rerun": "cyan",
    "resume": "cyan",
    "destroy": "red",
    "hold": "yellow",
}
_CHANGE_STYLES = {"+": "green", "-": "red", "~": "yellow"}
_INDENT = "      "


def plan_text(plan: Plan, *, color: bool = False) -> str:
    """The whole plan, without a newline at the end."""
    name = namer(plan)
    told = [step for step in plan.steps if not step.is_quiet]
    size = max((len(name(step)) for step in told), default=0)
    lines = [line for step in told for line in _step(step, name(step).ljust(size), color)]
    lines += [f"{paint('?', 'yellow', color)}   {orphan}" for orphan in plan.orphans]
    lines += _kept([step for step in plan.steps if step not in told], name, color)
    lines += [""] if lines else []
    lines.append(paint(plan.summary(), "bold", color))
    if not plan.is_empty:
        lines.append(paint(f"Digest: {plan.plan_digest}", "dim", color))
    return "\n".join(lines)


def namer(plan: Plan) -> Callable[[Step], str]:
    """How the steps of a plan are called: by the job alone where they are all of one project and target."""
    single = len({step.key.session for step in plan.steps}) <= 1
    return lambda step: step.key.job if single else str(step.key)


def _step(step: Step, name: str, color: bool) -> Iterator[str]:
    style = STYLES[step.kind]
    reasons = "; ".join(str(reason) for reason in step.reasons)
    mark = paint(step.mark.ljust(3), f"bold {style}", color)
    yield f"{mark} {paint(name, 'bold', color)}  {step.kind}: {reasons}"
    for change in step.changes:
        text = str(change)
        yield _INDENT + paint(text, _CHANGE_STYLES.get(text[:1], ""), color)
    if step.waits_for:
        yield f"{_INDENT}waits for {step.waits_for}"
    if step.has_effects:
        for stop in step.stops:
            yield _INDENT + paint(f"stops {stop.app_id} ({stop.state})", "red", color)
    if step.kind == "hold":
        yield from (_INDENT + line for line in _remedy(step))
    for note in step.notes:
        yield _INDENT + paint(f"note: {note}", "dim", color)


def _remedy(step: Step) -> Iterator[str]:
    """What to do about a job that is held."""
    if step.blocked == "protected":
        yield "remove `protect: true` from the job file, or cancel the attempt, to let it be stopped"
    elif step.blocked == "on_change_hold":
        yield "say `on_change: replace` in the job file, or cancel the attempt, to let it be stopped"
    else:
        yield f"to run it again: --rerun {step.key.job}"


def _kept(steps: Sequence[Step], name: Callable[[Step], str], color: bool) -> Iterator[str]:
    """Kept jobs as counts, one line per reason."""
    by_reason: dict[str, list[str]] = {}
    for step in steps:
        by_reason.setdefault(step.reasons[0].code, []).append(name(step))
    for code, names in by_reason.items():
        why = _KEPT.get(code, code.replace("_", " "))
        text = f"{plural(len(names), 'job')} unchanged, {why}: {listing(names)}"
        yield paint(f"=   {text}", "dim", color)


_KEPT = {
    "already_succeeded": "already succeeded",
    "already_running": "already running",
    "disabled": "disabled in the file",
}
