"""The door of room summarize: contexts, prompts, strategies, bullets, offline summarizers. Imports records, outcome and llm."""

from __future__ import annotations

from summhay_ray import plugins
from summhay_ray.llm import LocalModel
from summhay_ray.summarize.base import Shown, Summarizer, Task
from summhay_ray.summarize.bullets import bullets_of, refuses
from summhay_ray.summarize.context import ContextPlan, assemble, shown
from summhay_ray.summarize.orderings import check_ordering, order
from summhay_ray.summarize.prompting import check_prompt, prompt_identity, render, template_hash

__all__ = [
    "ContextPlan",
    "Shown",
    "Summarizer",
    "Task",
    "assemble",
    "bullets_of",
    "check_ordering",
    "check_prompt",
    "local_models",
    "make_summarizer",
    "order",
    "prompt_identity",
    "refuses",
    "render",
    "shown",
    "template_hash",
]


def make_summarizer(strategy: str = "direct") -> Summarizer:
    """The strategy of that name, or the class at `module:Class`. Raises plugins.UnknownName where there is none."""
    from summhay_ray.summarize import strategies

    if ":" in strategy:
        loaded = plugins.load(strategy)
        if not callable(getattr(loaded, "summarize", None)):
            raise plugins.UnknownName(f"{strategy!r} has no method `summarize`; expected module:Class (summarize/base.py)")
        made: Summarizer = loaded()
        return made
    known = plugins.discover(strategies)
    if strategy not in known:
        raise plugins.unknown("summarizing strategy", strategy, known)
    found: Summarizer = known[strategy]()
    return found


def local_models() -> dict[str, type[LocalModel]]:
    """The summarizers that need no key, by the name that a spec writes (`offline/support`, `offline/lead`)."""
    from summhay_ray.summarize import offline

    return plugins.discover(offline)
