"""`launcher run COMPONENT` with the workspace and the parent of an app."""

from tests.scenario import Scenario

COMPONENT = '''
from launcher.specs import AppDef, Role


def main(script: str) -> AppDef:
    """Run a shell script.

    Args:
        script: of a shell
    """
    return AppDef("demo", [Role("main", "", entrypoint="sh", args=["-c", script])])
'''


def test_a_component_runs_in_its_workspace(scenario: Scenario) -> None:
    scenario.write("src/words.txt", "from the workspace")
    scenario.write("c.py", COMPONENT)
    report = scenario.launcher("run", "--workspace", "src", "c.py:main", "--script", "cat words.txt")
    assert report.out == "from the workspace"


def test_run_takes_the_workspace_from_the_configuration(scenario: Scenario) -> None:
    scenario.write("src/words.txt", "from the workspace")
    scenario.write("c.py", COMPONENT)
    scenario.write("launcher.toml", '[cli.run]\nworkspace = "src"\n')
    assert scenario.launcher("run", "c.py:main", "--script", "ls").out == "words.txt\n"
    assert "c.py" in scenario.launcher("run", "--workspace", "", "c.py:main", "--script", "ls").out


def test_replicas_know_their_parent(scenario: Scenario) -> None:
    scenario.write("c.py", COMPONENT)
    script = "echo $LAUNCHER_PARENT_RUN_ID"
    for what in (["c.py:main", "--script", script], [str(scenario.job(script))]):
        assert scenario.launcher("run", "--parent-run-id", "parent-7", *what).out == "parent-7\n"


def test_run_of_a_job_file_uses_the_workspace_of_the_file(scenario: Scenario) -> None:
    report = scenario.launcher("run", "--workspace", ".", scenario.job("true"), code=None)
    assert report.code != 0
    assert "workspace:" in report.err


def test_a_missing_workspace_is_an_error(scenario: Scenario) -> None:
    scenario.write("c.py", COMPONENT)
    report = scenario.launcher("run", "--workspace", "none", "c.py:main", "--script", "true", code=None)
    assert report.code != 0
    assert "none" in report.err
