"""Every code explained: diagnostics with a wrong and a right example, reasons with an example and a remedy.

The tests run the examples, and follow the remedies.
"""

from __future__ import annotations

from collections.abc import Mapping

from launcher.jobfile.diagnostics.explain import (
    decided,
    fields,
    files,
    references,
    refused,
    warned,
)
from launcher.jobfile.diagnostics.explain.example import Example as Example
from launcher.jobfile.diagnostics.explain.example import Explanation as Explanation
from launcher.jobfile.diagnostics.explain.example import Link as Link
from launcher.jobfile.diagnostics.explain.example import ReasonExplanation as ReasonExplanation

EXPLANATIONS: Mapping[str, Explanation] = {
    explanation.code: explanation
    for part in (files, fields, references, warned)
    for explanation in part.EXPLANATIONS
}
"""Code of a diagnostic → its explanation; as many as there are codes."""

REASON_EXPLANATIONS: Mapping[str, ReasonExplanation] = {
    explanation.code: explanation for part in (decided, refused) for explanation in part.EXPLANATIONS
}
"""Code of a reason → its explanation; as many as there are reasons."""
