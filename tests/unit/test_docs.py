"""Every page of the docs is a story that works, in an empty folder and a home of its own."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from launcher.cli.arguments import Arguments
from launcher.cli.main import command, names
from launcher.cli.skill import skill_page
from launcher.runner import Runner
from launcher.schedulers import Scheduler, StagedScheduler
from launcher.schedulers.backend import BackendScheduler
from launcher.schedulers.folder import FolderScheduler
from launcher.schedulers.slurm.options import KNOWN
from tests.engines import require
from tests.engines.images import PUBLIC, stand_in
from tests.forkserver import server
from tests.plugin.package import EXAMPLE, install
from tests.snippets import Block, blocks, sections, shell, tell

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs").glob("*.md"))
RECIPES = ("cookbook", "slurm-recipes")
"""The pages whose sections are stories of their own; every other page is one story."""
WALK = "writing-a-scheduler"
"""The page whose Python and TOML are excerpts of an example, which its commands then use."""
QUOTED = ("python", "toml")
OF_OTHERS = {
    "slurm-recipes": {"--cleanenv", "--container-image", "--container-mounts", "--overlap"},
    "metrics": {"--collector", "--user"},
    "github": {"--app"},
}
"""Options of Apptainer, pyxis and srun; of node-exporter and systemctl; of gh."""


def stories() -> Iterator[tuple[str, list[Block]]]:
    for page in PAGES:
        parts = {"": page.read_text()} if page.stem not in RECIPES else sections(page.read_text())
        for title, text in parts.items():
            if story := [block for block in blocks(text) if page.stem != WALK or block[0] not in QUOTED]:
                yield re.sub(r"\W+", "-", f"{page.stem} {title}").strip("-"), story
    yield "skill", blocks(skill_page())


def uses(scheduler: str, story: list[Block]) -> bool:
    return any(kind == "yaml" and f"scheduler: {scheduler}" in text for kind, text in story)


def lane(name: str, story: list[Block]) -> object:
    """A story that needs an engine is for the engine lane, any other one for the slow lane."""
    engine = uses("local_docker", story) or uses("slurm", story)
    mark = pytest.mark.engine if engine else pytest.mark.slow
    return pytest.param(story, id=name, marks=mark)


@pytest.fixture
def empty_folder(tmp_path, monkeypatch):
    """An empty current folder; `launcher` on PATH."""
    folder = tmp_path / "empty"
    folder.mkdir()
    (tmp_path / "bin").mkdir()
    script = tmp_path / "bin" / "launcher"
    script.write_text(server().script())
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{script.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    for role in ("AUTHOR", "COMMITTER"):  # of the commits that a story makes
        monkeypatch.setenv(f"GIT_{role}_NAME", "docs")
        monkeypatch.setenv(f"GIT_{role}_EMAIL", "docs@example.com")
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.timeout(600)  # many commands, on a busy machine
@pytest.mark.parametrize("story", [lane(*each) for each in stories()])
def test_every_snippet_of_a_page_works_in_its_order(story, empty_folder, request, monkeypatch):
    """The job files that are left at the end are in their canonical form."""
    if uses("slurm", story):
        request.getfixturevalue("slurm")
    if uses("local_docker", story):
        token = request.getfixturevalue("token")
        (empty_folder / "launcher.toml").write_text(f'project = "{token}"\n')
        for image in PUBLIC:
            if any(image in text for _, text in story):
                stand_in(image)
    if any(kind == "sh" and text.startswith("git ") for kind, text in story):
        require("git")
    if any("scheduler: procs" in text for _, text in story):
        site = empty_folder.parent / "site"
        install(site)
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(site), str(ROOT)]))
    tell(story)
    if [*empty_folder.rglob("*.launcher.*")]:
        shell("launcher fmt --check .")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_no_block_of_a_page_is_overlooked(page):
    fences = re.findall(r"^```", page.read_text(), re.M)
    assert len(fences) == 2 * len(blocks(page.read_text()))


def test_readme_leads_to_every_page():
    readme = (ROOT / "README.md").read_text()
    assert [page.name for page in PAGES if f"(docs/{page.name})" not in readme] == []


@pytest.mark.parametrize("page", [*PAGES, ROOT / "README.md"], ids=lambda page: page.stem)
def test_every_link_of_a_page_leads_to_a_file_and_a_heading(page):
    links = re.findall(r"\]\((?!https?:)([^)#]*)(?:#([^)]+))?\)", page.read_text())
    for path, heading in links:
        target = page.parent / path if path else page
        assert target.exists(), path
        assert not heading or heading in anchors(target.read_text()), f"{path}#{heading}"


def anchors(markdown: str) -> list[str]:
    """Return the headings of a page as links name them."""
    headings = re.findall(r"^#+ (.+)$", markdown, re.M)
    return [re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings]


def test_the_jobs_of_a_matrix_have_the_names_that_the_page_says(scenario):
    page = (ROOT / "docs" / "writing-job-files.md").read_text()
    [text] = [text for kind, text in blocks(page) if kind == "yaml" and "matrix:" in text]
    jobs = scenario.actions(scenario.write("train.launcher.yaml", text))
    assert [*jobs] == ["train-0p01", "train-0p1"]
    assert all(f"`{name}`" in page for name in jobs)


@pytest.mark.slow
@pytest.mark.parametrize("page", [ROOT / "docs" / "slurm-recipes.md"], ids=lambda page: page.stem)
def test_every_job_file_of_a_page_is_right_without_the_cluster_too(page, empty_folder):
    (empty_folder / "src").mkdir()
    files = [text for kind, text in blocks(page.read_text()) if kind == "yaml"]
    for text in files:
        (empty_folder / text.splitlines()[0].removeprefix("# ")).write_text(text)
    assert f"valid: {len(files)} jobs" in shell("launcher validate --strict .")


def test_the_page_on_schedulers_quotes_the_example():
    quoted = [text for kind, text in blocks((ROOT / "docs" / f"{WALK}.md").read_text()) if kind in QUOTED]
    files = [path.read_text() for path in EXAMPLE.glob("*.*")]
    assert len(quoted) > 4
    assert [text for text in quoted if not any(text in file for file in files)] == []


def test_the_page_on_schedulers_names_every_stage_and_base_class():
    text = (ROOT / "docs" / f"{WALK}.md").read_text()
    stages = StagedScheduler.__abstractmethods__ - Scheduler.__abstractmethods__
    own = BackendScheduler.__abstractmethods__ - Scheduler.__abstractmethods__
    names = {*stages, *own, *FolderScheduler.__abstractmethods__}
    assert {name for name in names if not re.search(rf"`{name}`|def {name}\(", text)} == set()


def test_the_page_on_the_api_names_every_method_of_the_runner():
    text = (ROOT / "docs" / "python-api.md").read_text()
    left_out = {"close", "name", "stop", "on_progress"}
    public = {name for name in vars(Runner) if not name.startswith("_")} - left_out
    assert [name for name in sorted(public) if f"`{name}" not in text] == []


@pytest.mark.parametrize("page", [*PAGES, ROOT / "README.md"], ids=lambda page: page.stem)
def test_every_option_that_a_page_names_exists(page):
    arguments = Arguments("launcher")
    for name in names():
        command(name).add_arguments(arguments)
    known = {word for argument in arguments.declared for word in argument.names}
    components = {"--help", "--env", "--entrypoint", "--lr", "--token"}  # arguments of components
    prose = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.M | re.S)
    code = " ".join(re.findall(r"`([^`\n]+)`", prose))
    of_sbatch = {f"--{name}" for name in KNOWN} if page.stem.startswith(("slurm", "convert")) else set()
    of_others = OF_OTHERS.get(page.stem, set())
    assert {*re.findall(r"(?<!\S)--[a-z][a-z-]+", code)} <= known | components | of_sbatch | of_others
