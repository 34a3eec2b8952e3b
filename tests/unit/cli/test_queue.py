"""`launcher queue` and what it prints."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from launcher.turns.line import Ask, Limit
from launcher.turns.machine import gpu_table_folder, machine, table_folder
from launcher.turns.table import Place

SWEEP = Limit("matrix default/default/sweep", apps=2, label="sweep")
Take = Callable[..., Place]


@pytest.fixture
def take(scenario, monkeypatch) -> Iterator[Take]:
    """A function that takes a place in the tables of the scenario, on a machine of 2 cores and 2 GPUs."""
    monkeypatch.setenv("LAUNCHER_GPUS", "2")
    made: list[Place] = []

    def take(app: str, number: int, *limits: Limit, table: str = "", **wanted: object) -> Place:
        if wanted.get("gpus"):
            wanted |= {"gpu_table": gpu_table_folder(), "devices": ("0", "1")}
        ask = Ask(app, number=number, table=table or table_folder(), limits=(Limit(cpu=2), *limits), **wanted)
        made.append(Place(ask))
        made[-1].look()
        return made[-1]

    yield take
    for place in made:
        place.leave()


def document(scenario) -> dict:
    return json.loads(scenario.launcher("queue", "--json").out)


def test_a_machine_that_no_app_uses_shows_what_it_has(scenario):
    done = scenario.launcher("queue")
    assert [line.split()[0] for line in done.out.splitlines() if line] == [
        "THIS", "cores", "memory", "GPUs", "table",
    ]  # fmt: skip
    assert "no app holds" in done.err
    shown = document(scenario)
    assert (shown["slots"]["cpu"]["total"], shown["holders"], shown["line"]) == (
        machine(with_gpus=False).cpu,
        [],
        [],
    )
    assert not scenario.home.exists()


def test_holders_and_line_are_shown_in_their_order(scenario, take):
    take("b-1", 2, cpu=0.5, memory_mb=512)
    take("a-1", 1, cpu=1)
    take("z-1", 8, cpu=2)
    take("c-1", 9, cpu=1)
    text = scenario.launcher("queue").out
    holders, line = text.split("\n\n")[1:3]
    assert [row.split() for row in holders.splitlines()[1:]] == [["a-1", "1"], ["b-1", "0.5", "512", "MiB"]]
    assert line.splitlines()[1].split(maxsplit=3) == ["1", "z-1", "2", "2 cores held by a-1, b-1"]
    shown = document(scenario)
    assert [each["app_id"] for each in shown["holders"]] == ["a-1", "b-1"]
    assert [(each["app_id"], each["position"], each["message"]) for each in shown["line"]] == [
        ("z-1", 1, "1st in line for 2 cores held by a-1, b-1"),
        ("c-1", 2, "2nd in line for 1 core held by a-1, b-1"),
    ]
    assert (shown["slots"]["cpu"]["held"], shown["slots"]["memory_mb"]["held"]) == (1.5, 512)


def test_gpus_are_shown_with_their_holders(scenario, take):
    take("a-1", 1, gpus=1)
    take("b-1", 2, gpus=2)
    gpus = [{"id": "0", "held_by": ["a-1"]}, {"id": "1", "held_by": []}]
    assert document(scenario)["slots"]["gpus"] == gpus
    [row] = [line for line in scenario.launcher("queue").out.splitlines() if line.startswith("GPUs")]
    assert row.split(maxsplit=1)[1].replace("  ", "|") == "2 (0, 1)|1 (0)|1 (1)"


@pytest.mark.parametrize(("apps", "words"), [(1, "the place"), (2, "one of 2 places")])
def test_an_app_that_was_started_beyond_the_limit_adds_no_place(scenario, take, apps, words):
    sweep = Limit("matrix p/t/sweep", apps=apps, label="sweep")
    for number in range(apps):
        take(f"a-{number}", number, sweep)
    take("now-1", 7, sweep, at_once=True)
    take("b-1", 8, sweep)
    [waiting] = document(scenario)["line"]
    assert waiting["message"] == f"1st in line for {words} of sweep"


def test_apps_of_another_table_count_for_gpus_alone(scenario, take, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    take("far-1", 1, table=str(other), gpus=2, cpu=2)
    take("near-1", 2, gpus=1, cpu=1)
    shown = document(scenario)
    assert [(each["app_id"], each["elsewhere"]) for each in shown["holders"]] == [("far-1", True)]
    assert [each["message"] for each in shown["line"]] == ["1st in line for 1 GPU held by far-1"]
    assert shown["slots"]["cpu"]["held"] == 0
    assert "far-1" in scenario.launcher("queue").out


def test_the_table_in_use_is_named(scenario, tmp_path, monkeypatch):
    assert str(scenario.home) in scenario.launcher("queue").out
    assert "LAUNCHER_SLOTS" in scenario.launcher("queue").err
    monkeypatch.setenv("LAUNCHER_SLOTS", str(tmp_path / "common table"))
    done = scenario.launcher("queue")
    assert str(tmp_path / "common table") in done.out
    assert "LAUNCHER_SLOTS" not in done.err


def test_a_wrong_number_of_gpus_is_an_error(scenario, monkeypatch):
    monkeypatch.setenv("LAUNCHER_GPUS", "many")
    assert "LAUNCHER_GPUS" in scenario.launcher("queue", code=64).err


def test_lines_of_queue_fit_a_terminal_of_80_columns(take):
    from launcher.cli.queue import queue_text
    from launcher.inventory.turns import Tables

    take("train-resnet-1-k3fwx", 1, SWEEP, cpu=1, memory_mb=2000, gpus=2)
    take("train-resnet-2-k3fwx", 2, SWEEP, cpu=1, memory_mb=2000)
    take("evaluate-all-of-the-models-17-k3fwx", 3, SWEEP, cpu=2, memory_mb=2000, gpus=2)
    has = machine(with_gpus=True)
    text = queue_text(has, Tables.read(), {}, color=False, columns=80)
    line = text.split("\n\n")[2].splitlines()
    assert max(map(len, line)) <= 80
    assert "2 cores h" in line[1]


@pytest.mark.parametrize("name", ["stray", "5-x\x1b[2J-1", "notes.txt"])
def test_other_files_in_a_table_are_passed_over(scenario, take, name):
    take("a-1", 1, cpu=1)
    folder = Path(table_folder())
    (folder / name).write_text("\x1b[2J" * 9)
    (folder / f"{name}-folder").mkdir()
    os.mkfifo(folder / f"{name}-pipe")
    done = scenario.launcher("queue")
    assert "\x1b" not in done.out
    assert [each["app_id"] for each in document(scenario)["holders"]] == ["a-1"]
    take("b-1", 2, cpu=1)
    assert [each["app_id"] for each in document(scenario)["holders"]] == ["a-1", "b-1"]
