"""`launcher.specs` offers every name and costs nothing until one is used."""

import subprocess
import sys

import pytest

from launcher import specs


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'Rolle'"):
        _ = specs.Rolle


def test_importing_the_package_loads_none_of_its_modules():
    code = "import sys, launcher.specs; print([m for m in sys.modules if m.startswith('launcher.specs.')])"
    assert run(code) == "[]\n"


def test_the_module_that_every_command_needs_is_cheap_to_import():
    heavy = "{'dataclasses', 'typing', 'inspect', 're', 'json', 'pathlib', 'subprocess'}"
    code = f"import sys, launcher.specs.jobkey; print(sorted({heavy} & set(sys.modules) - before))"
    assert run(f"import sys; before = set(sys.modules); {code}") == "[]\n"


@pytest.mark.parametrize("first", ["from launcher.specs import runopts, macros", "import launcher.specs.app"])
def test_a_class_keeps_its_name_whichever_module_of_that_name_is_imported(first):
    code = (
        f"{first}\nimport launcher.specs.macros, launcher.specs.runopts\n"
        "from launcher.specs import macros, runopts\nprint(macros.__name__, runopts.__name__, type(macros))"
    )
    assert run(code) == "macros runopts <class 'type'>\n"
