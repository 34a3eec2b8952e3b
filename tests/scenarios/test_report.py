"""The page of `launcher report` in a browser, and in a validator of HTML."""

import json
import subprocess
import time

import pytest

from tests.browser import Browser
from tests.engines import editor_tool, require
from tests.unit.cli.test_report import made, record

RULES = {"root": True, "extends": ["html-validate:standard", "html-validate:a11y"]}
ROWS = "document.querySelectorAll('[data-c]:not([hidden])').length"
FILTER = """
(function () {{
  var word = document.querySelector("#filter input[type=search]");
  word.value = {word!r};
  word.dispatchEvent(new Event("input", {{bubbles: true}}));
}})()
"""


@pytest.fixture
def page(scenario):
    """The report of a job that succeeds, one that prints markup and fails, and one that needs the latter."""
    require("browser")
    scenario.run_to_end(scenario.job("echo '{\"loss\": 1}' >$LAUNCHER_OUTPUT_DIR/metrics.json", name="good"))
    bad = scenario.job("echo '</pre></script><script>alert(1)</script>' >&2; exit 3", name="bad", replicas=2)
    scenario.apply(bad, scenario.job("true", name="next", top="needs: [bad]"))
    scenario.wait("next", code=None)
    scenario.launcher("report", "--html", "page.html")
    return scenario.folder / "page.html"


@pytest.mark.slow
def test_a_report_page_loads_no_resource_has_no_script_error_and_filters_its_rows(page):
    with Browser() as browser:
        browser.open(page)
        assert browser.run(ROWS) == 3
        browser.run(FILTER.format(word="good"))
        assert browser.run(ROWS) == 1
        assert "1 of 3" in browser.run("document.querySelector('#filter output').textContent")
        browser.run("document.querySelector('input[value=succeeded]').click()")
        assert browser.run(ROWS) == 0
        assert browser.requests() == [page.as_uri()]
        assert browser.problems() == []
        assert browser.run("document.documentElement.scrollWidth <= innerWidth")
        assert browser.pdf().startswith(b"%PDF")


@pytest.mark.slow
def test_a_report_page_shows_all_rows_without_scripts_and_has_a_light_and_a_dark_look(page):
    with Browser() as browser:
        browser.ask("Emulation.setScriptExecutionDisabled", value=True)
        browser.open(page)
        assert browser.run(ROWS) == 3
        assert browser.run("getComputedStyle(document.getElementById('filter')).display") == "none"
        colors = "getComputedStyle(document.body).backgroundColor"
        looks = set()
        for scheme in ("light", "dark"):
            browser.colors(scheme)
            looks.add(browser.run(colors))
        assert len(looks) == 2


@pytest.mark.slow
def test_a_long_report_page_prints_the_newest_rows_and_notes_the_omission(scenario):
    require("browser")
    record(*(made("train", "succeeded", number, at=time.time() + number) for number in range(1, 401)))
    scenario.launcher("report", "--html", "page.html")
    printed = "[...document.querySelectorAll('#{} tbody tr')].filter((r) => r.checkVisibility())"
    with Browser() as browser:
        browser.open(scenario.folder / "page.html")
        assert browser.run(ROWS) == 400
        browser.ask("Emulation.setEmulatedMedia", media="print")
        for section in ("time", "origin"):
            rows = browser.run(printed.format(section) + ".map((r) => r.cells[0].textContent)")
            assert set(rows) == {f"train@{number}" for number in range(101, 401)}
            text = browser.run(f"document.getElementById('{section}').innerText")
            assert "300 of 400 rows are printed, the newest" in text
        browser.run(FILTER.format(word="train@99"))
        rows = browser.run(printed.format("origin") + ".map((r) => r.cells[0].textContent)")
        assert rows == ["train@99"]


@pytest.mark.slow
def test_a_report_page_is_valid_html(page):
    rules = page.parent / "rules.json"
    rules.write_text(json.dumps(RULES))
    command = [editor_tool("html-validate"), "--config", rules, page]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout
