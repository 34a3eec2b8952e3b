"""A secret is in the container that asked for it, and in no label, record, plan or output of launcher."""

import json

from tests.scenarios.test_secrets import BY_NAME, COMMANDS, ENV, WANTED, holds_canary, leaks, secret  # noqa: F401

PROVE = 'printf %s "$TOKEN" | sha256sum; printf %s "$KEY" | sha256sum'


def test_a_container_gets_its_secrets_and_no_label_record_or_output_holds_them(secret):  # noqa: F811
    file = secret.job(PROVE, role=ENV)
    message = []
    for words in COMMANDS:
        argv = [file if word == "FILE" else word for word in words]
        done = secret.launcher(*argv, code=None)
        message += [f"{words}: {text}" for text in (done.out, done.err) if holds_canary(text)]
    assert message == []
    assert [line.split()[0] for line in secret.logs("job@1", "--no-prefix").splitlines()] == WANTED
    assert leaks(secret) == []
    labels = [json.dumps(dict(thing.labels)) for thing in secret.things()]
    assert not any(map(holds_canary, labels))
    container = secret.daemon.inspect(secret.containers()[0].id)
    assert BY_NAME in json.dumps(container["Config"]["Env"])  # the search would find a leak


def test_the_watcher_does_not_hold_the_secrets_of_its_app(secret):  # noqa: F811
    secret.running(role=ENV)
    [watcher] = secret.supervisors().values()
    with open(f"/proc/{watcher}/environ", "rb") as environ, open(f"/proc/{watcher}/cmdline", "rb") as argv:
        assert not holds_canary(environ.read() + argv.read())
    secret.cancel("job")
