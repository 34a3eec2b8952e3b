"""Contract: the receiver of an apply gets the outcome of an attempt, without another command."""

import json
from pathlib import Path

from tests.sink import KEY, Sink


def test_the_receiver_of_an_apply_gets_the_outcome_without_another_command(case, scenario, monkeypatch):
    monkeypatch.setenv("HOOK_KEY", KEY)
    image = f"    image: {case.image}\n" if case.image else ""
    job = scenario.write("job.launcher.yaml", "")
    Path(job).write_text(
        f"version: 1\nname: job\nproject: {case.session}\nscheduler: {case.name}\nroles:\n  r:\n{image}"
        "    entrypoint: sh\n    args: [-c, exit 3]\n"
    )
    with Sink() as sink:
        scenario.apply(job, "--notify", sink.url, "--notify-secret", "env:HOOK_KEY")
        [(_, body)] = sink.wait()
    data = body["data"]
    assert (data["job"], data["state"], data["exit_code"]) == ("job", "failed", 3), json.dumps(data)
    assert data["handle"].startswith(f"{case.name}://{case.session}/")
