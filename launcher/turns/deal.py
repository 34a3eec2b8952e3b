"""Hand the GPUs of an app on to its replicas."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

GPUS = "$<gpus>"
"""Stands in a request for the ids of a replica's GPUs, which are known when its turn comes."""


def shares(dealt: Sequence[str], wanted: Iterable[int]) -> list[str]:
    """The GPUs of each replica, in the form of CUDA_VISIBLE_DEVICES.

    Args:
        dealt: the ids of the app's GPUs.
        wanted: the number of GPUs that each replica asks for, in order.

    `(0, 1, 4), (2, 1)` gives `["0,1", "4"]`. Where fewer were dealt, the last replicas get fewer.
    """
    out, begin = [], 0
    for count in wanted:
        out.append(",".join(dealt[begin : begin + count]))
        begin += count
    return out
