"""The client reads and changes containers, images, networks and volumes of a real engine."""

import io
import tarfile
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from launcher.schedulers.docker.client.errors import Conflict, EngineError, ImageNotFound, NameTaken, NotFound
from launcher.schedulers.docker.client.view import run_parallel
from tests.scenarios.docker_engine.bench import Bench


def test_the_list_of_containers_is_filtered_by_several_labels_and_values(own: Bench):
    own.create("true", labels={"launcher.role": "a"})
    own.create("true", k=1, labels={"launcher.role": "b"})
    assert [seen.name for seen in own.engine.containers(own.label, "launcher.role=b")] == [own.name(1)]
    assert len(own.engine.containers(own.label, "launcher.role")) == 2


def test_inspect_returns_the_published_port(own: Bench):
    ports = {"NetworkMode": "bridge", "PortBindings": {"80/tcp": [{"HostIp": "127.0.0.1", "HostPort": ""}]}}
    made = own.sh("sleep 1000", ExposedPorts={"80/tcp": {}}, HostConfig=ports)
    seen = own.engine.inspect(made)
    host, port = seen.ports[80]
    assert host == "127.0.0.1"
    assert port > 0
    assert own.engine.containers(own.label)[0].ports == seen.ports


def test_an_invalid_name_names_no_container_and_no_image(own: Bench):
    for name in ("", "..", "../images/json", "x/../..", "a?all=1", "#", "ä", "a b", "%2e%2e", "Not A Name"):
        assert own.engine.inspect(name) is None
        assert own.engine.image(name) is None
        with pytest.raises(EngineError):
            own.engine.start(name)


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


def test_clients_that_ensure_a_network_at_once_make_one(own: Bench):
    run_parallel(lambda _: own.engine.ensure_network(f"{own.token}-net", own.labels()), range(8), workers=8)
    assert [each.name for each in own.engine.networks(own.label)] == [f"{own.token}-net"]
    own.engine.remove_network(f"{own.token}-net")
    own.engine.remove_network(f"{own.token}-net")
    assert own.engine.networks(own.label) == []


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
