"""A summary's lines, and whether it is one. Part of the summarize room."""

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
    r"""The lines of an answer that are not blank, stripped, in their order: split on "\n" alone (paper, section 4.1).

    Headings, introductions and remarks stay bullets, as in the release: judges number the bullets from 1 over all of them.
    What a reasoning model thinks aloud before `</think>` is no part of its summary.
    """
    answer = text.rpartition("</think>")[2]
    return tuple(line.strip() for line in answer.split("\n") if line.strip())


def refuses(text: str) -> bool:
    """Whether an answer refuses in words: short, without a citation, and it begins with "I cannot help", "I'm unable to ..."."""
    answer = text.rpartition("</think>")[2].strip()
    return len(answer) <= _LONGEST_REFUSAL and not re.search(r"\[[\d, ]+\]", answer) and bool(_REFUSAL.match(answer))
