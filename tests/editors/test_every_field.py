"""yaml-language-server explains and offers every field and scheduler option with our descriptions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from textwrap import indent
from typing import Any, NamedTuple

import pytest

from launcher.cli.schema import declared_schedulers, schema
from launcher.jobfile.model import job_file as model, role as model_role
from launcher.jobfile.model.types import Model
from launcher.specs.text import to_yaml
from tests.editors.lsp import Server
from tests.editors.test_yaml_server import COMPONENT, HEAD, ROLE


class Where(NamedTuple):
    """The place of a mapping in a job file.

    Attributes:
        before: the text of the file down to its first field; the last line is the indentation of its fields.
        fields: name → (description, example).
        there: the fields that `before` holds.
        about: what the server says in place of the words of a field that is the only one, and required.
    """

    before: str
    fields: Mapping[str, tuple[str, Any]]
    there: frozenset[str] = frozenset()
    about: str = ""


def of_model(cls: type[Model], *without: str) -> dict[str, tuple[str, Any]]:
    infos = {name: info for name, info in cls.model_fields.items() if name not in without}
    return {name: (info.description or "", (info.examples or [""])[0]) for name, info in infos.items()}


def of_schema(*path: str) -> dict[str, tuple[str, Any]]:
    """Return the fields of a mapping that is no model, from the schema: their words end with an example."""
    place: Any = schema("job")
    for part in path:
        place = place[part]
    properties = place["properties"].items()
    texts = {name: each["description"].partition(" Example: ")[0] for name, each in properties}
    return {name: (text, "x") for name, text in texts.items()}


RUN = frozenset({"entrypoint"})
TYPE = frozenset({"type"})
IN_ROLE: Mapping[str, tuple[str, type[Model]]] = {
    "probe": ("ready:\n  ", model_role.ProbeSpec),
    "resource": ("resource:\n  ", model_role.Resources),
}
MOUNTS = {"bind": model_role.BindMount, "volume": model_role.VolumeMount, "device": model_role.DeviceMount}
VARS = {"int": model.IntVar, "float": model.FloatVar, "str": model.StrVar, "bool": model.BoolVar}
FIXED = ("version", "name", "targets", "extends", "abstract", "jobs")
OF_COMPONENT = ("component", "args")


def mappings() -> Iterator[tuple[str, Where]]:
    yield "job", Where(HEAD, of_model(model.JobFile, *OF_COMPONENT), frozenset({"version", "name"}))
    of_component = {name: of_model(model.JobFile)[name] for name in OF_COMPONENT}
    said = "Echoes a message to stdout."  # of the component itself, in place of the words of `args`
    yield "component", Where(COMPONENT, of_component, frozenset({"component"}), said)
    yield "role", Where(f"{ROLE}    ", of_model(model_role.RoleSpec), RUN)
    yield "defaults", Where(f"{ROLE}defaults:\n  ", of_schema("properties", "defaults"))
    yield "defaults.role", Where(f"{ROLE}defaults:\n  role:\n    ", of_model(model_role.RoleSpec))
    yield "need", Where(f"{ROLE}needs:\n  other:\n    ", of_model(model.NeedSpec))
    yield "lifecycle", Where(f"{ROLE}lifecycle:\n  ", of_model(model.LifecycleSpec))
    yield "trigger", only(f"{ROLE}lifecycle:\n  rerun_on:\n    - ", model.FilesTrigger)
    yield "secret", only(f"{ROLE}    env:\n      A:\n        ", model_role.SecretRef)
    yield "matrix", Where(f"{ROLE}matrix:\n  ", of_schema("properties", "matrix"))
    axis = of_schema("properties", "matrix", "additionalProperties", "anyOf", 1)  # type: ignore[arg-type]
    yield "axis", Where(f"{ROLE}matrix:\n  seed:\n    ", axis)
    for name, (opening, cls) in IN_ROLE.items():
        yield name, Where(ROLE + indent(opening, "    ", bool), of_model(cls))
    for name, mount in MOUNTS.items():
        before = f"{ROLE}    mounts:\n      - type: {name}\n        "
        yield f"mount: {name}", Where(before, of_model(mount), TYPE)
    for name, variable in VARS.items():
        before = f"{ROLE}vars:\n  n:\n    type: {name}\n    "
        fields = {**of_model(variable), "type": ("Which kind.", name)}
        yield f"variable: {name}", Where(before, fields, TYPE)
    yield from targets()
    yield from options()


def only(before: str, cls: type[Model]) -> Where:
    return Where(before, of_model(cls), about=str(cls.__doc__))


def targets() -> Iterator[tuple[str, Where]]:
    """The same mappings where a target lays something over them."""
    top = f"{ROLE}targets:\n  dev:\n    "
    yield "target", Where(top, of_model(model.JobFile, *FIXED, "vars", *OF_COMPONENT))
    yield "target: role", Where(f"{top}roles:\n      main:\n        ", of_model(model_role.RoleSpec))
    yield "target: lifecycle", Where(f"{top}lifecycle:\n      ", of_model(model.LifecycleSpec))
    yield "target: need", Where(f"{top}needs:\n      other:\n        ", of_model(model.NeedSpec))
    yield ("target: defaults", Where(f"{top}defaults:\n      role:\n        ", of_model(model_role.RoleSpec)))
    for name, (opening, cls) in IN_ROLE.items():
        before = f"{top}roles:\n      main:\n" + indent(opening, " " * 8, bool)
        yield f"target: {name}", Where(before, of_model(cls))
    variable = of_schema("$defs", "Overlay", "properties", "vars", "patternProperties", VAR)
    yield "target: variable", Where(f"{top}vars:\n      n:\n        ", variable)


VAR = model.VAR_NAME


def options() -> Iterator[tuple[str, Where]]:
    """`cfg` of a job, of a target with its own scheduler, and of a target that has the one of the job."""
    for name, declared in declared_schedulers().items():
        known = {key: (f"{opt.help[:1].upper()}{opt.help[1:]}.", "x") for key, opt in declared.options}
        job = f"{ROLE}scheduler: {name}\n"
        yield f"cfg: {name}", Where(f"{job}cfg:\n  ", known)
        own = f"{ROLE}targets:\n  dev:\n    scheduler: {name}\n    cfg:\n      "
        yield f"target: cfg: {name}", Where(own, known)
        yield f"cfg of the job's {name}", Where(f"{job}targets:\n  dev:\n    cfg:\n      ", known)
        of_role = {key: known[key] for key, _ in declared.options.of_role()}
        if of_role:
            yield f"cfg of a role: {name}", Where(f"{ROLE}    cfg:\n      ", of_role)
        if name == "local_cwd":
            yield "cfg without a scheduler", Where(f"{ROLE}cfg:\n  ", known)


every_mapping = pytest.mark.parametrize("place", [pytest.param(place, id=name) for name, place in mappings()])


def plain(markdown: str) -> str:
    """Markdown without the escapes of the server."""
    return re.sub(r"\\([^\w\s])", r"\1", markdown).replace("&nbsp;", " ")


@every_mapping
def test_the_server_explains_every_field_with_its_own_description(server: Server, place: Where) -> None:
    silent = {}
    for name, (words, example) in place.fields.items():
        before = place.before
        if name in place.there:  # the pointer is on the one that is there
            text = re.sub(
                rf"(?m)^([ -]*){name[0]}({name[1:]}:)(?!.*^[ -]*{name}:)",
                rf"\1{name[0]}|\2",
                before,
                flags=re.S,
            )
        else:
            margin = " " * len(before.rpartition("\n")[2])
            entry = to_yaml({name: example}).rstrip("\n").replace("\n", f"\n{margin}")
            text = f"{before}{entry[0]}|{entry[1:]}\n"
        said = plain(server.hover(text))
        if words not in said:
            silent[name] = said
    assert silent == {}


@every_mapping
def test_the_server_offers_every_field_with_its_description(server: Server, place: Where) -> None:
    offered = server.complete(f"{place.before}|")
    silent = set()
    for name, (words, _) in place.fields.items():
        said = offered[name].words if name in offered else ""
        if name not in place.there and words not in said and not (place.about and place.about in said):
            silent.add(name)
    assert silent == set()


# An option in `cfg` of Slurm → the marked text, and the words about it.
WRONG_OPTIONS = {
    "partiton: gpu": ("partiton", "Property partiton is not allowed."),
    "nodes: many": ("many", "want an integer, or a reference such as $<var.NAME>"),
    "nodes: 0": ("0", "Value is below the minimum of 1."),
    "time: 9x": ("9x", "want a time such as 2h, 90 (minutes), 2:00:00 or 1-12:00:00"),
    "on_preempted: wait": ("wait", 'Value is not accepted. Valid values: "fail", "requeue".'),
    "setup: module load cuda": ("module load cuda", "Incorrect type. Expected one of array, null."),
}


@pytest.mark.parametrize("place", ["", "targets:\n  dev:\n    "], ids=["job", "target"])
@pytest.mark.parametrize("option", WRONG_OPTIONS)
def test_the_server_marks_a_wrong_option_with_a_readable_message(server, option, place):
    margin = " " * len(place.rpartition("\n")[2])
    found = server.findings(f"{ROLE}{place}scheduler: slurm\n{margin}cfg: {{{option}}}\n")
    assert [(finding.marked, finding.message) for finding in found] == [WRONG_OPTIONS[option]]


def test_the_server_leaves_right_options_and_options_of_plugin_schedulers_unmarked(server: Server) -> None:
    right = "cfg: {partition: gpu, nodes: $<var.n>, time: 90, qos: null, sbatch: {nice: '5'}}\n"
    assert server.findings(f"{ROLE}scheduler: slurm\n{right}") == []
    assert server.findings(f"{ROLE}scheduler: procs\ncfg: {{anything: [1]}}\n") == []
    assert server.findings(f"{ROLE}{right}") == []  # launcher.toml may name the scheduler
    assert (
        server.findings(
            f"{ROLE}targets: {{dev: {{cfg: {{nodes: 2}}}}, slurm: {{scheduler: slurm, cfg: null}}}}\n"
        )
        == []
    )
