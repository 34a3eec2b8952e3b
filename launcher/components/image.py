"""The default images of the built-in components.

Pinned texts, the same for every user: an image that followed the installed Python would change the digest
of a committed job from one laptop to the next. Local schedulers ignore them.
"""

from __future__ import annotations

IMAGE = "python:3.12-slim"
"""An image with sh, echo, touch, cp and Python. `utils.copy` and `utils.booth` need one with launcher."""

TORCH_IMAGE = "pytorch/pytorch:2.5.1-cuda12.4-cudnn9-runtime"
"""An image with torchrun."""
