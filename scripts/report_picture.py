"""Write docs/report.png: the page of `launcher report` after a real run, as a browser shows it.

`scripts/report_picture` runs the jobs below in a state folder of their own, which takes some seconds.
"""

from __future__ import annotations

import base64
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from picture import example, write  # noqa: E402

from tests.browser import Browser, program  # noqa: E402

PICTURE = ROOT / "docs" / "report.png"
WIDE, HIGH = 1100, 1330

JOB = """\
version: 1
name: {name}
{top}
roles:
  main:
    entrypoint: python3
    args: [{name}.py]
{role}
"""
METRICS = """\
import json, os, time
time.sleep({seconds})
with open(os.environ["LAUNCHER_OUTPUT_DIR"] + "/metrics.json", "w") as file:
    json.dump({metrics}, file)
"""


def job(name: str, program: str, *, top: str = "", role: str = "") -> dict[str, str]:
    text = JOB.format(name=name, top=top, role=f"    {role}" if role else "")
    return {f"jobs/{name}.launcher.yaml": text, f"jobs/{name}.py": program}


GPU = "resource: {cpu: 1, memory: 512MiB, gpu: 1}"
BUSY = "import time\nend, held = time.time() + 1.5, bytearray(300 << 20)\nwhile time.time() < end: pass\n"
FILES = {
    "jobs/launcher.toml": 'project = "vision"\n',
    **job("prepare", METRICS.format(seconds=1.2, metrics={"rows": 120_000, "dropped": 31})),
    **job(
        "train", BUSY + METRICS.format(seconds=0, metrics={"loss": 0.412}), top="needs: [prepare]", role=GPU
    ),
    **job("embed", BUSY, top="needs: [prepare]", role=GPU),
    **job("evaluate", "print('reading 4,000 images')\nimport torchmetrics\n", top="needs: [train]"),
    **job("publish", "", top="needs: [evaluate]"),
}
CHANGED = {
    **job("prepare", METRICS.format(seconds=1.2, metrics={"rows": 124_800, "dropped": 12})),
    **job(
        "train", BUSY + METRICS.format(seconds=0, metrics={"loss": 0.387}), top="needs: [prepare]", role=GPU
    ),
}
COMMANDS = ("launcher apply jobs --yes --wait", "launcher apply jobs --yes --wait --rerun prepare+")


def picture() -> bytes:
    """The top of the page as PNG."""
    with example() as (folder, environ):
        for files, command in zip((FILES, CHANGED), COMMANDS, strict=True):
            write(folder, files)
            run(command, folder, {**environ, "LAUNCHER_GPUS": "1"})
        run("launcher report --html page.html", folder, environ)
        with Browser(wide=WIDE, high=HIGH) as browser:
            browser.open(folder / "page.html")
            browser.run("document.getElementById('filter').remove()")
            clip = {"x": 0, "y": 0, "width": WIDE, "height": HIGH, "scale": 1}
            shot = browser.ask("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)
            return base64.b64decode(shot["data"])


def run(command: str, folder: Path, environ: dict[str, str]) -> None:
    subprocess.run(command.split(), cwd=folder, env=environ, capture_output=True, check=False)


if __name__ == "__main__":
    if not program():
        sys.exit("there is no chromium: apt-get install chromium")
    PICTURE.write_bytes(picture())
    print(f"{PICTURE.relative_to(ROOT)}: {PICTURE.stat().st_size // 1000} kB")
