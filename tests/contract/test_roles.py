"""Contract: roles that wait for each other and end with the app, or a refusal that names what is missing."""

from typing import Any

import pytest

from launcher.schedulers.checks import RejectedAppError
from launcher.specs import AppDef, AppState, Probe
from launcher.specs.app import CAPABILITIES
from tests.contract.conftest import Case, states
from tests.contract.test_staged import observed, submit

FIELDS: dict[str, Any] = {
    "service": True, "ready": Probe(file="up"), "depends_on": {"main": "started"}, "retry_delay": 1,
    "cfg": {"read_only": True},
}  # fmt: skip
"""Field that a scheduler may leave to others (`BY_CAPABILITY`) → a value for it."""
ORDER = ("service", "ready", "depends_on", "retry_delay")
"""The fields that the tests of roles which wait for each other need."""


def test_every_field_that_a_scheduler_may_lack_has_a_test_value() -> None:
    assert {*FIELDS} == {field.name for field in CAPABILITIES}


@pytest.mark.parametrize("field", FIELDS)
def test_a_scheduler_refuses_a_field_that_it_does_not_support(case: Case, field: str) -> None:
    if field in case.scheduler.supports:
        pytest.skip(f"{case.name} supports {field}")
    app = AppDef("app", [case.role("main", "true"), case.role("other", "true", **{field: FIELDS[field]})])
    with pytest.raises(
        RejectedAppError, match=rf"roles.other.{field}: {case.name} does not support `{field}`"
    ):
        case.scheduler.submit_dryrun(app, {})


def test_options_of_a_role_override_options_of_the_app(case: Case) -> None:
    if "cfg" not in case.scheduler.supports:
        pytest.skip(f"{case.name} has no options for roles")
    script = "touch /x 2>/dev/null && echo written || echo refused"
    roles = [case.role("main", script), case.role("other", script, cfg={"read_only": False})]
    app_id = case.start(AppDef("app", roles), read_only=True)
    assert case.end(app_id).state is AppState.SUCCEEDED
    assert [case.lines(app_id, name) for name in ("main", "other")] == [["refused\n"], ["written\n"]]


def test_an_option_that_no_role_may_set_is_refused(case: Case) -> None:
    if "cfg" not in case.scheduler.supports:
        pytest.skip(f"{case.name} has no options for roles")
    app = AppDef("app", [case.role("main", "true", cfg={"timeout_s": 3})])
    with pytest.raises(RejectedAppError, match=r"roles.main.cfg.timeout_s: a role may set .*, and not"):
        case.scheduler.submit_dryrun(app, {})


@pytest.mark.parametrize("name", ["rank0_host", "role.main.host"])
def test_a_scheduler_refuses_a_host_that_it_does_not_know(case: Case, name: str) -> None:
    if "hosts" in case.scheduler.supports:
        pytest.skip(f"{case.name} knows hosts")
    app = AppDef("app", [case.role("main", f"echo $<{name}>")])
    with pytest.raises(RejectedAppError, match=f"{case.name} does not know the host in `.<{name}>`"):
        case.scheduler.submit_dryrun(app, {})


@pytest.fixture
def able(case: Case) -> Case:
    """A scheduler that supports order, services and probes of roles, perhaps without hosts."""
    missing = {*ORDER} - {*case.scheduler.supports}
    if missing:
        pytest.skip(f"{case.name} does not support {', '.join(sorted(missing))}")
    return case


def _server(case: Case, script: str = "sleep 0.2; touch {up}; sleep 1000", **fields: Any) -> Any:
    up = str(case.shared / "up")
    made = {"service": True, "ready": Probe(file=up), **fields}
    return case.role("server", script.format(up=up), **made)


def test_the_app_ends_when_all_of_its_roles_that_are_no_services_have_ended(able: Case) -> None:
    client = able.role("client", f"cat {able.shared}/up", depends_on={"server": "ready"})
    found = able.run(AppDef("app", [client, _server(able)]))
    assert found.state is AppState.SUCCEEDED
    assert [text.rsplit(" ", 1)[0] for text in states(found)] == ["client/0 SUCCEEDED", "server/0 CANCELLED"]
    assert found.roles_statuses[1].replicas[0].message == "stopped at the end of the app"


def test_the_start_returns_while_a_role_waits_which_does_not_count_as_unstarted(able, staged):
    client = able.role("client", "true", depends_on={"server": "ready"})
    attempt = submit(able, staged, AppDef("train", [client, _server(able, "sleep 1000")]))
    able.until_running(attempt.app_id)
    (seen,) = observed(staged)  # others may use the same engine
    assert (seen.key, seen.state, seen.unstarted) == (attempt.key, "running", 0)
    record = able.another().record(attempt.app_id)
    assert record.state == "running"
    assert [(one.state, one.message) for one in record.replicas if one.role == "client"] == [
        ("pending", "waiting for server (ready)")
    ]
    able.scheduler.cancel(attempt.app_id)
    assert able.end(attempt.app_id).state is AppState.CANCELLED


def test_replicas_find_each_other(able: Case) -> None:
    if "hosts" not in able.scheduler.supports:
        pytest.skip(f"{able.name} knows no hosts")
    script = "echo $<role.server.host> $<rank0_host> $LAUNCHER_HOST_SERVER $LAUNCHER_RANK0_HOST"
    client = able.role("client", script, depends_on={"server": "ready"})
    app_id = able.start(AppDef("app", [_server(able), client]))
    assert able.end(app_id).state is AppState.SUCCEEDED
    (line,) = able.lines(app_id, "client")
    assert len(set(line.split())) == 1


@pytest.mark.slow
def test_a_replica_that_is_never_ready_fails_the_app(able: Case) -> None:
    missing = str(able.shared / "missing")
    server = _server(able, "sleep 1000", ready=Probe(file=missing, timeout=0.5, every=0.1))
    client = able.role("client", "true", depends_on={"server": "ready"})
    found = able.run(AppDef("app", [client, server]))
    assert found.state is AppState.FAILED
    assert found.msg == f"server/0 was not ready after 0.5 s: there is no file {missing}"


def _steps(case: Case) -> list[str]:
    """Return the lines that the replicas have written to the file `steps`."""
    return (case.shared / "steps").read_text().split()


def _says(case: Case, word: str) -> str:
    return f"echo {word} >>{case.shared}/steps"


def test_roles_in_a_chain_start_although_nothing_runs_between_them(able: Case) -> None:
    first = able.role("first", f"sleep 0.1; {_says(able, 'first')}", replicas=2)
    second = able.role("second", _says(able, "second"), depends_on={"first": "succeeded"})
    third = able.role("third", _says(able, "third"), depends_on={"second": "succeeded"})
    assert able.run(AppDef("app", [third, second, first])).state is AppState.SUCCEEDED
    assert _steps(able) == ["first", "first", "second", "third"]


@pytest.mark.slow
def test_a_restart_of_the_app_starts_its_roles_in_order_again(able: Case) -> None:
    up, tries = able.shared / "up", able.shared / "tries"
    server = _server(able, f"rm -f {up}; {_says(able, 'server')}; sleep 0.3; touch {up}; sleep 1000")
    client = able.role(
        "client",
        f"test -e {up} && {_says(able, 'client')}; test -e {tries} || {{ touch {tries}; exit 3; }}",
        depends_on={"server": "ready"}, max_retries=1, retry_policy="APPLICATION",
    )  # fmt: skip
    found = able.run(AppDef("app", [client, server]), grace_s=0.0)
    assert (found.state, found.num_restarts) == (AppState.SUCCEEDED, 1)
    assert _steps(able) == ["server", "client", "server", "client"]


def test_a_replica_that_ends_before_it_is_ready_fails_the_app_when_roles_wait_for_it(able: Case) -> None:
    client = able.role("client", "true", depends_on={"server": "ready"})
    found = able.run(AppDef("app", [client, _server(able, "true")]))
    assert found.state is AppState.FAILED
    assert found.msg == "server/0 ended before it was ready, and client waits for it"


def test_a_replica_that_ends_with_the_file_of_its_probe_was_ready(able: Case) -> None:
    client = able.role("client", "true", depends_on={"server": "ready"})
    assert able.run(AppDef("app", [client, _server(able, "touch {up}")])).state is AppState.SUCCEEDED


@pytest.mark.slow
def test_the_log_of_a_role_that_waits_is_followed_to_its_end(able: Case) -> None:
    client = able.role("client", "echo hello", depends_on={"server": "ready"})
    app_id = able.start(AppDef("app", [client, _server(able, "sleep 1; touch {up}; sleep 1000")]))
    assert able.lines(app_id, "client", should_tail=True) == ["hello\n"]
    assert able.end(app_id).state is AppState.SUCCEEDED
