"""Names in an engine: DNS labels, stable, and no two things alike."""

import re

from hypothesis import given, strategies as st

from launcher.schedulers.docker.names import container_name, error_file, scratch_volume
from launcher.schedulers.docker.request import build_request
from launcher.schedulers.docker.rules import options
from launcher.schedulers.replica_request import RANK0_ENV
from launcher.specs import AppDef, Role

LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")

app_ids = st.from_regex(r"[a-z][a-z0-9-]{0,80}[a-z0-9]", fullmatch=True)
roles = st.text(min_size=1, max_size=90)
replicas = st.integers(0, 100_000)


def test_a_usual_name_is_readable():
    assert container_name("train-1-abcde", "worker", 12) == "train-1-abcde-worker-12"
    assert scratch_volume("train-1-abcde") == "train-1-abcde-scratch"
    assert error_file("worker", 2) == "/launcher/scratch/.error-worker-2.json"


@given(app_ids, st.lists(st.tuples(roles, replicas), unique=True, min_size=1, max_size=8))
def test_every_name_is_a_dns_label_and_no_two_replicas_of_an_app_share_a_name(app_id, parts):
    names = {container_name(app_id, role, k) for role, k in parts}
    assert all(map(LABEL.fullmatch, names))
    assert len(names) == len(parts)


def test_roles_that_look_alike_stay_apart():
    roles = ["a b", "a-b", "a.b", "A-b", "x" * 80, "x" * 81]
    assert len({container_name("app-1", role, 0) for role in roles}) == len(roles)
    assert len({error_file(role, 0) for role in roles}) == len(roles)


def test_apps_whose_ids_agree_at_the_start_stay_apart():
    long = "very-long-name-of-a-job" * 3
    assert container_name(f"{long}-1-abcde", "r", 0) != container_name(f"{long}-2-abcde", "r", 0)


def test_all_replicas_get_the_name_of_replica_0():
    roles = [Role("Chief Of All" * 8, "i", entrypoint="x"), Role("w", "i", entrypoint="x")]
    job = build_request(AppDef("a", roles), options().resolve({}), "a" * 60, session="s")
    assert {each.kwargs["environment"][RANK0_ENV] for each in job.containers} == {job.containers[0].name}
    assert job.containers[0].kwargs["hostname"] == job.containers[0].name
