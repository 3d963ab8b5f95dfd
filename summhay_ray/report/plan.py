"""The assumptions behind the figures of a plan."""

from __future__ import annotations

BOUNDS_LEGEND = (
    "at least: every answer is right at once and as short as can be, and the offline checks are sure of all that they see",
    "expected: 8 % of the subtopics, insights and queries are asked for again, 20 % of the documents are edited once, 5 % of the "
    "chapters are written again; models.check is asked where the offline checks are usually unsure; what other runs have "
    "asked already is reused, and not known here",
    "at most: all is asked for again as often as the domain allows (tries, rounds, outline_rounds; whole documents up to 3 "
    "times), each time after 2 answers that cannot be read, and every answer is max_tokens long; no answers can break this "
    "bound (of input tokens: none but texts of quotation marks alone), real ones stay far below it, and a budget stops sooner",
)
"""The legend of `bounds_table`, one line each. The assumptions are those of `summhay_ray.synth.making.bounds`."""
