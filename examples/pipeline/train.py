"""Fit a line by gradient descent. Usage: train.py POINTS_FOLDER OUTPUT_FOLDER LEARNING_RATE STEPS

A checkpoint is written every hundred steps. Killed and started again, it goes on from the last one.
"""

import json
import os
import sys
from pathlib import Path

source, out = map(Path, sys.argv[1:3])
rate, steps = float(sys.argv[3]), int(sys.argv[4])
points = json.loads((source / "points.json").read_text())
checkpoint = out / "checkpoint.json"
first, slope, offset = json.loads(checkpoint.read_text()) if checkpoint.exists() else (0, 0.0, 0.0)
print(f"start at step {first}")


def save(name: str, value: object) -> None:
    """Replace the file as a whole: a reader, or a run that was killed, sees no half of it."""
    part = out / f"{name}.part"
    part.write_text(json.dumps(value))
    os.replace(part, out / name)


for step in range(first, steps):
    errors = [(slope * x + offset - y, x) for x, y in points]
    slope -= rate * 2 * sum(error * x for error, x in errors) / len(points)
    offset -= rate * 2 * sum(error for error, _ in errors) / len(points)
    if (step + 1) % 100 == 0:
        save("checkpoint.json", (step + 1, slope, offset))
save("model.json", {"slope": slope, "offset": offset})
print(f"y = {slope:.2f} x + {offset:.2f} after {steps} steps")
