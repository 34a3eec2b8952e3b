"""`launcher skill` and `launcher init --agents`: the page matches the program, and no file is overwritten."""

import re

from ruamel.yaml import YAML

from launcher.cli.init import SKILL
from launcher.cli.main import names
from launcher.cli.skill import EXIT_CODES, skill_page
from launcher.jobfile.schema.words import PARTS

PAGE = skill_page()


def test_the_page_has_every_command_exit_code_and_field():
    assert [name for name in names() if not re.search(rf"^- `launcher {name}\b.*`: \S", PAGE, re.M)] == []
    assert [code for code in EXIT_CODES if f"\n- {code}: " not in PAGE] == []
    fields = {name for _, _, cls in PARTS for name in cls.model_fields}
    assert [name for name in sorted(fields) if not re.search(rf"^- .*`{name}[:`]", PAGE, re.M)] == []


def test_the_page_is_short_and_leaves_no_gap():
    assert len(PAGE.splitlines()) < 210
    assert "<!--" not in PAGE
    assert not re.search(r"\n\n\n|[ \t]\n", PAGE)


def test_agents_find_the_page_by_its_front_matter():
    """Agent Skills specify that the name is the name of the folder, and that the description is bounded."""
    _, front, _ = PAGE.split("---\n", 2)
    found = YAML(typ="safe").load(front)
    assert found.keys() == {"name", "description"}
    assert found["name"] == SKILL.split("/")[-2]
    assert 0 < len(found["description"]) <= 1024


def test_the_page_is_the_same_on_every_terminal(scenario, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    assert scenario.launcher("skill").out == PAGE


def test_init_writes_the_page_and_a_section_that_leads_to_it(scenario):
    scenario.job("true")
    assert scenario.launcher("init", "--agents").out == f"wrote {SKILL}\nwrote AGENTS.md\n"
    assert (scenario.folder / SKILL).read_text() == PAGE
    assert SKILL in (scenario.folder / "AGENTS.md").read_text()
    again = scenario.launcher("init", "--agents")
    assert again.out == ""
    assert f"left {SKILL} unchanged\nleft AGENTS.md unchanged\n" in again.err


def test_init_keeps_existing_files_and_names_the_additions(scenario):
    scenario.job("true")
    mine, page = scenario.write("AGENTS.md", "mine\n"), scenario.write(SKILL, "mine\n")
    said = scenario.launcher("init", "--agents").err
    assert f"left {SKILL} unchanged: it differs from what init writes; --force overwrites it" in said
    assert "left AGENTS.md unchanged; add to it:\n  ## Jobs\n" in said
    scenario.launcher("init", "--agents", "--force")
    assert (mine.read_text(), page.read_text()) == ("mine\n", PAGE)
