"""taplo and tombi on TOML files, which name their schema in the first line."""

import subprocess
from codecs import BOM_UTF8
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import engines
from tests.editors.conftest import ROOT
from tests.unit.jobfile.test_compile import FULL_TOML

GOOD_FILES = ROOT / "tests" / "corpus" / "good"
CORPUS = sorted(GOOD_FILES.rglob("*.launcher.toml"))
EXAMPLES = sorted((ROOT / "examples").rglob("*.launcher.toml"))
START = 'version = 1\nname = "a"\n[roles.main]\nentrypoint = "x"\n'


@dataclass(frozen=True)
class Kind:
    """A kind of TOML files.

    Attributes:
        name: of a file.
        schema: the name of its schema.
        whole: a file with every field.
        start: what a file with a mistake begins with, below the modeline.
        wrong: what a file holds below that, and the place of what is wrong with it.
    """

    name: str
    schema: str
    whole: str
    start: str
    wrong: Mapping[str, str]

    @property
    def modeline(self) -> str:
        return f"#:schema ../../schemas/{self.schema}\n"

    @property
    def path(self) -> Path:
        return ROOT / "schemas" / self.schema

    def write(self, project: Path, text: str) -> Path:
        """Write a file that names its schema in the first line."""
        path = project / "examples" / "x" / self.name
        path.write_text(self.modeline + text)
        return path


JOB = Kind(
    "job.launcher.toml", "job-v1.schema.json", FULL_TOML, START,
    {"num_replica = 2\n": "6:1", "max_retries = -1\n": "6:15", 'num_replicas = "two"\n': "6:16",
        'retry_policy = "never"\n': "6:16", "port_map = { a = 70000 }\n": "6:18",
        'resource = { memory = "4gigs" }\n': "6:23"},
)  # fmt: skip

WHOLE = """\
project = "vision"
target = "dev"
exclude = ["tests/bad"]
x-note = "free"

[vars]
epochs = { type = "int", default = 3, min = 1 }

[defaults]
scheduler = "local_docker"
workspace = "."
timeout = "2h"
metadata = { team = "vision" }

[defaults.role]
image = "python:3.12-slim"
max_retries = 1
resource = { cpu = 2, memory = "4GiB" }

[targets.slurm]
scheduler = "slurm"
timeout = "4h"
cfg = { partition = "gpu", time = 90 }

[targets.slurm.roles.main]
image = ""
num_replicas = "$<var.epochs>"

[lifecycle]
on_failed = "rerun"
rerun_on = ["every_apply", { files = ["data/*.csv"] }]

[queue]
memory = "32GiB"
max_parallel = 4

[ci]
prune = true

[schedulers.slurm]
host = "login1"
sbatch = { reservation = "maintenance" }

[schedulers.procs]
anything = 1

[components."utils.echo"]
msg = "good morning"

[cli.run]
scheduler = "local_cwd"
"""

PROJECT = Kind(
    "launcher.toml", "project-v1.schema.json", WHOLE, "",
    {
        'projcet = "vision"\n': "2:1", "project = 3\n": "2:11", 'project = "Vision Team"\n': "2:11",
        '[lifecycle]\non_failed = "retry"\n': "3:13", '[queue]\nmemory = "4gigs"\n': "3:10",
        '[schedulers.slurm]\npartiton = "gpu"\n': "3:1",
        '[schedulers.local_docker]\nimage_pull = "often"\n': "3:14", '[defaults]\nname = "a"\n': "3:1",
        "[defaults.role]\nnum_replica = 2\n": "3:1",
        '[targets.slurm]\nscheduler = "slurm"\ncfg = { log_dir = "x" }\n': "4:9",
        '[vars]\nepochs = { type = "int", default = "x" }\n': "3:", '[cli.run]\nsheduler = "slurm"\n': "3:1",
    },
)  # fmt: skip
KINDS = pytest.mark.parametrize("kind", [JOB, PROJECT], ids=lambda kind: kind.name)
MISTAKES = [(kind, text) for kind in (JOB, PROJECT) for text in kind.wrong]


def run(tool: str, arguments: Sequence[str | Path]) -> tuple[int, str]:
    """Return the exit code of a tool and all that it prints."""
    engines.require("editors")
    argv = [engines.editor_tool(tool), *map(str, arguments)]
    got = subprocess.run(argv, capture_output=True, text=True, check=False)
    return got.returncode, got.stdout + got.stderr


def taplo(kind: Kind, *paths: Path) -> tuple[int, str]:
    return run("taplo", ["check", "--colors", "never", "--schema", kind.path.as_uri(), *paths])


def tombi(kind: Kind, *paths: Path) -> tuple[int, str]:
    return run("tombi", ["lint", "--offline", *paths])


TOOLS = pytest.mark.parametrize("tool", [taplo, tombi])


@TOOLS
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_tools_accept_every_example(tool, path):
    assert path.read_text().startswith(JOB.modeline)
    code, events = tool(JOB, path)
    assert code == 0, events


@TOOLS
@KINDS
def test_the_tools_accept_a_file_with_every_field(tool, kind, project):
    code, events = tool(kind, kind.write(project, kind.whole))
    assert code == 0, events


def test_taplo_accepts_the_corpus_of_good_files():
    # A byte order mark is TOML, but taplo does not know it.
    code, events = taplo(JOB, *(path for path in CORPUS if not path.read_bytes().startswith(BOM_UTF8)))
    assert code == 0, events


@TOOLS
@pytest.mark.parametrize("file", sorted(GOOD_FILES.rglob("launcher.toml")), ids=lambda file: file.parent.name)
def test_the_tools_accept_every_good_launcher_toml(tool, file, project):
    code, events = tool(PROJECT, PROJECT.write(project, file.read_text()))
    assert code == 0, events


@KINDS
def test_taplo_finds_the_schema_by_the_first_line(kind, project):
    path = kind.write(project, f"{kind.start}surplus = 1\n")
    code, events = run("taplo", ["check", "--colors", "never", path])
    assert (code, "surplus" in events) == (1, True)


@TOOLS
@pytest.mark.parametrize(("kind", "wrong"), MISTAKES, ids=lambda it: getattr(it, "name", repr(it)))
def test_the_tools_report_each_mistake_at_its_place(tool, kind, wrong, project):
    code, events = tool(kind, kind.write(project, kind.start + wrong))
    assert code == 1
    assert f"{kind.name}:{kind.wrong[wrong]}" in events


OF_COMPONENTS = {
    'component = "utils.echo"\n[args]\nmesg = "x"\n': "5:1",
    'component = "utils.echo"\n[args]\nnum_replicas = "two"\n': "5:16",
    'component = "utils.echo"\n[roles.main]\nentrypoint = "x"\n': "4:",
    '[args]\nmsg = "x"\n[roles.main]\nentrypoint = "x"\n': "3:1",
}


@TOOLS
@pytest.mark.parametrize("wrong", OF_COMPONENTS, ids=lambda text: text.replace("\n", " "))
def test_the_tools_report_fields_that_exclude_a_component_at_their_place(tool, wrong, project):
    code, events = tool(JOB, JOB.write(project, 'version = 1\nname = "a"\n' + wrong))
    assert code == 1
    line, _, column = OF_COMPONENTS[wrong].partition(":")
    assert f"{JOB.name}:{int(line) + 1}:{column}" in events


@TOOLS
def test_the_tools_report_an_option_that_the_scheduler_lacks_at_its_place(tool, project):
    job = 'version = 1\nname = "a"\nscheduler = "slurm"\n[roles.main]\nentrypoint = "x"\n[cfg]\ntime = 90\n'
    code, events = tool(JOB, JOB.write(project, job))
    assert code == 0, events
    code, events = tool(JOB, JOB.write(project, job + 'partiton = "gpu"\n'))
    assert code == 1
    assert f"{JOB.name}:9:1" in events


@TOOLS
def test_the_tools_accept_references_in_values(tool, project):
    fields = 'num_replicas = "$<var.n>"\nretry_policy = "$<var.p>"\nargs = [1, "$<app_id>"]\n'
    code, events = tool(JOB, JOB.write(project, START + fields))
    assert code == 0, events
