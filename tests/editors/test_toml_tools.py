"""taplo and tombi on TOML job files, which name their schema in the first line; check-jsonschema on all."""

import subprocess
from codecs import BOM_UTF8
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests import engines
from tests.editors.conftest import ROOT
from tests.unit.jobfile.test_compile import FULL, FULL_TOML

SCHEMA = ROOT / "schemas" / "job-v1.schema.json"
MODELINE = "#:schema ../../schemas/job-v1.schema.json\n"
CORPUS = sorted((ROOT / "tests" / "corpus" / "good").rglob("*.launcher.toml"))
EXAMPLES = sorted((ROOT / "examples").rglob("*.launcher.toml"))
ALL_EXAMPLES = sorted((ROOT / "examples").rglob("*.launcher.*"))
GOOD = MODELINE + 'version = 1\nname = "a"\n[roles.main]\nentrypoint = "x"\n'

# What is added to a good file, and the place of what is wrong with it.
WRONG = {
    "num_replica = 2\n": "6:1",
    "max_retries = -1\n": "6:15",
    'num_replicas = "two"\n': "6:16",
    'retry_policy = "never"\n': "6:16",
    "port_map = { a = 70000 }\n": "6:18",
    'resource = { memory = "4gigs" }\n': "6:23",
}


def run(tool: str, arguments: Sequence[str | Path]) -> tuple[int, str]:
    """The exit code of a tool and all that it prints."""
    engines.require("editors")
    argv = [engines.editor_tool(tool), *map(str, arguments)]
    got = subprocess.run(argv, capture_output=True, text=True, check=False)
    return got.returncode, got.stdout + got.stderr


def taplo(path: Path) -> tuple[int, str]:
    return run("taplo", ["check", "--colors", "never", "--schema", SCHEMA.as_uri(), path])


def tombi(path: Path) -> tuple[int, str]:
    return run("tombi", ["lint", "--offline", path])


TOOLS = (taplo, tombi)


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_tools_accept_every_example(tool, path):
    assert path.read_text().startswith(MODELINE)
    code, events = tool(path)
    assert code == 0, events


@pytest.mark.parametrize("tool", TOOLS)
def test_the_tools_accept_a_job_file_with_every_field(tool, project):
    path = project / "examples" / "x" / "full.launcher.toml"
    path.write_text(MODELINE + FULL_TOML)
    code, events = tool(path)
    assert code == 0, events


def test_taplo_accepts_the_corpus_of_good_files():
    # A byte order mark is TOML, but taplo does not know it.
    paths = [path for path in CORPUS if not path.read_bytes().startswith(BOM_UTF8)]
    code, events = run("taplo", ["check", "--colors", "never", "--schema", SCHEMA.as_uri(), *paths])
    assert code == 0, events


def test_taplo_finds_the_schema_by_the_first_line(project):
    path = project / "examples" / "x" / "bound.launcher.toml"
    path.write_text(GOOD + "surplus = 1\n")
    code, events = run("taplo", ["check", "--colors", "never", path])
    assert code == 1
    assert "surplus" in events


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("wrong", WRONG, ids=str.strip)
def test_the_tools_report_each_mistake_at_its_place(tool, wrong, project):
    path = project / "examples" / "x" / "wrong.launcher.toml"
    path.write_text(GOOD + wrong)
    code, events = tool(path)
    assert code == 1
    assert f"wrong.launcher.toml:{WRONG[wrong]}" in events


OF_COMPONENTS = {
    'component = "utils.echo"\n[args]\nmesg = "x"\n': "5:1",
    'component = "utils.echo"\n[args]\nnum_replicas = "two"\n': "5:16",
    'component = "utils.echo"\n[roles.main]\nentrypoint = "x"\n': "4:",
    '[args]\nmsg = "x"\n[roles.main]\nentrypoint = "x"\n': "3:1",
}


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("wrong", OF_COMPONENTS, ids=lambda text: text.replace("\n", " "))
def test_the_tools_report_fields_that_exclude_a_component_at_their_place(tool, wrong, project):
    path = project / "examples" / "x" / "component.launcher.toml"
    path.write_text(MODELINE + 'version = 1\nname = "a"\n' + wrong)
    code, events = tool(path)
    assert code == 1
    line, _, column = OF_COMPONENTS[wrong].partition(":")
    assert f"component.launcher.toml:{int(line) + 1}:{column}" in events


@pytest.mark.parametrize("tool", TOOLS)
def test_the_tools_report_an_option_that_the_scheduler_lacks_at_its_place(tool, project):
    path = project / "examples" / "x" / "option.launcher.toml"
    job = 'version = 1\nname = "a"\nscheduler = "slurm"\n[roles.main]\nentrypoint = "x"\n[cfg]\ntime = 90\n'
    path.write_text(MODELINE + job)
    code, events = tool(path)
    assert code == 0, events
    path.write_text(MODELINE + job + 'partiton = "gpu"\n')
    code, events = tool(path)
    assert code == 1
    assert "option.launcher.toml:9:1" in events


@pytest.mark.parametrize("tool", TOOLS)
def test_the_tools_accept_references_in_values(tool, project):
    path = project / "examples" / "x" / "right.launcher.toml"
    path.write_text(GOOD + 'num_replicas = "$<var.n>"\nretry_policy = "$<var.p>"\nargs = [1, "$<app_id>"]\n')
    code, events = tool(path)
    assert code == 0, events


def check_jsonschema(*paths: Path) -> tuple[int, str]:
    return run("check-jsonschema", ["--schemafile", SCHEMA, *paths])


def test_check_jsonschema_accepts_every_example_and_every_field(tmp_path):
    full = tmp_path / "full.launcher.yaml"
    full.write_text(FULL)
    code, events = check_jsonschema(*ALL_EXAMPLES, full)
    assert code == 0, events


def test_check_jsonschema_reports_the_same_mistakes(tmp_path):
    paths = [tmp_path / f"wrong{number}.launcher.toml" for number in range(len(WRONG))]
    for path, wrong in zip(paths, WRONG, strict=True):
        path.write_text(GOOD + wrong)
    code, events = check_jsonschema(*paths)
    assert code == 1
    assert [path for path in paths if f"{path}::$.roles.main" not in events] == [], events


def test_the_schema_is_valid_by_its_metaschema():
    code, events = run("check-jsonschema", ["--check-metaschema", SCHEMA])
    assert code == 0, events
