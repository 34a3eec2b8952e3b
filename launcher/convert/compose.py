"""A compose file as a job of local_docker: each service is a role."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping

from launcher.convert.compose_fields import ALWAYS, FIELDS, IGNORED, ComposeJob, Service, Spec, command
from launcher.convert.compose_text import REASONS, Invalid, Texts
from launcher.convert.draft import Draft, label
from launcher.errors import LauncherError
from launcher.jobfile.diagnostic import Diagnostic, in_order, job_file_error
from launcher.jobfile.text.document import Document, Path as Place

_CONDITIONS = {
    "service_started": "started",
    "service_healthy": "ready",
    "service_completed_successfully": "succeeded",
}


def is_compose(value: object) -> bool:
    """Whether a mapping has the shape of a compose file."""
    return isinstance(value, Mapping) and isinstance(value.get("services"), Mapping) and "roles" not in value


def convert(document: Document, name: str = "") -> Draft:
    """Return the draft of the job that a compose file describes.

    Raises LauncherError where there is no service, JobFileError for fields that Compose refuses, too.
    """
    file, value = document.source.file, document.value or {}
    given = value.get("services")
    if not isinstance(given, Mapping) or not given:
        raise LauncherError(f"{file} has no services", hint="such as `services: {NAME: {image: …}}`")
    wrong = [
        _problem(document, ("services", each), "a service is a mapping")
        for each, spec in given.items()
        if not isinstance(spec, Mapping | None)
    ]
    if wrong:
        raise job_file_error(wrong)
    services: dict[str, Spec] = {each: spec or {} for each, spec in given.items()}
    folder = os.path.basename(os.path.dirname(os.path.abspath(file)))
    project = str(value.get("name") or re.sub(r"[^a-z0-9_-]", "", folder.lower()).strip("-_") or "default")
    draft = Draft(file, {"name": name or label(project), "scheduler": "local_docker"})
    draft.put(("roles",), {})
    roles = _roles(services, draft)
    job = ComposeJob(document, draft, project, services, roles, Texts(draft, _hosts(services, roles)))
    for each, role in roles.items():
        draft.put(("roles", role), {})
        wrong += _service(Service(job, each, role))
    wrong += _order(job)
    _ports(job)
    _shared(job)
    for key in value:
        if key in REASONS and key != "volumes":
            draft.lose((), key, REASONS[key])
    if wrong:
        raise job_file_error(in_order(wrong))
    return draft


def _problem(document: Document, path: Place, message: str) -> Diagnostic:
    source, start, end = document.key_range(path)
    return source.diagnostic(start, end, "invalid-value", message)


def _roles(services: Mapping[str, Spec], draft: Draft) -> dict[str, str]:
    """Service → role. A service with profiles is left out, unless another one waits for it."""
    awaited = {str(each) for spec in services.values() for each in _items(spec.get("depends_on"))}
    roles: dict[str, str] = {}
    for name, spec in services.items():
        if spec.get("profiles") and name not in awaited and len(services) > 1:
            why = "it starts with a profile only: convert the file without `profiles` to have it"
            draft.lose(("roles",), f"service {name}", why)
            continue
        role, number = label(name), 2
        while role in roles.values():
            role, number = f"{label(name)[:60]}-{number}", number + 1
        roles[name] = role
    return roles


def _items(value: object) -> Iterable[object]:
    """Return the items of a list or the keys of a mapping; nothing for any other value."""
    return value if isinstance(value, list | Mapping) else ()


def _hosts(services: Mapping[str, Spec], roles: Mapping[str, str]) -> dict[str, str]:
    """Return every host name of a service → its role."""
    hosts = {}
    for name, role in roles.items():
        for key in ("container_name", "hostname"):
            if isinstance(services[name].get(key), str):
                hosts[services[name][key]] = role
        for link in _items(services[name].get("links")):
            other, _, alias = str(link).partition(":")
            if other in roles:
                hosts[alias or other] = roles[other]
    return hosts | dict(roles)


def _service(service: Service) -> Iterator[Diagnostic]:
    """Give each key of a service a place in the job; yields the keys' problems."""
    document, spec = service.job.document, service.spec
    try:
        command(service)
    except ValueError as error:
        message = f"the command line of service `{service.name}` cannot be read: {error}"
        yield _problem(document, ("services", service.name), message)
    for key, value in spec.items():
        path: Place = ("services", service.name, key)
        if value is None or key in IGNORED or key.startswith("x-"):
            continue
        if key not in FIELDS:
            service.lose(key, REASONS.get(key, "launcher has no such field"))
            continue
        try:
            FIELDS[key](service, value, path)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            why = f": {error}" if isinstance(error, Invalid) else ""
            message = f"`{key}` of service `{service.name}` has no form that Compose takes{why}"
            yield _problem(document, path, message)


def _order(job: ComposeJob) -> Iterator[Diagnostic]:
    """Set the order of roles, and mark the services. Yields the problems of the order."""
    needed: set[str] = set()
    ended: set[str] = set()
    for name, role in job.roles.items():
        service, at = Service(job, name, role), ("services", name, "depends_on")
        given = service.spec.get("depends_on") or {}
        waits: Spec = {str(each): {} for each in given} if isinstance(given, list) else given
        rules = waits.values() if isinstance(waits, Mapping) else [waits]
        if not isinstance(waits, Mapping) or not all(isinstance(rule, Mapping | None) for rule in rules):
            message = f"`depends_on` of service `{name}` is a list, or a mapping of conditions"
            yield _problem(job.document, at, message)
            continue
        for other, rule in waits.items():
            if other not in job.roles:
                yield _problem(job.document, at, f"service `{name}` depends on `{other}`, which there is not")
                continue
            condition = _wait(service, job.roles[other], rule or {})
            (ended if condition == "succeeded" else needed).add(job.roles[other])
    _serve(job, needed - ended, ended)


def _wait(service: Service, target: str, rule: Spec) -> str:
    condition = _CONDITIONS.get(str(rule.get("condition")), "started")
    if condition == "ready" and "ready" not in service.job.draft.fields["roles"][target]:
        why = f"role `{target}` has no probe: give it `ready`, and write `ready` here"
        service.lose(f"service_healthy of {target} for depends_on", why, "depends_on", target)
        condition = "started"
    service.put("depends_on", target, value=condition)
    if rule.get("restart"):
        why = "`retry_policy: application` restarts all roles"
        service.lose(f"restart with {target}", why, "depends_on", target)
    return condition


def _serve(job: ComposeJob, needed: set[str], ended: set[str]) -> None:
    """Mark as services the roles that others need, and endless roles beside roles that end."""
    restarted = {role for name, role in job.roles.items() if job.services[name].get("restart") in ALWAYS}
    endless = restarted | job.servers
    last = {*job.roles.values()} - needed - ended
    serving = needed | (endless - ended if last - endless else set())
    open_ended = (last - serving) & (endless | {role for role, _, _ in job.ports})
    for role in job.roles.values():
        if role in serving:
            job.draft.put(("roles", role, "service"), True)
    if open_ended:
        named = ", ".join(f"`{role}`" for role in job.roles.values() if role in open_ended)
        text = (
            f"A job ends when its roles have ended with 0, and {named} may run without an end: then it runs"
        )
        job.draft.note((), f"{text} until `launcher cancel`, or until a `timeout` that you set.")


def _ports(job: ComposeJob) -> None:
    counts = job.draft.fields["roles"]
    is_alone = all(counts[role].get("num_replicas", 1) == 1 for role, _, _ in job.ports)
    is_same = all(host in ("", str(port)) for _, port, host in job.ports)
    is_fixed = is_alone and is_same and len({port for _, port, _ in job.ports}) == len(job.ports)
    is_fixed = is_fixed and any(host for _, _, host in job.ports)
    for role, port, host in job.ports:
        job.draft.put(("roles", role, "port_map", f"p{port}"), port)
        if host and not is_fixed:
            why = "the engine picks the port of the host, and `launcher describe` shows it"
            job.draft.lose(("roles", role, "port_map", f"p{port}"), f"port {host} of the host", why)
    if is_fixed:
        job.draft.put(("cfg", "ports"), "fixed")
    if job.ports:
        job.draft.note(("cfg", "ports"), "Ports are published on 127.0.0.1 alone.")


def _shared(job: ComposeJob) -> None:
    """Set the options of the job from values that all roles share; other values have no place in the job."""
    for key, values in job.common.items():
        if key == "grace_s":
            job.draft.put(("cfg", key), max(values))
        elif len(values) == len(job.roles) and len({*map(str, values)}) == 1:
            job.draft.put(("cfg", key), values[0])
        else:
            shown = ", ".join(dict.fromkeys(map(str, values)))
            job.draft.lose((), f"{key} {shown}", f"`{key}` in cfg is for all roles, and they differ")
    if all(job.services[name].get("entrypoint") for name in job.roles):
        job.draft.put(("cfg", "override_entrypoint"), True)
