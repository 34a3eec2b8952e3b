"""`service`, `ready` and `depends_on`, in the AppDef and in its document."""

from typing import Any

import pytest

from launcher.components.evaluate import app_from_json, app_to_json
from launcher.jobfile.compile.files import compile_text
from launcher.specs import (
    AppDef,
    Launch,
    Probe,
    Role,
    app_from_document,
    check_app,
    digest,
    document,
    renormalise,
)

HEAD = "version: 1\nname: job\nroles:\n"
SERVER = "  server: {entrypoint: s, service: true, ready: {port: 80}}\n"


def _launch(roles: str) -> Launch:
    made = compile_text(HEAD + roles, "/tmp/job.launcher.yaml")
    made.raise_for_errors()
    return made.launches[0]


def _document(roles: str) -> Any:
    return document(_launch(roles))["roles"]


def test_the_document_holds_the_order_of_roles_only_where_it_is_set() -> None:
    main = "  main: {entrypoint: m, depends_on: {server: started}, retry_delay: 1m}\n"
    server, main = _document(SERVER + main)
    assert server == {"name": "server", "entrypoint": "s", "service": True, "ready": {"port": 80}}
    assert main == {"name": "main", "entrypoint": "m", "depends_on": {"server": "started"}, "retry_delay": 60}


def test_defaults_written_out_do_not_change_the_digest() -> None:
    plain = SERVER + "  main: {entrypoint: m}\n"
    wording = (
        "  server: {entrypoint: s, service: true, ready: {port: 80, every: 1s, timeout: 1m, command: []}}\n"
        "  main: {entrypoint: m, service: false, depends_on: [], retry_delay: 0}\n"
    )
    assert digest(document(_launch(plain))) == digest(document(_launch(wording)))


def test_the_order_of_roles_survives_documents_and_processes() -> None:
    launch = _launch(
        "  server: {entrypoint: s, service: true, ready: {command: [a, 1], every: 500ms}}\n"
        "  main: {entrypoint: m, args: [$<role.server.host>], depends_on: [server], retry_delay: 2s}\n"
    )
    made = document(launch)
    assert renormalise(made) == made
    assert app_from_document(made, "job", {}) == launch.app
    assert app_from_json(app_to_json(launch.app)) == launch.app
    assert made["roles"][0]["ready"] == {"command": ["a", "1"], "every": 0.5}
    assert made["roles"][1]["args"] == ["$<role.server.host>"]


@pytest.mark.parametrize(("roles", "message"), [
    ([Role("a", "", entrypoint="x", depends_on={"b": "ready"})], "there is no role `b`; there are: a"),
    ([Role("a", "", entrypoint="x", service=True)], "all roles are services"),
    ([Role("a", "", entrypoint="x", service=1)], "service is True or False, got 1"),
    ([Role("a", "", entrypoint="x", ready={"port": 1})], "want a Probe, got"),
    ([Role("a", "", entrypoint="x", ready=Probe())], "a probe needs `port`"),
    ([Role("a", "", entrypoint="x", ready=Probe(command="ls"))], "command is a tuple of texts"),
    ([Role("a", "", entrypoint="x", ready=Probe(file=3))], "file is text, got 3"),
    ([Role("a", "", entrypoint="x", ready=Probe(port=0))], "a port is an integer from 1 to 65535"),
    ([Role("a", "", entrypoint="x", depends_on=["b"])], "depends_on is a mapping"),
    ([Role("a", "", entrypoint="x", retry_delay=301)], "retry_delay is at most 300, got 301"),
    ([Role("a", "", entrypoint="$<role.b.host>")], "`$<role.b.host>` names no role of this app"),
])  # fmt: skip
def test_an_app_from_python_is_checked_as_a_job_file_is(roles: list[Role], message: str) -> None:
    assert any(found.message.startswith(message) for found in check_app(AppDef("app", roles))), check_app(
        AppDef("app", roles)
    )


def test_a_circle_is_reported_once_from_its_first_role() -> None:
    roles = [
        Role("z", "", entrypoint="x", depends_on={"a": "started"}),
        Role("a", "", entrypoint="x", depends_on={"c": "started"}),
        Role("b", "", entrypoint="x", depends_on={"a": "started"}),
        Role("c", "", entrypoint="x", depends_on={"b": "started"}),
    ]
    found = [each.message for each in check_app(AppDef("app", roles))]
    assert found == ["roles wait for each other: a → c → b → a"]
