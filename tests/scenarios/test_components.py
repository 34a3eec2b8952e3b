"""Components on the command line and in job files are listed, run, and converted to job files."""

import json
import os
import shutil
from functools import partial
from pathlib import Path

import pytest

from tests.plugin.package import distribution
from tests.scenario import Scenario

FILES = Path(__file__).parent / "components"
TRAINER = ["--image", "none", "--epochs", "3", "--resume", "yes", "--seed=6", "--env", "MODE=fast"]


@pytest.fixture
def files(scenario):
    for path in FILES.glob("*.py"):
        shutil.copy(path, scenario.folder)
    return scenario


RUNS = {
    "typed arguments": (["./trainer.py:trainer", *TRAINER], ["APP epochs=3 lr=0.1 resume=True seed=7 fast"]),
    "several roles": (
        ["pipeline.py:pipeline", "--names", "a,b", "--readers=2", "--", "--x", "y z"],
        ["reader/0 | 0 --x y z", "reader/1 | 1 --x y z", "writer/0 | a", "writer/0 | b"],
    ),
    "a built-in component": (["sweep.py:sweep", "--params", "lr=0.1,m=2", "--tags=a,b"], ["lr=0.1 m=2.0"]),
}


@pytest.mark.parametrize(("words", "lines"), RUNS.values(), ids=RUNS)
def test_a_component_file_runs(files, words, lines):
    done = files.launcher("run", *words)
    app_id = done.err.split()[0].rpartition("/")[2]
    assert sorted(done.out.replace(app_id, "APP").splitlines()) == lines


@pytest.mark.parametrize(("words", "code", "message"), [
    (["utils.ecko"], 64, "did you mean `utils.echo`?"),
    (["nowhere.py:f"], 64, "there is no file nowhere.py"),
    (["broken.py"], 64, "name the function in it as well: broken.py:FUNCTION"),
    (["utils.echo", "--mgs", "x"], 64, "component `utils.echo`: there is no argument `--mgs`"),
    (["utils.echo", "--num_replicas", "many"], 64, "`num_replicas`: want a number (int), got `many`"),
    (["utils.echo", "--msg=a", "--msg=b"], 64, "--msg is given twice"),
    (["utils.echo", "--dryrun"], 64, "go before the component: run --dryrun"),
    (["--var", "a=b", "utils.echo"], 64, "--var is only for job files, and utils.echo is a component"),
    (["dist.ddp"], 1, "component `dist.ddp` failed: exactly one of --script and -m must be given"),
    (["broken.py:broken"], 1, "KeyError: 'x', line 3 of "),
    (["broken.py:untyped"], 1, "Missing type annotation for argument 'a' in function 'untyped'"),
])  # fmt: skip
def test_a_wrong_command_line_is_one_clear_error(scenario, words, code, message):
    text = "from launcher.specs import AppDef\ndef broken() -> AppDef:\n    return {}['x']\n"
    (scenario.folder / "broken.py").write_text(f"{text}def untyped(a) -> AppDef: ...\n")
    done = scenario.launcher("run", *words, code=code)
    assert message in done.err
    assert "Traceback" not in done.err


@pytest.fixture
def plugins(files):
    """Two installed packages: one whose components have no prefix, and one that cannot be imported."""
    for name, module in (("good", "trainer"), ("broken", "broken_package.jobs")):
        distribution(files.folder, name, "launcher.components", {f"_{name}": module})
    (files.folder / "broken_package").mkdir()
    (files.folder / "broken_package" / "__init__.py").write_text("raise RuntimeError('no driver')\n")
    env = {**os.environ, "PYTHONPATH": f"{files.folder}:{os.environ.get('PYTHONPATH', '')}"}
    return partial(files.launcher, env=env)


def test_a_component_of_one_word_runs_and_a_file_of_its_name_comes_first(plugins, scenario):
    assert "epochs=3" in plugins("run", "trainer", *TRAINER).out
    assert plugins("convert", "trainer", *TRAINER).out.startswith("version: 1")
    (scenario.folder / "trainer").write_text("version: 1\nname: x\n")
    assert "trainer" in plugins("run", "trainer", code=6).err


def test_a_package_that_cannot_be_imported_hides_no_other(plugins):
    shown = plugins("components")
    assert {"trainer", "utils.echo"} <= {line.split()[0] for line in shown.out.splitlines()}
    assert "RuntimeError: no driver" in shown.err
    assert plugins("run", "utils.echo", "--msg=hi").out == "hi\n"


def test_the_help_option_after_a_component_shows_the_help_of_the_component(files):
    shown = files.launcher("run", "trainer.py:trainer", "--help").out
    assert "On one replica." in shown
    assert "--epochs int (default: 1)\n      passes over the data" in shown
    assert "--image str (required)" in shown


def test_arguments_on_the_command_line_override_defaults_from_configuration(scenario):
    (scenario.folder / "launcher.toml").write_text('[components."utils.echo"]\nmsg = "configured"\n')
    assert scenario.launcher("run", "utils.echo").out == "configured\n"
    assert scenario.launcher("run", "utils.echo", "--msg", "given").out == "given\n"


def test_components_lists_all_components_and_shows_a_single_one(scenario):
    names = [found["name"] for found in json.loads(scenario.launcher("components", "--json").out)]
    assert {"utils.echo", "dist.ddp"} <= set(names)
    lines = scenario.launcher("components").out.splitlines()
    [line] = [line for line in lines if line.startswith("utils.echo")]
    assert line.split(None, 1)[1] == "Echoes a message to stdout."
    one = json.loads(scenario.launcher("components", "utils.touch", "--json").out)
    assert one["arguments"][0] == {"name": "file", "type": "str", "required": True, "help": "file to create"}


def test_the_printed_source_of_a_component_runs_as_a_component_file(scenario):
    (scenario.folder / "mine.py").write_text(scenario.launcher("components", "utils.echo", "--source").out)
    assert scenario.launcher("run", "mine.py:echo", "--msg=mine").out == "mine\n"


@pytest.mark.parametrize("words", [
    ["utils.sh", "--env", "A=1", "--num_replicas=2", "--", "echo", "$HOME ${app_id} 'x'", "1.0", "no"],
    ["dist.ddp", "--script", "a.py", "-j", "1:2x2", "--debug", "true", "--mounts",
        "type=volume,src=a,dst=/b"],
    ["pipeline.py:pipeline", "--names=a,b", "--", "--x"],
    ["trainer.py:trainer", *TRAINER],
], ids=lambda words: words[0])  # fmt: skip
def test_convert_writes_the_job_file_that_gives_the_same_app(files, words):
    from launcher import load_job
    from launcher.components import get_component, materialize_appdef

    path = files.folder / "x.launcher.yaml"
    path.write_text(files.launcher("convert", "--name", "converted", *words).out)
    name, _, function = words[0].rpartition(":")
    found = get_component(f"{files.folder / name}:{function}" if name else words[0])
    app = materialize_appdef(found.fn, words[1:])
    assert load_job(path).app.roles == app.roles
    assert files.launcher("fmt", "--check", str(path)).code == 0


def test_convert_keeps_the_order_of_roles(scenario):
    text = "from launcher.specs import AppDef, Role\ndef f() -> AppDef:\n"
    text += "    return AppDef('f', [Role(name, '', entrypoint='true') for name in ('worker', 'chief')])\n"
    (scenario.folder / "c.py").write_text(text)
    out = scenario.launcher("convert", "c.py:f").out
    assert out.index("worker:") < out.index("chief:")


@pytest.mark.parametrize("words", [
    ["dist.ddp", "--script", "train_mnist.py"],
    ["dist.ddp", "-m", "my_pkg.train_it", "--debug", "yes", "--", "--lr", "$HOME $<app_id>", "1.0"],
    ["c.py:f", "--pair=1,b", "--x", "2.0"],
])  # fmt: skip
def test_convert_writes_a_call_of_the_component_where_roles_cannot_express_it(scenario, words):
    from launcher import load_job
    from launcher.components import get_component, materialize_appdef

    text = "from launcher.specs import AppDef, Role\ndef f(pair: tuple[int, str], x: float = 1) -> AppDef:\n"
    text += "    return AppDef('f', [Role('a_b', '', entrypoint='e', args=[str(pair), str(x)])])\n"
    (scenario.folder / "c.py").write_text(text)
    path = scenario.folder / "x.launcher.yaml"
    path.write_text(scenario.launcher("convert", *words).out)
    assert f"component: {words[0]}" in path.read_text().replace('"', "")
    found = get_component(words[0], folder=str(scenario.folder))
    assert load_job(path).app.roles == materialize_appdef(found.fn, words[1:]).roles
    assert scenario.launcher("fmt", "--check", str(path)).code == 0


def test_convert_takes_the_options_of_run(scenario):
    from launcher import load_job

    (scenario.folder / "src").mkdir()
    words = ["-s", "local_dir", "--cfg", "grace_s=3", "-c", "prepend_cwd=true", "--workspace", "src"]
    (scenario.folder / "x.launcher.yaml").write_text(scenario.launcher("convert", *words, "utils.echo").out)
    launch = load_job(scenario.folder / "x.launcher.yaml")
    assert launch.scheduler == "local_dir"
    assert launch.cfg == {"grace_s": 3.0, "prepend_cwd": True}
    assert launch.workspace.path == "src"


@pytest.mark.parametrize(("words", "code", "message"), [
    (["-s", "local_cvd", "utils.echo"], 64, "did you mean `local_cwd`?"),
    (["--cfg", "grace=3", "utils.echo"], 64, "did you mean `grace_s`?"),
    (["--workspace", "nowhere", "utils.echo"], 1, "the workspace `nowhere` does not exist"),
    (["--workspace", "{a: b}", "utils.echo"], 64, "a single folder"),
    (["c.py:f"], 1, "roles.a_b.args[0] changes"),
    (["c.py:g"], 1, "roles.a_b differs"),
])  # fmt: skip
def test_convert_reports_why_no_job_file_can_give_the_app(scenario, words, code, message):
    text = "import time\nfrom launcher.specs import AppDef, Role\nclass Mine(Role): pass\n"
    text += "def f() -> AppDef: return AppDef('f', [Role('a_b', '', entrypoint=str(time.time_ns()))])\n"
    text = text.replace("entrypoint=str(time.time_ns())", "entrypoint='e', args=[str(time.time_ns())]")
    text += "def g() -> AppDef: return AppDef('g', [Mine('a_b', '', entrypoint='e')])\n"
    (scenario.folder / "c.py").write_text(text)
    assert message in scenario.launcher("convert", *words, code=code).err


def test_the_prints_of_a_component_file_are_in_no_document(scenario):
    text = "import os\nprint('python')\nos.write(1, b'descriptor\\n')\nos.system('echo child')\n"
    text += "from launcher.specs import AppDef, Role\ndef f() -> AppDef:\n    os.system('echo called')\n"
    text += "    return AppDef('f', [Role('main', '', entrypoint='true')])\n"
    (scenario.folder / "c.py").write_text(text)
    (scenario.folder / "c.launcher.yaml").write_text("version: 1\nname: c\ncomponent: c.py:f\n")
    assert scenario.launcher("convert", "c.py:f").out.startswith("version: 1\n")
    assert json.loads(scenario.launcher("plan", "c.launcher.yaml", "--format", "json").out)
    handle = scenario.launcher("run", "--detach", "c.py:f")
    assert handle.out.startswith("local_cwd://")
    assert handle.out.count("\n") == 1
    assert {"python", "descriptor", "child", "called"} <= set(handle.err.split())


def test_an_env_argument_of_a_component_may_hold_a_secret(scenario):
    script = "echo length ${#TOKEN}"
    text = f"version: 1\nname: x\ncomponent: utils.sh\nargs:\n  args: [sh, -c, '{script}']\n"
    text += "  entrypoint: env\n  env: {TOKEN: {secret: env:API_KEY}}\n"
    (scenario.folder / "x.launcher.yaml").write_text(text)
    env = {**os.environ, "API_KEY": "hush-7"}
    assert "hush-7" not in scenario.launcher("plan", "x.launcher.yaml", "--format", "json", env=env).out
    assert scenario.launcher("run", "x.launcher.yaml", env=env).out == "length 6\n"


def test_configure_writes_a_file_and_leaves_an_existing_file_unchanged(scenario):
    scenario.launcher("configure", "--all")
    written = (scenario.folder / "launcher.toml").read_text()
    assert "[schedulers.local_cwd]" in written
    assert "already exists" in scenario.launcher("configure", "-s", "local_dir", code=1).err
    assert (scenario.folder / "launcher.toml").read_text() == written


def test_configure_with_a_wrong_name_writes_nothing(scenario):
    assert "did you mean `local_cwd`?" in scenario.launcher("configure", "-s", "local_cvd", code=64).err
    assert not (scenario.folder / "launcher.toml").exists()


JOB = """\
version: 1
name: train
vars: {epochs: {type: int, default: 3}}
component: jobs/trainer.py:trainer
args:
  image: none
  epochs: $<var.epochs>
  resume: true
  seed: 6
  env: {MODE: slow}
"""


@pytest.fixture
def job(files):
    (files.folder / "jobs").mkdir()
    shutil.copy(FILES / "trainer.py", files.folder / "jobs")
    (files.folder / "train.launcher.yaml").write_text(JOB)
    return files


@pytest.mark.slow
def test_a_job_with_a_component_is_unchanged_until_its_component_file_changes(job):
    job.launcher("apply", "train.launcher.yaml", "--yes", "--wait")
    assert "Plan: no changes" in job.launcher("plan", "train.launcher.yaml").out
    path = job.folder / "jobs" / "trainer.py"
    path.write_text(path.read_text().replace("memMB=128", "memMB=256"))
    assert "resource.memory: 128MiB → 256MiB" in job.launcher("plan", "train.launcher.yaml").out


def test_two_users_get_one_digest_for_a_mount_from_their_home(scenario):
    path = scenario.folder / "x.launcher.yaml"
    text = "version: 1\nname: x\nscheduler: local_docker\ncomponent: utils.sh\nargs:\n  args: [ls, /data]\n"
    path.write_text(text + "  mounts: [type=bind, src=~/data, dst=/data, readonly]\n")
    documents = [
        json.loads(scenario.launcher("compile", path, "--json", env={**os.environ, "HOME": home}).out)
        for home in ("/home/ada", "/home/bob")
    ]
    assert documents[0] == documents[1]
    assert "~/data" in json.dumps(documents[0])


def test_compile_names_the_argument_that_a_value_comes_from(job):
    found = json.loads(job.launcher("compile", "train.launcher.yaml", "--json").out)
    origins = found["jobs"][0]["origins"]
    at = {"file": "train.launcher.yaml", "layer": "file"}
    component = "component `jobs/trainer.py:trainer`"
    assert origins["roles.trainer.env.MODE"] == {**at, "line": 10, "through": [component]}
    assert origins["roles.trainer.image"] == {**at, "line": 6, "through": [component]}
    assert origins["roles.trainer.entrypoint"] == {**at, "line": 4, "through": [component]}
    assert origins["roles.trainer.args[0]"]["line"] == 4


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
