"""The outcomes of an apply, on terminals narrower than the text, and without a terminal."""

import pytest

from launcher.apply.events import Outcome
from launcher.cli.live_display import image_line
from launcher.cli.render.outcomes import EventLines, event_line, outcomes_text
from launcher.specs.launch import JobKey
from launcher.state.records import AppRecord


def outcome(job, message=""):
    app = AppRecord("local_docker", "vision.prod", f"{job}-12-k3fwx", name=job, number=12, state="failed")
    app.message = message
    return Outcome(key=JobKey("vision", "prod", job), kind="create", app=app)


LONG = "main/0 exited with 7; main/0: ValueError: the learning rate must be positive, and was -0.1"


@pytest.mark.parametrize("columns", [60, 80, 120])
@pytest.mark.parametrize("job", ["train", "train-resnet-on-imagenet"])
def test_a_job_is_one_line_with_the_whole_id_of_its_app(columns, job):
    text = outcomes_text([outcome(job, LONG), outcome("eval")], columns=columns).splitlines()
    assert len(text) == 3
    assert max(map(len, text)) <= columns
    assert f"{job}-12-k3fwx" in text[1]
    assert "FAILED" in text[1]


def test_outcomes_are_not_cut_in_a_wide_terminal_or_a_pipe():
    short = outcomes_text([outcome("train", "main/0 exited with 7")], columns=120)
    assert "local_docker://vision.prod/train-12-k3fwx" in short
    assert short.endswith("main/0 exited with 7")
    assert LONG in outcomes_text([outcome("train", LONG)])


def test_the_line_of_a_cancelled_job_says_cancelled_once():
    event = {"event": "ended", "job": "train", "state": "cancelled", "message": "cancelled by ann@node1"}
    assert event_line(event) == "train CANCELLED by ann@node1"
    assert event_line({**event, "state": "failed", "message": "exit code 1"}) == "train FAILED: exit code 1"


BUILD = """\
Step 1/6 : ARG IMAGE
Step 2/6 : FROM $IMAGE
 ---> 5ea8b5a4a3f4
Step 3/6 : ARG FOLDER
 ---> Running in 0123456789ab
 ---> Removed intermediate container 0123456789ab
 ---> 6ea8b5a4a3f4
Step 4/6 : WORKDIR $FOLDER
 ---> Running in 1123456789ab
Removing intermediate container 1123456789ab
 ---> 7ea8b5a4a3f4
Step 5/6 : COPY workspace/ .
 ---> 8ea8b5a4a3f4
Step 6/6 : LABEL launcher.workspace=ws1:sha256:00
 ---> Running in 2123456789ab
 ---> 9ea8b5a4a3f4
Successfully built 9ea8b5a4a3f4
"""


def test_the_text_of_a_build_shows_its_steps_and_their_output():
    def line(text):
        return image_line("building", {"image": "w:1", "line": text}, "train")

    lines = [*BUILD.splitlines(), "Collecting torch", "Step 2/2 : RUN pip install torch"]
    shown = [line(text) for text in lines]
    assert [text for text in shown if text] == [
        "train w:1: Step 2/6 : FROM $IMAGE",
        "train w:1: Step 5/6 : COPY workspace/ .",
        "train w:1: Collecting torch",
        "train w:1: Step 2/2 : RUN pip install torch",
    ]


def lines(count, name, **facts):
    keys = [JobKey("vision", "prod", f"sweep-{n}") for n in range(count)]
    shown = EventLines(dict.fromkeys(keys, "sweep"))
    made = (shown.line(key, {"event": name, "job": key.job, **facts}) for key in keys)
    return [line for line in made if line is not None]


def test_the_first_starts_of_a_large_matrix_have_lines_and_the_others_are_counted():
    assert lines(20, "started")[-1] == "sweep-19 started"
    assert lines(120, "started")[8:] == [
        "sweep-8 started", "sweep-9 started", "sweep: 20 jobs started", "sweep: 50 jobs started",
        "sweep: 100 jobs started",
    ]  # fmt: skip
    assert lines(120, "ended", state="succeeded")[-1] == "sweep: 100 jobs succeeded"


def test_each_failure_of_a_large_matrix_has_a_line():
    assert len(lines(120, "ended", state="failed", message="main/0 exited with 7")) == 120
