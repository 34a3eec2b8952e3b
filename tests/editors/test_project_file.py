"""taplo and tombi on launcher.toml, which names its schema in the first line."""

import pytest

from tests.editors.conftest import ROOT
from tests.editors.test_toml_tools import run, tombi

MODELINE = "#:schema ../../schemas/project-v1.schema.json\n"
SCHEMA = ROOT / "schemas" / "project-v1.schema.json"
CORPUS = sorted((ROOT / "tests" / "corpus" / "good").rglob("launcher.toml"))
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

# What a file holds, and the place of what is wrong with it, below the modeline.
WRONG = {
    'projcet = "vision"\n': "2:1",
    "project = 3\n": "2:11",
    'project = "Vision Team"\n': "2:11",
    '[lifecycle]\non_failed = "retry"\n': "3:13",
    '[queue]\nmemory = "4gigs"\n': "3:10",
    '[schedulers.slurm]\npartiton = "gpu"\n': "3:1",
    '[schedulers.local_docker]\nimage_pull = "often"\n': "3:14",
    '[defaults]\nname = "a"\n': "3:1",
    "[defaults.role]\nnum_replica = 2\n": "3:1",
    '[targets.slurm]\nscheduler = "slurm"\ncfg = { log_dir = "x" }\n': "4:9",
    '[vars]\nepochs = { type = "int", default = "x" }\n': "3:",
    '[cli.run]\nsheduler = "slurm"\n': "3:1",
}


def taplo(path):
    return run("taplo", ["check", "--colors", "never", "--schema", SCHEMA.as_uri(), path])


TOOLS = (taplo, tombi)


@pytest.mark.parametrize("tool", TOOLS)
def test_the_tools_accept_a_launcher_toml_with_every_field(tool, project):
    path = project / "examples" / "x" / "launcher.toml"
    path.write_text(MODELINE + WHOLE)
    code, events = tool(path)
    assert code == 0, events


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("file", CORPUS, ids=lambda file: file.parent.name)
def test_the_tools_accept_every_good_launcher_toml(tool, file, project):
    path = project / "examples" / "x" / "launcher.toml"
    path.write_text(MODELINE + file.read_text())
    code, events = tool(path)
    assert code == 0, events


def test_taplo_finds_the_schema_by_the_first_line(project):
    path = project / "examples" / "x" / "launcher.toml"
    path.write_text(MODELINE + "surplus = 1\n")
    code, events = run("taplo", ["check", "--colors", "never", path])
    assert (code, "surplus" in events) == (1, True)


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("wrong", WRONG, ids=lambda text: text.replace("\n", " "))
def test_the_tools_report_each_mistake_at_its_place(tool, wrong, project):
    path = project / "examples" / "x" / "launcher.toml"
    path.write_text(MODELINE + wrong)
    code, events = tool(path)
    assert code == 1
    assert f"launcher.toml:{WRONG[wrong]}" in events


def test_the_schema_is_valid_by_its_metaschema():
    code, events = run("check-jsonschema", ["--check-metaschema", SCHEMA])
    assert code == 0, events
