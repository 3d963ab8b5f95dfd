"""People's decisions about mined haystacks. They are stored with the run that mined a haystack, for all runs that use it."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, NotRequired

from typing_extensions import TypedDict

from summhay_ray.benchmark import Chain, RunStore, Store
from summhay_ray.benchmarks.summhay.haystacks.metadata import HaystackMetadata, source_bytes
from summhay_ray.errors import UserError
from summhay_ray.haystack import HaystackFacts, facts_of, haystack_id_of


class Review(TypedDict):
    """A haystack that a person has accepted or checked."""

    digest: str
    """sha256 of its source in the store."""
    at: NotRequired[str]
    """Time of the review, in UTC (ISO 8601)."""
    haystack_id: NotRequired[str]
    facts: NotRequired[dict[str, Any]]
    """See `HaystackFacts`."""


def reviews_of(run: RunStore) -> Chain[Review]:
    """Return the haystacks of a mining run that people accepted or checked, newest last."""
    mend = "delete it and those after it, and accept the sheet again"
    return Chain(run.store.files, f"runs/{run.run_id}/reviews", Review, mend)


def keep_review(run: RunStore, raw: Mapping[str, Any], after: int) -> None:
    """Make a haystack the newest one of its mining run. `after`: number of the newest review that the caller has seen. Raises
    UserError if there is a newer one."""
    facts = facts_of(raw)
    record = Review(
        digest=run.store.put_object("haystack", source_bytes(raw)),
        at=datetime.now(UTC).isoformat(timespec="microseconds"),
        haystack_id=haystack_id_of(raw),
        facts=asdict(facts) if facts else {},
    )
    if not reviews_of(run).append(after + 1, record):
        raise UserError(f"{run.run_id}: another review is being taken over; accept the sheet again")


def current_facts(store: Store, metadata: Sequence[HaystackMetadata]) -> list[tuple[str, HaystackFacts | None]]:
    """Return (name, facts) of each haystack. The facts are those of its newest review in the store; without one, those known
    when the run began."""
    found = []
    for one in metadata:
        newest = reviews_of(RunStore(store, one.facts.run)).newest() if one.facts is not None and one.facts.run else None
        reviewed = newest is not None and newest[1].get("haystack_id") == one.haystack_id
        found.append((one.name, HaystackFacts(**newest[1]["facts"]) if newest and reviewed else one.facts))
    return found
