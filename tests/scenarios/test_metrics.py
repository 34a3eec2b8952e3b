"""`launcher metrics` shows an app run and end on every engine, without another command in between."""

from tests.unit.cli.test_metrics import Samples, read
from tests.waiting import until


def metrics(scenario) -> Samples:
    scenario.launcher("metrics", "--textfile", "m.prom")
    return read((scenario.folder / "m.prom").read_text())


def value(samples: Samples, name: str, *labels: str) -> float:
    """Return the sum of the samples of a name whose labels have all these values."""
    return sum(each for (one, text), each in samples.items() if one == name and {*labels} <= {*text.split()})


def test_an_app_is_running_and_then_has_ended_with_its_exit_code(scenario):
    _, gate = scenario.running("exit 3")
    assert value(metrics(scenario), "apps", "running") == 1
    gate.open()
    until(lambda: value(metrics(scenario), "attempts_total", "failed"))
    found = metrics(scenario)
    assert value(found, "apps") == 0
    assert value(found, "job_last_outcome", "job", "failed") == 1
    assert value(found, "job_last_exit_code", "job") == 3
    assert value(found, "job_last_duration_seconds", "job") > 0
