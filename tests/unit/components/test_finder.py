"""Components are found by name in this order: of installed packages, built in, of files."""

from __future__ import annotations

import sys

import pytest

from launcher.components import (
    ComponentNotFoundException,
    ComponentValidationException,
    ModuleComponentsFinder,
    get_builtin_source,
    get_component,
    get_components,
    materialize_appdef,
    module_relname,
    read_conf_file,
)
from launcher.components.finder import survey
from tests.plugin.package import distribution

TRAIN = """\
from __future__ import annotations
import dataclasses
from launcher.specs import AppDef, Role

@dataclasses.dataclass
class Settings:
    lr: float

def train(lr: float = 0.1) -> AppDef:
    \"\"\"Trains.\"\"\"
    return AppDef("train", [Role("train", "", entrypoint="true", args=[str(Settings(lr).lr), __file__])])

def wrong(lr) -> AppDef: ...

def _private() -> AppDef: ...

def other() -> int: ...
"""


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A distribution that offers the components of a package of its own as `ALIAS = PACKAGE`."""

    def install(alias, package="acme_components"):
        distribution(tmp_path, "acme", "launcher.components", {alias: package})
        folder = tmp_path / "acme_components" / "vision"
        folder.mkdir(parents=True)
        (tmp_path / "acme_components" / "__init__.py").write_text("")
        (folder / "__init__.py").write_text(TRAIN)
        text = TRAIN.replace("train(", "echo(", 1)
        (folder / "utils.py").write_text(f"{text}\nraise SystemExit('imported')")
        monkeypatch.syspath_prepend(str(tmp_path))

    yield install
    for name in [name for name in sys.modules if name.startswith("acme_components")]:
        del sys.modules[name]


@pytest.fixture
def train(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(TRAIN)
    return path


BUILT_IN = """
    dist.ddp dist.spmd metrics.tensorboard serve.torchserve utils.binary utils.booth utils.copy utils.echo
    utils.python utils.sh utils.touch
"""


def test_get_components_lists_the_built_in_components():
    assert sorted(get_components()) == BUILT_IN.split()


@pytest.mark.parametrize("name", ["utils.echo", "launcher.components.utils.echo"])
def test_a_built_in_component_is_found_by_its_short_and_its_full_name(name):
    found = get_component(name)
    assert (found.name, found.fn_name, found.fn.__name__) == ("utils.echo", "echo", "echo")
    assert found.description == "Echoes a message to stdout."


def test_a_component_of_an_installed_package_is_listed_without_its_import_and_found_beside_ours(installed):
    installed("acme")
    assert {"acme.vision.train", "acme.vision.utils.echo", "utils.echo"} <= get_components().keys()
    assert "acme_components.vision.utils" not in sys.modules
    assert get_component("acme.vision.train").fn().name == "train"
    assert get_component("utils.echo").fn().name == "echo"


@pytest.mark.parametrize(
    ("alias", "value", "prefix"),
    [("_", "acme_components.vision", ""), ("acme", "acme_components.vision:train", "acme.")],
    ids=["an underscore is no prefix", "an attribute is left out"],
)
def test_components_of_a_package_have_its_alias_as_prefix_and_win_over_ours(installed, alias, value, prefix):
    installed(alias, package=value)
    assert get_component(f"{prefix}train").fn().name == "train"
    assert get_component(f"{prefix}utils.echo").path.endswith("acme_components/vision/utils.py")


def test_a_module_that_cannot_be_imported_is_named(installed):
    installed("acme")
    with pytest.raises(ComponentNotFoundException, match=r"vision/utils.py: SystemExit: imported"):
        _ = get_component("acme.vision.utils.echo").fn


def broken_package(folder, monkeypatch):
    (folder / "acme_broken").mkdir()
    (folder / "acme_broken" / "__init__.py").write_text("raise RuntimeError('no driver')\n")
    distribution(folder, "acme-broken", "launcher.components", {"_": "acme_broken.parts"})
    monkeypatch.syspath_prepend(str(folder))


def test_a_package_that_cannot_be_imported_hides_no_other(installed, tmp_path, monkeypatch):
    installed("acme")
    broken_package(tmp_path, monkeypatch)
    with pytest.warns(UserWarning, match="`acme_broken.parts` cannot be imported: RuntimeError: no driver"):
        assert {"acme.vision.train", "utils.echo"} <= get_components().keys()
    assert get_component("utils.echo").name == "utils.echo"
    with pytest.raises(ComponentNotFoundException) as caught:
        get_component("parts.mine")
    assert "RuntimeError: no driver" in str(caught.value.hint)
    with pytest.raises(ComponentNotFoundException) as caught:
        get_component("utils.ecko")
    assert str(caught.value.hint).startswith("did you mean `utils.echo`?; ")
    assert "RuntimeError: no driver" in str(caught.value.hint)


def test_a_file_that_is_no_python_hides_no_other(installed, tmp_path):
    installed("acme")
    (tmp_path / "acme_components" / "a.py").write_text("def f(:\n")
    (tmp_path / "acme_components" / "b.py").write_bytes(b"# \xff\n")
    found = survey()
    assert "acme.vision.train" in found.components
    assert ["a.py:1: invalid syntax" in found.broken[0], "b.py:1: not UTF-8" in found.broken[1]] == [True] * 2


@pytest.mark.parametrize("value", ["nowhere", "no module!", "", ".relative", "acme_components.nowhere"])
def test_an_entry_point_of_a_missing_module_is_reported(installed, value):
    installed("acme", package=value)
    (line,) = survey().broken
    assert "module" in line


def test_a_package_without_init_is_searched_and_its_subfolders_without_init_are_not(tmp_path, monkeypatch):
    for folder in ("acme_components", "acme_components/loose"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "jobs.py").write_text(TRAIN)
    monkeypatch.syspath_prepend(str(tmp_path))
    found = [one.name for one in ModuleComponentsFinder("acme_components", "a").find([])]
    assert found == ["a.jobs.train", "a.jobs.wrong"]


def test_a_file_on_disk_is_read_before_a_file_of_the_package(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "def echo(" in read_conf_file("components/utils.py")
    (tmp_path / "components").mkdir()
    (tmp_path / "components" / "utils.py").write_text("mine")
    assert read_conf_file("components/utils.py") == "mine"
    with pytest.raises(FileNotFoundError):
        read_conf_file("components/nowhere.py")


def test_a_component_of_a_file_is_found_with_its_description_where_a_path_holds_a_colon_too(train):
    (train.parent / "a:b").mkdir()
    for path in (train, train.rename(train.parent / "a:b" / "train.py")):
        path.write_text(TRAIN)
        found = get_component(f"{path}:train")
        assert found.fn().roles[0].args == ["0.1", str(path)]
        assert (found.name, found.description) == (f"{path}:train", "Trains.")


def test_a_path_is_relative_to_the_folder_given(train, monkeypatch):
    monkeypatch.chdir("/")
    assert get_component("train.py:train", folder=str(train.parent)).path == str(train)


def test_a_file_that_has_changed_is_read_again(train):
    get_component(f"{train}:train")
    train.write_text(TRAIN.replace('AppDef("train"', 'AppDef("changed"'))
    assert get_component(f"{train}:train").fn().name == "changed"


@pytest.mark.parametrize(("name", "output", "hint"), [
    ("utils.ecko", "there is no component `utils.ecko`", "did you mean `utils.echo`?"),
    ("train.py", "there is no component `train.py`",
        "name the function in it as well: train.py:FUNCTION"),
    ("train.py:", "`train.py:` names no component", "path/to/file.py:FUNCTION"),
    ("nowhere.py:f", "there is no file nowhere.py", None),
    ("train.py:tain", "train.py has no function `tain`", "did you mean `train`?"),
])  # fmt: skip
def test_an_unknown_name_is_refused_with_the_nearest(train, monkeypatch, name, output, hint):
    monkeypatch.chdir(train.parent)
    with pytest.raises(ComponentNotFoundException) as caught:
        get_component(name)
    assert str(caught.value) == output
    if hint:
        assert caught.value.hint == hint


def test_a_missing_component_file_is_a_missing_file_for_programs_that_catch_that():
    with pytest.raises(FileNotFoundError, match=r"there is no file nowhere\.py"):
        get_component("nowhere.py:f")


def test_a_component_with_mistakes_is_refused_with_each_of_them(train):
    with pytest.raises(ComponentValidationException) as caught:
        get_component(f"{train}:wrong")
    assert str(caught.value) == f"{train}:13: Missing type annotation for argument 'lr' in function 'wrong'"


def test_a_file_that_is_no_python_is_refused(tmp_path):
    (tmp_path / "x.py").write_text("def f(:\n")
    with pytest.raises(ComponentValidationException, match=r"x\.py:1: invalid syntax"):
        get_component(f"{tmp_path}/x.py:f")


CONDITIONAL = """\
import contextlib
import typing
from launcher.specs import AppDef
try:
    import no_such_module
except ImportError:
    def tried() -> AppDef:
        return AppDef("tried")
else:
    def absent() -> AppDef: ...
if typing:
    with contextlib.suppress(Exception):
        def given() -> AppDef:
            return AppDef("given")
if typing.TYPE_CHECKING:
    def typed() -> AppDef: ...
if __name__ == "__main__":
    def script() -> AppDef: ...
"""


def test_functions_below_if_and_try_are_components(tmp_path, monkeypatch):
    (tmp_path / "conditional.py").write_text(CONDITIONAL)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert [each.name for each in ModuleComponentsFinder("conditional", "").find()] == [
        "tried",
        "absent",
        "given",
    ]
    for name in ("tried", "given"):
        component = get_component(f"{tmp_path}/conditional.py:{name}")
        assert materialize_appdef(component.fn, []).name == name
    for absent in (
        get_component(f"{tmp_path}/conditional.py:absent"),
        ModuleComponentsFinder("conditional", "").find()[1],
    ):
        with pytest.raises(ComponentNotFoundException, match="does not define `absent` here"):
            materialize_appdef(absent.fn, [])


def test_a_finder_lists_components_with_mistakes_too_and_a_survey_says_what_they_are(installed):
    installed("acme")
    found = {one.name: one for one in ModuleComponentsFinder("acme_components.vision", "a").find(None)}
    assert sorted(found) == ["a.train", "a.utils.echo", "a.utils.wrong", "a.wrong"]
    assert found["a.wrong"].validation_errors
    assert not found["a.train"].validation_errors
    assert any("__init__.py:13: Missing type annotation" in line for line in survey().mistaken)


@pytest.mark.parametrize(
    ("name", "words"), [("utils.echo", []), ("utils.booth", ["--x1=1", "--x2=2"]), ("dist.ddp", ["-m", "x"])]
)
def test_the_source_of_a_built_in_component_is_a_component_file(tmp_path, name, words):
    path = tmp_path / "copied.py"
    path.write_text(get_builtin_source(name))
    if name == "dist.ddp":
        source = get_builtin_source(name).replace("from __future__", "#")
        path.write_text(f"_TORCH_DEBUG_FLAGS = {{}}\n{source}")
    original = get_component(name)
    copied = get_component(f"{path}:{original.fn_name}")
    assert materialize_appdef(copied.fn, words) == materialize_appdef(original.fn, words)


def test_module_relname_returns_the_name_below_a_package():
    assert module_relname("a.b.c", "a") == "b.c"
    assert module_relname("a", "a") == ""
    with pytest.raises(ValueError, match="not below"):
        module_relname("ab", "a")
