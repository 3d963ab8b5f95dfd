"""Whether the haystacks of a run can show which of its systems is better."""

from __future__ import annotations

from summhay_ray.benchmarks.summhay.haystacks.metadata import stored_metadata
from summhay_ray.benchmarks.summhay.haystacks.reviews import current_facts
from summhay_ray.benchmarks.summhay.results.scores import ScoreResult
from summhay_ray.haystack import Health, health

_ORACLES = ("oracle", "released/oracle")


def health_of(result: ScoreResult) -> Health:
    """The health of a run's haystacks, with people's current findings about them, and with its scores."""
    run = result.stored
    metadata = stored_metadata(run.store, run.record)
    joints = [
        one.joint for one in result.by_query if one.judge == result.judge and one.retriever in _ORACLES and one.joint is not None
    ]
    n_queries = sum(not subtopic.absent for one in metadata for subtopic in one.subtopics)
    return health(current_facts(run.store, metadata), n_queries, max(joints, default=None), result.judge)
