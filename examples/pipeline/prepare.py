"""Drop the measurements that are not complete. Usage: prepare.py CSV OUTPUT_FOLDER"""

import csv
import json
import sys
from pathlib import Path

source, out = sys.argv[1:]
with open(source, newline="") as file:
    rows = [(row["x"], row["y"]) for row in csv.DictReader(file)]
points = [(float(x), float(y)) for x, y in rows if x and y]
Path(out, "points.json").write_text(json.dumps(points))
print(f"kept {len(points)} of {len(rows)} measurements")
