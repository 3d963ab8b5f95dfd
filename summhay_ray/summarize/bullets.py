"""Room summarize: the bullets of a summary. Used through `summhay_ray.summarize`; imports nothing of ours."""

from __future__ import annotations


def bullets_of(text: str) -> tuple[str, ...]:
    r"""The lines of an answer that are not blank, stripped, in their order: split on "\n" alone (paper, section 4.1).

    Headings, introductions and remarks stay bullets, as in the release: judges number the bullets from 1 over all of them.
    """
    lines = (line.strip() for line in text.split("\n"))
    return tuple(line for line in lines if line)
