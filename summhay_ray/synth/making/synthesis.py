"""Makes a verified haystack, or reports the reason for its failure. Imported from `summhay_ray.synth`.

The stages follow Laban et al., "Summary of a Haystack", section 3.2 and appendix A.1: outline, placement, documents, each with
its verification.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from summhay_ray.errors import UserError
from summhay_ray.outcome import Malformed, Refusal
from summhay_ray.synth.absent import absent_subjects
from summhay_ray.synth.base import Asker
from summhay_ray.synth.checking.verifier import NotChecked, Verifier
from summhay_ray.synth.making.asking import GaveUp, TopicRecipe, Work, gave_up
from summhay_ray.synth.making.documents import write_documents
from summhay_ray.synth.making.domains import TASKS
from summhay_ray.synth.making.kinds import Input, Synthesized, Unverified
from summhay_ray.synth.making.outline import make_outline
from summhay_ray.synth.making.placement import check_placement, place
from summhay_ray.synth.making.released import released_json


async def synthesize(
    recipe: TopicRecipe, asker: Asker, make_verifier: Callable[[str, Asker, Input], Verifier] = Verifier
) -> Synthesized | Unverified:
    """The haystack of the recipe with all checks, or the stage that gave up and the reason. The same answers give the same
    result.

    Raises only errors that cannot be recorded: a full disk, a store that does not answer, a bug.
    """
    work = Work(recipe, asker)
    verifier = make_verifier(recipe.cell_id, work, recipe.given)
    try:
        with _shaping("subtopics"):
            check_placement(recipe.shape, recipe.difficulty, recipe.domain)
        outline = await make_outline(work, verifier)
        with _shaping("documents"):
            planned = place(outline, recipe.shape, recipe.difficulty, recipe.domain, recipe.seed)
        written = await write_documents(work, verifier, outline, planned)
        absent = absent_subjects([one.text for one in written], recipe.absent, f"{recipe.topic.name} {recipe.seed}")
        if len(absent) < recipe.absent:
            message = f"the documents speak of all but {len(absent)} of the known subjects; lower absent"
            raise GaveUp("queries", "too_few_absent", message)
    except NotChecked as unchecked:
        return _unverified(gave_up("verification", unchecked.task, unchecked.outcome), work, verifier)
    except GaveUp as reason:
        return _unverified(reason, work, verifier)
    models = {task: asker.model(task) for task in TASKS}
    raw = released_json(recipe, outline, written, models, sum(work.costs.values()), absent)
    return Synthesized(raw, verifier.checks)


@contextmanager
def _shaping(stage: str) -> Iterator[None]:
    """Turn a UserError about the haystack's shape into GaveUp; one raised while asking a model propagates."""
    try:
        yield
    except UserError as problem:
        raise GaveUp(stage, "shape", str(problem)) from problem


def _unverified(reason: GaveUp, work: Work, verifier: Verifier) -> Unverified:
    outcome = reason.outcome
    return Unverified(
        stage=reason.stage,
        error=reason.error,
        message=reason.message,
        checks=verifier.checks,
        retryable=getattr(outcome, "retryable", False),
        usd_micros=sum(work.costs.values()),
        key=outcome.key if outcome else "",
        attempts=outcome.attempts if outcome else 0,
        kind="refusal" if isinstance(outcome, Refusal) else "malformed" if isinstance(outcome, Malformed) else "failed",
    )
