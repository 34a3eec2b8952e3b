"""The client reads and changes containers, images, networks and volumes of a real engine."""

import io
import tarfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from launcher.schedulers.docker.client.engine import connect
from launcher.schedulers.docker.client.errors import Conflict, EngineError, ImageNotFound, NameTaken, NotFound
from launcher.schedulers.docker.client.view import run_parallel
from tests.engines.images import SHELL_IMAGE
from tests.scenarios.docker_engine.bench import Bench


def test_a_created_container_is_listed_with_its_labels_and_was_never_started(own: Bench):
    made = own.create("true", labels={"launcher.role": "main"})
    [seen] = own.engine.containers(own.label)
    assert (seen.id, seen.name, seen.state, seen.exit_code) == (made, own.name(), "created", None)
    assert seen.labels["launcher.role"] == "main"
    assert (seen.was_started, seen.live, seen.ended) == (False, False, False)


def test_the_list_of_containers_has_exit_codes_without_an_inspect(own: Bench):
    own.ended(own.sh("exit 3"))
    own.ended(own.sh("exit 0", k=1))
    assert {seen.name: seen.exit_code for seen in own.engine.containers(own.label)} == {
        own.name(): 3,
        own.name(1): 0,
    }


def test_the_list_of_containers_is_filtered_by_several_labels_and_values(own: Bench):
    own.create("true", labels={"launcher.role": "a"})
    own.create("true", k=1, labels={"launcher.role": "b"})
    assert [seen.name for seen in own.engine.containers(own.label, "launcher.role=b")] == [own.name(1)]
    assert len(own.engine.containers(own.label, "launcher.role")) == 2


def test_inspect_returns_times_and_hostname(own: Bench):
    before = time.time()
    seen = own.ended(own.sh("exit 7", Hostname="trainer-0"))
    assert (seen.state, seen.exit_code, seen.hostname, seen.inspected) == ("exited", 7, "trainer-0", True)
    times = [seen.created_at or 0, seen.started_at or 0, seen.ended_at or 0]
    assert times == sorted(times)
    assert before - 1 < times[0] < times[2] < time.time() + 1


def test_inspect_returns_how_often_the_engine_restarted_a_container(own: Bench):
    policy = {"RestartPolicy": {"Name": "on-failure", "MaximumRetryCount": 2}}
    made = own.sh("exit 5", HostConfig=policy)
    seen = own.until(made, lambda now: now.ended and now.restarts == 2)
    assert seen.exit_code == 5


def test_inspect_returns_the_published_port(own: Bench):
    ports = {"NetworkMode": "bridge", "PortBindings": {"80/tcp": [{"HostIp": "127.0.0.1", "HostPort": ""}]}}
    made = own.sh("sleep 1000", ExposedPorts={"80/tcp": {}}, HostConfig=ports)
    seen = own.engine.inspect(made)
    host, port = seen.ports[80]
    assert host == "127.0.0.1"
    assert port > 0
    assert own.engine.containers(own.label)[0].ports == seen.ports


def test_inspect_returns_none_for_a_missing_container_and_inspect_all_leaves_it_out(own: Bench):
    made = own.create("true")
    assert own.engine.inspect("no-such-container") is None
    assert [seen.id for seen in own.engine.inspect_all(["no-such-container", made])] == [made]


@pytest.mark.parametrize(
    "name", ["", "..", "../images/json", "x/../..", "a?all=1", "#", "ä", "a b", "%2e%2e"]
)
def test_an_invalid_name_names_no_container_and_no_image(own: Bench, name: str):
    assert own.engine.inspect(name) is None
    assert own.engine.image(name) is None
    with pytest.raises(EngineError):
        own.engine.start(name)


def test_one_of_many_clients_gets_a_container_name(own: Bench):
    def claim(_: int) -> str:
        try:
            return own.create("true")
        except NameTaken:
            return ""

    assert len([made for made in run_parallel(claim, range(8), workers=8) if made]) == 1


def test_a_missing_image_is_reported(own: Bench):
    with pytest.raises(
        ImageNotFound, match=r"cannot create .*-main-0: No such image: launcher-test/nosuch:1"
    ):
        own.create("true", Image="launcher-test/nosuch:1")


def test_a_missing_executable_is_reported_without_the_prefix_of_the_engine(own: Bench):
    made = own.create("/no/such/file")
    with pytest.raises(EngineError) as caught:
        own.engine.start(made)
    assert "/no/such/file" in str(caught.value)
    assert "OCI" not in str(caught.value)
    seen = own.engine.inspect(made)
    assert not seen.was_started


def test_a_second_start_and_a_second_stop_change_nothing(own: Bench):
    made = own.up("trap 'exit 4' TERM; echo up; while :; do sleep 0.05; done")
    own.engine.start(made)
    own.engine.stop(made, grace_s=10)
    own.engine.stop(made, grace_s=10)
    assert own.ended(made).exit_code == 4


def test_stop_kills_a_container_that_does_not_end_in_time(own: Bench):
    made = own.up("trap '' TERM; echo up; while :; do sleep 0.05; done")
    own.engine.stop(made, grace_s=0.2)
    assert own.ended(made).exit_code == 137


def test_rename_to_a_name_that_is_taken_is_refused(own: Bench):
    made, _ = own.create("true"), own.create("true", k=1)
    own.engine.rename(made, own.name(2))
    assert {seen.name for seen in own.engine.containers(own.label)} == {own.name(1), own.name(2)}
    with pytest.raises(NameTaken):
        own.engine.rename(made, own.name(1))


def test_remove_spares_running_containers_unless_forced_and_accepts_missing_ones(own: Bench):
    made = own.sh("sleep 1000")
    with pytest.raises(Conflict):
        own.engine.remove(made)
    run_parallel(lambda _: own.engine.remove(made, force=True), range(4))
    assert own.engine.inspect(made) is None
    own.engine.remove(made)


def test_calls_on_a_missing_container_raise_not_found(own: Bench):
    for call in (
        own.engine.start,
        lambda name: own.engine.stop(name, 1),
        lambda name: own.engine.rename(name, "xx"),
    ):
        with pytest.raises(NotFound, match="no-such-container"):
            call("no-such-container")


def test_a_container_that_is_removed_while_clients_look_into_it_is_gone(own: Bench):
    made = own.up("echo up; exec sleep 1000")

    def look(_: int) -> None:
        while own.engine.path_stat(made, "/tmp") and own.engine.read_file(made, "/etc/passwd", 1):
            with suppress(Conflict, NotFound):
                own.engine.converse(made, ["true"]).close()

    with ThreadPoolExecutor() as pool:
        looking = [pool.submit(look, number) for number in range(4)]
        own.engine.remove(made, force=True)
        for each in looking:
            each.result(timeout=60)
    assert own.engine.inspect(made) is None


def test_a_path_in_a_container_that_never_ran_is_looked_up_through_links(own: Bench):
    made = own.create("true")
    found = own.engine.path_stat(made, "/bin/ls")
    assert found.executable
    assert own.engine.path_stat(made, "/bin")
    assert not own.engine.path_stat(made, "/bin/no such file")
    assert not own.engine.path_stat("no-such-container", "/bin")


def test_a_file_put_into_a_volume_is_read_back(own: Bench):
    own.engine.create_volume(own.name(), own.labels())
    mounts = [{"Type": "volume", "Source": own.name(), "Target": "/launcher/scratch"}]
    made = own.create("true", HostConfig={"Mounts": mounts})
    own.engine.put_archive(made, "/launcher/scratch", _tar("error.json", b'{"message": "no"}'))
    assert own.engine.read_file(made, "/launcher/scratch/error.json", 1000) == b'{"message": "no"}'
    assert own.engine.read_file(made, "/launcher/scratch/error.json", 4) == b'{"me'
    assert own.engine.read_file(made, "/launcher/scratch/other.json", 4) is None
    assert own.engine.read_file(made, "/launcher/scratch", 4) is None


def _tar(name: str, text: bytes) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        member = tarfile.TarInfo(name)
        member.size = len(text)
        tar.addfile(member, io.BytesIO(text))
    return buffer.getvalue()


def test_an_image_has_its_entrypoint_and_environment(own: Bench):
    found = own.engine.image(SHELL_IMAGE)
    assert found.id.startswith("sha256:")
    assert SHELL_IMAGE in found.repo_tags
    assert own.engine.image("launcher-test/nosuch:1") is None
    assert own.engine.image("Not A Name/../x") is None


def test_clients_that_ensure_a_network_at_once_make_one(own: Bench):
    run_parallel(lambda _: own.engine.ensure_network(f"{own.token}-net", own.labels()), range(8), workers=8)
    assert [each.name for each in own.engine.networks(own.label)] == [f"{own.token}-net"]
    own.engine.remove_network(f"{own.token}-net")
    own.engine.remove_network(f"{own.token}-net")
    assert own.engine.networks(own.label) == []


def test_a_volume_in_use_is_not_removed(own: Bench):
    own.engine.create_volume(own.name(), own.labels())
    own.engine.create_volume(own.name(), own.labels())
    made = own.create(
        "true", HostConfig={"Mounts": [{"Type": "volume", "Source": own.name(), "Target": "/v"}]}
    )
    with pytest.raises(Conflict):
        own.engine.remove_volume(own.name())
    own.engine.remove(made)
    own.engine.remove_volume(own.name())
    own.engine.remove_volume(own.name())
    assert own.engine.volumes(own.label) == []


def test_an_image_can_be_tagged_and_untagged(own: Bench):
    name = f"127.0.0.1:1/{own.token}:2"
    own.engine.tag(SHELL_IMAGE, name)
    found = own.engine.image(name)
    assert name in found.repo_tags
    own.engine.remove_image(name)
    own.engine.remove_image(name)
    assert own.engine.image(name) is None
    assert own.engine.image(SHELL_IMAGE) is not None


def test_many_threads_share_one_client(own: Bench):
    made = [own.create("true", k=k) for k in range(3)]
    seen = run_parallel(lambda k: own.engine.inspect(made[k % 3]), range(60), workers=20)
    assert [one and one.id for one in seen] == [made[k % 3] for k in range(60)]


def test_run_parallel_tries_all_items_and_raises_the_error_of_the_first_failed_item():
    tried = []
    last = threading.Event()

    def work(k: int) -> int:
        if k == 1:
            last.wait()  # item 3 fails before item 1 does
        tried.append(k)
        if k == 3:
            last.set()
        if k in (1, 3):
            raise ValueError(k)
        return k

    with pytest.raises(ValueError, match="1"):
        run_parallel(work, range(6))
    assert sorted(tried) == list(range(6))
    assert run_parallel(lambda k: k * k, range(6)) == [0, 1, 4, 9, 16, 25]


def test_all_clients_see_the_same_engine_id(own: Bench):
    other = connect(readonly=True)
    assert own.engine.engine_id() == other.engine_id()
    assert own.engine.engine_id()
    other.close()
