"""The run options of slurm: names, values, and the options of sbatch that go through."""

import pytest

from launcher.jobfile import load_job
from launcher.schedulers.slurm.options import (
    KNOWN,
    OF_PYXIS,
    OWN_OPTION,
    REFUSED,
    minutes_of,
    options,
    slurm_time,
)
from launcher.specs import InvalidRunConfigException

ROLES = "roles: {main: {entrypoint: python}}\n"


def test_options_have_the_names_of_torchx_and_of_other_schedulers():
    names = {name for name, _ in options()}
    assert {"partition", "time", "comment", "constraint", "qos", "nomem", "job_dir"} <= names
    assert {"account", "nodes", "ntasks_per_node", "gres", "host", "setup", "sbatch", "on_preempted"} <= names
    assert {"timeout_s", "grace_s", "workdir"} <= names


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("host", "-oProxyCommand=rm"),
        ("host", "me@-oProxyCommand=rm"),
        ("host", "login1 rm"),
        ("host", "login1;rm"),
        ("host", ""),
        ("partition", "gpu\n#SBATCH --uid=0"),
        ("comment", "one\ntwo"),
        ("constraint", "a b"),
        ("gres", "gpu:1\r"),
        ("time", "tomorrow"),
        ("time", "1:75"),
        ("time", ""),
        ("job_dir", "jobs"),
        ("job_dir", "~other/jobs"),
        ("job_dir", "$HOME/jobs"),
        ("job_dir", "/jobs\n"),
        ("workdir", "work"),
        ("nodes", 0),
        ("ntasks_per_node", 0),
        ("on_preempted", "ignore"),
    ],
)
def test_a_value_that_cannot_stand_in_a_script_or_a_call_is_refused(name, value):
    with pytest.raises(InvalidRunConfigException) as caught:
        options().resolve({name: value})
    assert caught.value.cfg_key == name


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("host", "login1"),
        ("host", "me@login-1.site.example"),
        ("host", "fe80::1%eth0"),
        ("partition", "gpu,cpu"),
        ("constraint", "[a100*2&ib]"),
        ("comment", 'it\'s "mine" # 100 %'),
        ("job_dir", "~"),
        ("job_dir", "~/my jobs"),
        ("job_dir", "/scratch/me"),
    ],
)
def test_option_values_that_sites_use_are_accepted(name, value):
    assert options().resolve({name: value})[name] == value


@pytest.mark.parametrize(
    ("time", "minutes"),
    [
        ("90", 90),
        ("1:30", 2),
        ("2:00:00", 120),
        ("2:00:01", 121),
        ("1-12", 2160),
        ("1-12:30", 2190),
        ("1-12:30:01", 2191),
        ("2h", 120),
        ("1h30m", 90),
        ("1d", 1440),
        ("INFINITE", None),
        ("UNLIMITED", None),
    ],
)
def test_a_time_is_read_as_slurm_reads_it_or_as_a_duration(time, minutes):
    assert options().resolve({"time": time})["time"] == time
    assert minutes_of(time) == minutes


def test_the_time_option_takes_minutes_as_a_number(tmp_path):
    opts = options()
    assert opts.resolve({"time": 90}) == opts.resolve({"time": "90"})
    assert opts.cfg_from_json_repr('{"time": 90}') == {"time": "90"}
    for wrong in (True, 1.5, -5):
        with pytest.raises(InvalidRunConfigException, match="time"):
            opts.resolve({"time": wrong})
    for time in ("90", "'90'"):
        file = tmp_path / "job.launcher.yaml"
        file.write_text(f"version: 1\nname: j\nscheduler: slurm\ncfg: {{time: {time}}}\n{ROLES}")
        assert load_job(str(file), schedulers={"slurm": options}).cfg["time"] == "90"


def test_minutes_are_written_as_days_and_a_clock():
    assert [slurm_time(each) for each in (1, 90, 1440, 2970)] == [
        "00:01:00",
        "01:30:00",
        "1-00:00:00",
        "2-01:30:00",
    ]


def test_every_refused_option_is_an_option_of_sbatch():
    assert OWN_OPTION.keys() | REFUSED.keys() <= KNOWN | OF_PYXIS
    assert not OWN_OPTION.keys() & REFUSED.keys()
    assert set(OWN_OPTION.values()) <= {name for name, _ in options()}
