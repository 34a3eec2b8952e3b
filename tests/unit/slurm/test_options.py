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


WRONG = {
    "host": ["-oProxyCommand=rm", "me@-oProxyCommand=rm", "login1 rm", "login1;rm", ""],
    "partition": ["gpu\n#SBATCH --uid=0"],
    "comment": ["one\ntwo"], "constraint": ["a b"], "gres": ["gpu:1\r"], "time": ["tomorrow", "1:75", ""],
    "job_dir": ["jobs", "~other/jobs", "$HOME/jobs", "/jobs\n"], "workdir": ["work"], "nodes": [0],
    "ntasks_per_node": [0], "on_preempted": ["ignore"],
}  # fmt: skip
RIGHT = {
    "host": ["login1", "me@login-1.site.example", "fe80::1%eth0"],
    "partition": ["gpu,cpu"],
    "constraint": ["[a100*2&ib]"],
    "comment": ['it\'s "mine" # 100 %'],
    "job_dir": ["~", "~/my jobs", "/scratch/me"],
}


@pytest.mark.parametrize(("name", "value"), [(name, each) for name in WRONG for each in WRONG[name]])
def test_a_value_that_cannot_stand_in_a_script_or_a_call_is_refused(name, value):
    with pytest.raises(InvalidRunConfigException) as caught:
        options().resolve({name: value})
    assert caught.value.cfg_key == name


@pytest.mark.parametrize(("name", "value"), [(name, each) for name in RIGHT for each in RIGHT[name]])
def test_option_values_that_sites_use_are_accepted(name, value):
    assert options().resolve({name: value})[name] == value


MINUTES = {
    "90": 90, "1:30": 2, "2:00:00": 120, "2:00:01": 121, "1-12": 2160, "1-12:30": 2190, "1-12:30:01": 2191,
}  # fmt: skip
MINUTES |= {"2h": 120, "1h30m": 90, "1d": 1440}


@pytest.mark.parametrize("time", [*MINUTES, "INFINITE", "UNLIMITED"])
def test_a_time_is_read_as_slurm_reads_it_or_as_a_duration(time):
    assert options().resolve({"time": time})["time"] == time
    assert minutes_of(time) == MINUTES.get(time)


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
    written = {1: "00:01:00", 90: "01:30:00", 1440: "1-00:00:00", 2970: "2-01:30:00"}
    assert {minutes: slurm_time(minutes) for minutes in written} == written


def test_every_refused_option_is_an_option_of_sbatch():
    assert OWN_OPTION.keys() | REFUSED.keys() <= KNOWN | OF_PYXIS
    assert not OWN_OPTION.keys() & REFUSED.keys()
    assert set(OWN_OPTION.values()) <= {name for name, _ in options()}
