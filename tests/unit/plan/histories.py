"""A notation for jobs, their attempts and the plan between them: one case of the planner in a few lines.

`CASES` of `test_needs.py` has examples. A case is a sentence, jobs with their attempts, options, and a line
for each step of the plan but for those that keep a success. A line may go on in deeper lines. `{a|b}` stands
for several cases: the first takes every `a`, the second every `b`.

- A job, or several that are alike: its name, `v2` for another document than `v1`, needs (`needs=a,b`,
  `order=c` with `rerun: never`), `off`, `every` and `csv=N` for its triggers, `inputs=N`, fields of a
  launch, policies, and last `edited=FILE,…`. One in parentheses is in no file, one in brackets not selected.
- An attempt: its number, its state, and fields. `on=a.1,b.3/2`: it uses attempt 1 of a, and attempt 3 of b,
  which repeats edition 2. `held`: a process holds it, `busy`: a client is submitting it.
- A step: its mark, its job, attempt and edition if it starts one, reasons, and all else that it says.
"""

import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from launcher.dataclass import replace
from launcher.plan.model import Plan
from launcher.plan.step import Guard, Step
from launcher.specs.attempt import Attempt, StoodOn
from launcher.specs.inputs import InputFiles, combine
from launcher.specs.launch import Launch, Need, Trigger, attempt_id
from tests.unit.plan.world import OWNER, attempt, job, plan

HOLDER = "pid 99 on node1"
_KEPT = r"= [^ ]+: attempt \d+ succeeded"
_MARKS = ("=", "+", "-/+", "r", ">", "-", "!", "error:", "stale")
_OF_LAUNCH = ("matrix", "unresolved")


def cases(text: str) -> dict[str, tuple[list[str], list[str]]]:
    """Sentence → the lines of what is given, and of the plan."""
    found: dict[str, tuple[list[str], list[str]]] = {}
    for block in re.split(r"\n(?=\S)", text.strip()):
        if block.startswith("#"):
            continue
        most = max((each.count("|") for each in re.findall(r"{([^}]*)}", block)), default=0)
        for at in range(most + 1):
            sentence, *lines = _expanded(block, at).replace("\n    ", " ").splitlines()
            lines = [" ".join(line.split()) for line in lines if line.strip()]
            steps = [line for line in lines if line.split(" ")[0] in _MARKS]
            name = f"{sentence} ({at + 1})" if most else sentence
            assert name not in found
            found[name] = lines[: len(lines) - len(steps)], steps
    return found


def _expanded(block: str, at: int) -> str:
    return re.sub(r"{([^}]*)}", lambda each: each[1].split("|")[at], block)


class Given(NamedTuple):
    """The jobs, attempts and choices of a case."""

    desired: list[Launch]
    others: list[Launch]
    attempts: list[Attempt]
    choices: dict[str, Any]

    def plan(self) -> Plan:
        return plan(self.desired, *self.attempts, others=self.others, **self.choices)


def given(lines: list[str]) -> Given:
    made = Given([], [], [], {})
    for line in lines:
        if line.startswith("--"):
            made.choices.update(_options(line))
            continue
        declared, _, recorded = line.partition(":")
        declared, _, files = declared.partition(" edited=")
        for launch in _jobs(declared.strip("()[] ")):
            if declared[0] not in "([":
                made.desired.append(launch)
            elif declared[0] == "[":
                made.others.append(launch)
            if files:
                made.choices.setdefault("edited", {})[launch.key] = tuple(files.split(","))
            made.attempts.extend(_attempt(launch, each) for each in recorded.split(";") if each.strip())
    return made


def shown(made: Plan) -> list[str]:
    """Return the lines of a plan, in the notation of cases."""
    steps = [_shown(step) for step in made.steps]
    steps += [f"error: {each.code} {each}" for each in made.problems]
    return [" ".join(each.split()) for each in steps if not re.fullmatch(_KEPT, each)]


def _options(line: str) -> Iterator[tuple[str, Any]]:
    words = shlex.split(line)
    for name, value in zip(words, [*words[1:], "--"], strict=True):
        if name.startswith("--"):
            yield name[2:].replace("-", "_"), True if value.startswith("--") else [value]


def _fields(words: list[str], flags: Mapping[str, tuple[str, Any]]) -> dict[str, Any]:
    pairs = (word.partition("=") for word in words)
    given = {
        name: int(value) if value.isdecimal() else value.replace("\\n", "\n") or True
        for name, _, value in pairs
    }
    return dict(flags.get(name, (name, value)) for name, value in given.items())


def _version(words: list[str]) -> tuple[str, list[str]]:
    found = [word for word in words if re.fullmatch(r"v\d", word)]
    return (*found, "v1")[0], [word for word in words if word not in found]


def _jobs(text: str) -> list[Launch]:
    names, *words = shlex.split(text.replace(", ", ","))
    return [_job(name, words) for name in names.split(",")]


def _job(name: str, words: list[str]) -> Launch:
    version, words = _version(words)
    own = _fields(words, {"off": ("enabled", False)})
    needs = [Need(each) for each in own.pop("needs", "").split(",") if each]
    needs += [Need(each, rerun=False) for each in own.pop("order", "").split(",") if each]
    triggers = [Trigger("every_apply")] if own.pop("every", False) else []
    if (csv := own.pop("csv", None)) is not None:
        triggers.append(Trigger("files", ("*.csv",)))
        own["trigger_digest"] = combine({"*.csv": str(csv)})
    if (inputs := own.pop("inputs", None)) is not None:
        own |= {"inputs": ("a.py",), "inputs_digest": _inputs(inputs)}
    more = {name: own.pop(name) for name in _OF_LAUNCH if name in own}
    if "unresolved" in more:
        more["unresolved"] = {more["unresolved"]: "not known here"}
    return replace(job(name, version, needs=tuple(sorted(needs)), rerun_on=tuple(triggers), **own), **more)


def _inputs(content: object) -> str:
    return InputFiles(("a.py",), {"a.py": str(content)}).digest


def _attempt(launch: Launch, text: str) -> Attempt:
    number, state, *words = shlex.split(text)
    version, words = _version(words)
    own = _fields(words, {"held": ("owner", HOLDER), "busy": ("owner", OWNER)})
    if "on" in own:
        own["needs"] = tuple(_stood_on(launch, each) for each in own.pop("on").split(","))
    if "order" in own:
        own["order_only"] = tuple(own.pop("order").split(","))
    if "csv" in own:
        own["trigger_digest"] = combine({"*.csv": str(own.pop("csv"))})
    if "inputs" in own:
        own["inputs"] = _inputs(own["inputs"])
    [role] = launch.app.roles
    ran = replace(launch, app=replace(launch.app, roles=[replace(role, args=[version])]))
    return attempt(ran, state, int(number), **own)


def _stood_on(launch: Launch, text: str) -> StoodOn:
    name, number, edition = re.fullmatch(r"(.+)\.(\d+)(?:/(\d+))?", text).groups()  # type: ignore[union-attr]
    app_id = attempt_id(launch.key._replace(job=name), int(number))
    return StoodOn(name, int(number), int(edition or number), app_id, "local_cwd")


def _shown(step: Step) -> str:
    def listed(guards: tuple[Guard, ...]) -> str:
        return ", ".join(str(each.attempt) for each in guards)

    edition = f"/{step.edition}" if step.edition != step.number else ""
    needs = [f"{n.job}.{n.number}" + f"/{n.edition}" * (n.edition != n.number) for n in step.needs]
    parts = [
        f"{step.mark} {step.key.job}{f' #{step.number}{edition}' if step.starts else ''}: {step.why()}",
        *(
            f"{word} {text}"
            for word, text in (
                ("after", ", ".join(step.after)),
                ("on", ", ".join(needs)),
                ("stops", listed(step.stops)),
                ("withdraws", listed(step.withdraws)),
                ("leaves", listed(step.leftovers)),
                ("blocked:", step.blocked or ""),
                ("busy:", step.waits_for),
            )
            if text
        ),
        *(["consented"] if step.consented else []),
        *(f"note: {note}" for note in step.notes),
    ]
    return " · ".join(parts)
