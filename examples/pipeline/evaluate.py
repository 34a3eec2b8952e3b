"""Print the mean error of a model. Usage: evaluate.py POINTS_FOLDER MODEL_FOLDER"""

import json
import sys
from pathlib import Path

source, trained = map(Path, sys.argv[1:])
points = json.loads((source / "points.json").read_text())
model = json.loads((trained / "model.json").read_text())
mean = sum(abs(model["slope"] * x + model["offset"] - y) for x, y in points) / len(points)
print(f"mean error {mean:.2f} over {len(points)} points")
