"""Splits a summary into bullets, and detects refusals. Part of the summarize room."""

from __future__ import annotations

import re

_REFUSAL = re.compile(
    r"(i[\u2019']?m sorry|i am sorry|sorry|i apologi[sz]e|unfortunately|as an ai)?[,.:]?\s*(but )?"
    r"i[\u2019']?( am|m)? ?(can ?not|can[\u2019']t|not able to|unable to|won[\u2019']t|will not) "
    r"(help|assist|provide|complete|comply|fulfil|summari[sz]e|answer|do that|generate|create)",
    re.IGNORECASE,
)
_LONGEST_REFUSAL = 600


def bullets_of(text: str) -> tuple[str, ...]:
    r"""The non-blank lines of an answer, stripped, in order; split on "\n" only (paper, section 4.1).

    Headings, introductions and remarks count as bullets, as in the release: judges number all of them from 1.
    """
    return tuple(line.strip() for line in text.split("\n") if line.strip())


def refuses(text: str) -> bool:
    """Whether an answer is a refusal: short, without citations, and beginning with "I cannot help", "I'm unable to ..."."""
    answer = text.strip()
    return len(answer) <= _LONGEST_REFUSAL and not re.search(r"\[[\d, ]+\]", answer) and bool(_REFUSAL.match(answer))
