"""Every diagnostic code explained, with a wrong and a right example. The tests run the examples."""

from __future__ import annotations

from collections.abc import Mapping

from launcher.jobfile.explain import fields, files, references, syntax, values, warned
from launcher.jobfile.explain.example import Example as Example
from launcher.jobfile.explain.example import Explanation as Explanation
from launcher.jobfile.explain.example import Link as Link

EXPLANATIONS: Mapping[str, Explanation] = {
    explanation.code: explanation
    for part in (files, syntax, fields, values, references, warned)
    for explanation in part.EXPLANATIONS
}
"""Code → its explanation; as many as there are codes."""
