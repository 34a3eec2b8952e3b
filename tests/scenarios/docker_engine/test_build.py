"""Images of workspaces are named by their content, built when they are missing, and pushed when asked."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from launcher.errors import LauncherError
from launcher.schedulers.docker import images
from launcher.schedulers.docker.image_build import (
    BASES,
    FOLDER,
    LABEL,
    Dockerfile,
    build_workspace,
    notes,
    workspace_app,
)
from launcher.schedulers.workspaces import BoundWorkspace, bind_workspace
from launcher.specs import AppDef, Role
from launcher.workspace import WorkspaceError
from tests.engines.docker import Daemon, Refused
from tests.engines.images import SHELL_IMAGE
from tests.engines.registry import registry, tags
from tests.scenarios.docker_engine.bench import Bench, bench


class Place:
    """A workspace on an engine; the images of its test are gone afterwards."""

    def __init__(self, own: Bench, folder: Path) -> None:
        self.own = own
        self.folder = folder
        self.lines: list[str] = []
        self.kinds: list[str] = []
        self.digests: list[str] = []
        self.write("token", own.token)  # so that no other test has an equal one

    def write(self, name: str, text: str) -> None:
        (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / name).write_text(text)

    @property
    def workspace(self) -> BoundWorkspace:
        return bind_workspace(self.folder)

    def hear(self, kind: str, facts: Mapping[str, Any]) -> None:
        self.kinds.append(kind)
        self.lines.append(str(facts.get("line", "")))

    def build(self, *images: str, **cfg: Any) -> str:
        """Return the image of the first role."""
        self.digests.append(self.workspace.digest)
        built = build_workspace(self.own.engine, app(*images), cfg, self.workspace, self.hear)
        assert built == workspace_app(app(*images), cfg, self.workspace)
        return built.roles[0].image

    def out(self, image: str, *command: str, **config: Any) -> str:
        """Run a command in an image; return its output."""
        k = len(self.own.engine.containers(self.own.label))
        made = self.own.create(*command, Image=image, k=k, **config)
        self.own.engine.start(made)
        self.own.ended(made)
        return b"".join(piece for _, piece in self.own.engine.log_frames(made)).decode()


@pytest.fixture
def place(token: str, tmp_path: Path) -> Iterator[Place]:
    with bench(token) as own:
        made = Place(own, tmp_path / "src")
        yield made
        own.clear()
        for digest in reversed([*made.digests, made.workspace.digest]):
            for image in own.engine.images(f"{LABEL}={digest}"):
                for tag in image.tags or (image.id,):
                    Daemon().remove_image(tag)


def app(*images: str) -> AppDef:
    roles = [Role(f"r{n}", image, entrypoint="sh") for n, image in enumerate(images or (SHELL_IMAGE,))]
    return AppDef("app", roles)


def test_the_files_of_a_workspace_lie_where_replicas_run(place: Place) -> None:
    place.write("pkg/run.sh", "echo hello")
    (place.folder / "link").symlink_to("pkg/run.sh")
    place.write(".dockerignore", "secret\n")
    place.write("secret", "x")
    image = place.build()
    assert place.out(image, "sh", "link") == "hello\n"
    assert place.out(image, "ls", "-A").split() == [".dockerignore", "link", "pkg", "token"]


@pytest.mark.parametrize(("line", "cfg", "folder"), [
    ("WORKDIR /", {}, FOLDER),
    ("RUN ln -s /srv /alias\nWORKDIR /alias", {}, "/srv"),
    ("WORKDIR /app", {"workdir": "/else where/$x"}, "/else where/$x"),
])  # fmt: skip
def test_the_files_of_a_workspace_never_lie_in_the_root_of_an_image(place, line, cfg, folder):
    place.write("Dockerfile", f"ARG IMAGE\nFROM $IMAGE\nRUN mkdir -p /srv && ln -s /bin /programs\n{line}\n")
    base = place.build()
    (place.folder / "Dockerfile").unlink()
    place.write("programs/mine", "")
    image = place.build(base, **cfg)
    workdir = {"WorkingDir": cfg["workdir"]} if cfg else {}
    message = place.out(image, "sh", "-c", "pwd -P; ls programs; ls /programs/sh", **workdir)
    assert message == f"{folder}\nmine\n/programs/sh\n"


def test_the_workdir_is_part_of_the_image_name_unless_a_dockerfile_places_the_files(place: Place) -> None:
    def name(**cfg: Any) -> str:
        return workspace_app(app(), cfg, place.workspace).roles[0].image

    assert name(workdir="/a") != name(workdir="/b") != name()
    for root in ("/", "//", "/a/.."):
        with pytest.raises(LauncherError, match="would overwrite the image's own in `/`"):
            name(workdir=root)
    place.write("Dockerfile", "FROM $IMAGE\nCOPY . /app\n")
    assert name(workdir="/") == name()


def test_a_folder_of_the_workspace_replaces_a_link_of_the_image(place: Place) -> None:
    place.write(
        "Dockerfile",
        "ARG IMAGE\nFROM $IMAGE\nWORKDIR /app\nRUN mkdir /srv; echo old >/srv/old; ln -s /srv data\n",
    )
    base = place.build()
    (place.folder / "Dockerfile").unlink()
    place.write("data/new", "")
    assert place.out(place.build(base), "ls", "/app/data", "/srv").split() == [
        "/app/data:", "new", "/srv:", "old",
    ]  # fmt: skip


def test_the_image_name_is_known_before_the_build_and_depends_on_the_content(place: Place) -> None:
    def name(image: str = SHELL_IMAGE, **cfg: Any) -> str:
        return workspace_app(app(image), cfg, place.workspace).roles[0].image

    first = name()
    assert first.startswith("launcher-workspace:")
    assert name() == first
    assert name("other:1") != first
    assert name(image_repo="registry:5000/team/x").startswith("registry:5000/team/x:")
    place.write("Dockerfile", "FROM $IMAGE\n")
    assert (second := name()) != first
    place.write("more", "")
    assert name() not in (first, second)


def test_workspace_app_does_not_change_the_given_app(place: Place) -> None:
    given = app()
    assert workspace_app(given, {}, place.workspace) != given
    assert given == app()


def test_an_existing_image_is_not_built_again(place: Place) -> None:
    image = place.build()
    assert "built" in place.kinds
    made = place.own.engine.image(image)
    assert made is not None
    assert images.is_only_here(image, made)
    place.kinds.clear()
    assert place.build() == image
    assert place.kinds == []


def test_a_changed_base_under_the_same_name_gives_a_new_image(place: Place) -> None:
    base = f"launcher-test/{place.own.token}:1"
    place.own.engine.tag(SHELL_IMAGE, base)
    first = place.own.engine.image(place.build(base))
    other = f"launcher-test/{place.own.token}:2"
    changed = place.own.create("true", Image=SHELL_IMAGE)
    Daemon().ask("POST", "/commit", container=changed, repo=other.split(":")[0], tag="2", comment="changed")
    place.own.engine.tag(other, base)
    try:
        second = place.own.engine.image(place.build(base))
        assert first.labels[BASES] != second.labels[BASES]
        assert place.own.engine.image(first.id) is None, "the one before is gone"
    finally:
        for name in place.own.engine.images(f"{LABEL}={place.workspace.digest}"):
            Daemon().remove_image(name.id)
        Daemon().remove_image(base)
        Daemon().remove_image(other)


def test_the_most_particular_dockerfile_of_the_workspace_is_used(place: Place) -> None:
    for name in ("Dockerfile", "Dockerfile.launcher"):
        place.write(name, f"ARG IMAGE\nFROM $IMAGE\nWORKDIR /app\nCOPY . .\nRUN echo {name} >which\n")
    place.write(".dockerignore", "Dockerfile*\n")
    assert place.out(place.build(), "cat", "which").strip() == "Dockerfile.launcher"
    assert any("Step" in line for line in place.lines), "its output is reported"


@pytest.mark.parametrize(("text", "names"), [
    ("FROM x\n", set()),
    ("ARG IMAGE\nFROM $IMAGE\n  arg A=1 WORKSPACE\n# ARG B\n", {"IMAGE", "A", "WORKSPACE"}),
    ("ARG A \\\n  IMAGE=busybox\nFROM $IMAGE\n", {"A", "IMAGE"}),
])  # fmt: skip
def test_a_dockerfile_lists_the_arguments_that_it_declares(text: str, names: set[str]) -> None:
    assert Dockerfile("Dockerfile", text.encode()).arguments == names


def test_a_build_gets_only_the_arguments_that_its_dockerfile_declares(place):
    place.build()
    assert not any("not consumed" in line for line in place.lines)
    place.write("Dockerfile", "ARG IMAGE\nFROM $IMAGE\nARG WORKSPACE\nRUN echo $WORKSPACE >/from\n")
    assert place.out(place.build(), "cat", "/from").strip() == str(place.folder)


def test_a_workspace_is_built_once_for_each_distinct_image_of_the_roles(place: Place) -> None:
    other = f"launcher-test/{place.own.token}:1"
    place.own.engine.tag(SHELL_IMAGE, other)
    try:
        place.build(SHELL_IMAGE, other, SHELL_IMAGE)
        assert place.kinds.count("built") == 2
        roles = workspace_app(app(SHELL_IMAGE, other, SHELL_IMAGE), {}, place.workspace).roles
        assert roles[0].image == roles[2].image != roles[1].image
    finally:
        Daemon().remove_image(other)


def test_an_image_that_a_dockerfile_does_not_use_is_noted_and_not_part_of_the_name(place: Place) -> None:
    assert notes(app(), place.workspace) == []
    place.write("Dockerfile", "ARG IMAGE\nFROM ${IMAGE}\n")
    assert notes(app(), place.workspace) == []
    place.write("Dockerfile", f"# not $IMAGE\nFROM {SHELL_IMAGE}\n")
    [note] = notes(app("other:1", ""), place.workspace)
    assert note.startswith("role `r0`: its image other:1 is not used: the workspace's Dockerfile")
    place.write("Dockerfile", f"FROM {SHELL_IMAGE}\n")
    place.build("other:1", "other:2")
    assert place.kinds.count("built") == 1


def test_a_failed_build_shows_its_last_lines_and_leaves_no_image(place: Place) -> None:
    token = place.own.token
    place.write("Dockerfile", f"ARG IMAGE\nFROM $IMAGE\nRUN echo {token}\nRUN echo the cause >&2; exit 3\n")
    with pytest.raises(LauncherError) as error:
        place.build()
    shown = str(error.value)
    assert "returned a non-zero code: 3" in shown.splitlines()[0]
    assert "\n  the cause\n" in shown
    assert "\x1b" not in shown  # of the red of the engine
    assert token in "".join(place.lines), "the step before was done"
    assert [each for each in _all_images() if token in _history(each)] == []
    commands = [one["Command"] for one in Daemon().ask("GET", "/containers/json", all="1")]
    assert [command for command in commands if "the cause" in command] == []


def _all_images() -> list[str]:
    """Return the ids of all images, those between the steps of builds as well."""
    return [one["Id"] for one in Daemon().ask("GET", "/images/json", all="1")]


def _history(image: str) -> str:
    try:
        return str(Daemon().ask("GET", f"/images/{image}/history"))
    except Refused:  # gone meanwhile: not ours
        return ""


def test_a_workspace_that_changes_after_the_plan_is_not_built(place: Place) -> None:
    planned = place.workspace
    place.write("more", "")
    with pytest.raises(WorkspaceError, match="has changed"):
        build_workspace(place.own.engine, app(), {}, planned)
    assert place.own.engine.image(workspace_app(app(), {}, planned).roles[0].image) is None


def test_a_build_names_its_missing_base_image(place: Place) -> None:
    with pytest.raises(LauncherError, match="nowhere:1"):
        place.build("nowhere:1", image_pull="never")
    with pytest.raises(LauncherError, match="has no image"):
        place.build("")


def test_a_workspace_image_is_pushed_to_image_repo_once(place: Place, tmp_path: Path) -> None:
    with registry(tmp_path) as address:
        repo = f"{address}/team/{place.own.token}"
        image = place.build(image_repo=repo)
        assert tags(address, f"team/{place.own.token}") == [image.rpartition(":")[2]]
        assert "pushed" in place.kinds
        place.kinds.clear()
        place.build(image_repo=repo)
        assert place.kinds == []


def test_a_repository_that_does_not_answer_is_an_error(place: Place) -> None:
    with pytest.raises(LauncherError, match=r"127\.0\.0\.1:1.* connection refused"):
        place.build(image_repo="127.0.0.1:1/x")


@pytest.mark.parametrize(("text", "found"), [
    ("ARG IMAGE\nFROM $IMAGE\n", ["it:1"]),
    ("FROM ${IMAGE} AS a\nFROM a\nFROM --platform=linux/amd64 busybox:2\n", ["it:1", "busybox:2"]),
    ("from scratch\n", []),
    ("ARG X=1\nFROM base:$X\n", []),
])  # fmt: skip
def test_a_dockerfile_lists_its_base_images(text: str, found: list[str]) -> None:
    assert Dockerfile("Dockerfile", text.encode()).bases("it:1") == found
