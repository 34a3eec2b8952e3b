"""Measure things against each other: A B C A B C …, medians, and the quartiles of the paired ratio."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median, quantiles

Measurement = Callable[[], float]
"""Does the work once and returns what it cost: seconds, or another unit where less is better."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One figure. `ratio` holds first quartile, median and third quartile of ours / floor, round by round."""

    what: str
    unit: str
    floor: float
    ours: float
    ratio: tuple[float, float, float]
    peers: Mapping[str, float]
    target: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Settings:
    """How thorough to be. `scale` shrinks sizes for a quick look (1.0: the sizes of the figures)."""

    rounds: int = 9
    scale: float = 1.0
    peers: bool = False

    def size(self, full: int) -> int:
        return max(1, round(full * self.scale))

    def sizes(self, *full: int) -> list[int]:
        """The different sizes, in order."""
        return list(dict.fromkeys(map(self.size, full)))

    def more(self, times: int) -> int:
        """The rounds of a comparison whose figures vary; one is a quick look there, too."""
        return 1 if self.rounds == 1 else self.rounds * times

    def fewer(self, least: int) -> int:
        """The rounds of a comparison that takes long; one is a quick look there, too."""
        return 1 if self.rounds == 1 else max(least, self.rounds // 2)


def compare(
    what: str,
    *,
    floor: Measurement,
    ours: Measurement,
    target: str,
    rounds: int,
    peers: Mapping[str, Measurement] | None = None,
    unit: str = "s",
    note: str = "",
) -> Row:
    """Run floor, peers and ours in turn, `rounds` times after one warm-up. A single round has none."""
    runs = {"floor": floor, **(peers or {}), "ours": ours}
    got: dict[str, list[float]] = {name: [] for name in runs}
    warm_ups = int(rounds > 1)
    for number in range(rounds + warm_ups):
        for name, run in runs.items():
            value = run()
            if number >= warm_ups:
                got[name].append(value)
    ratios = [a / b for a, b in zip(got["ours"], got["floor"], strict=True)]
    return Row(
        what=what,
        unit=unit,
        floor=median(got["floor"]),
        ours=median(got["ours"]),
        ratio=quartiles(ratios),
        peers={name: median(got[name]) for name in runs if name not in ("floor", "ours")},
        target=target,
        note=note,
    )


def once(what: str, *, ours: float, floor: float, target: str, unit: str = "s", note: str = "") -> Row:
    """A figure that is measured once: all quartiles are its ratio."""
    ratio = quartiles([ours / floor])
    return Row(what=what, unit=unit, floor=floor, ours=ours, ratio=ratio, peers={}, target=target, note=note)


def quartiles(ratios: list[float]) -> tuple[float, float, float]:
    """Return the first quartile, the median and the third quartile; three times a single value."""
    first, middle, third = quantiles(ratios, n=4, method="inclusive") if len(ratios) > 1 else ratios * 3
    return first, middle, third


def table(rows: list[Row]) -> str:
    """Return aligned text: name, floor, peers, ours, the ratio with its quartiles, the target."""
    cells = [("", "floor", "ours", "ours / floor", "quartiles", "target", "peers, notes")]
    for row in rows:
        low, middle, high = row.ratio
        rest = [f"{name} {shown(value, row.unit)}" for name, value in row.peers.items()] + [row.note]
        cells.append(
            (
                row.what,
                shown(row.floor, row.unit),
                shown(row.ours, row.unit),
                f"{middle:.2f}",
                f"{low:.2f} to {high:.2f}",
                row.target,
                "; ".join(filter(None, rest)),
            )
        )
    widths = [max(len(line[i]) for line in cells) for i in range(len(cells[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in cells
    )


def shown(value: float, unit: str) -> str:
    """`0.0123` seconds → `12.3 ms`."""
    if unit != "s":
        return f"{value:.2f} {unit}"
    for size, name in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if value >= size:
            return f"{value / size:.3g} {name}"
    return f"{value * 1e9:.3g} ns"
