"""Carry earlier decisions over to a new haystack, so that mining a folder that has grown loses none of them."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from summhay_ray.benchmark import RunStore
from summhay_ray.benchmarks.summhay.haystacks.reviews import keep_review, reviews_of
from summhay_ray.mine import carried, decisions_of, reviewed


def carry_over(run: RunStore, raw: Mapping[str, Any], replaced: Mapping[str, Any] | None = None) -> None:
    """Apply earlier decisions, newest first, to `raw`, the findings of a run, unless the run already has a review.

    `replaced`: the haystack whose file will be replaced; its decisions have priority.
    """
    if reviews_of(run).newest():
        return
    decisions = [*(decisions_of(replaced) if replaced else ()), *(one for other in _reviewed(run) for one in decisions_of(other))]
    if held := carried(decisions, raw) if decisions else []:
        keep_review(run, reviewed(raw, held), 0)


def _reviewed(run: RunStore) -> Iterator[dict[str, Any]]:
    """Yield the haystacks of the store's other runs that people accepted, the most recently accepted first."""
    others = (RunStore(run.store, name) for name in run.store.run_ids() if name != run.run_id)
    newest = [found[1] for other in others if (found := reviews_of(other).newest())]
    for body in sorted(newest, key=lambda body: body.get("at", ""), reverse=True):
        yield json.loads(run.store.get_object("haystack", body["digest"]))
