"""Contexts, prompts, strategies and bullets of summaries, and offline summarizers."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from pydantic import ValidationError

from summhay_ray import plugins
from summhay_ray.llm import LocalModel
from summhay_ray.summarize.base import Form, Reducer, Shown, Summarizer, Task
from summhay_ray.summarize.context import ContextPlan, assemble, find_ordering, order, shown_documents
from summhay_ray.summarize.offline.reading import read as asked_in
from summhay_ray.summarize.prompting import bullets_of, check_prompt, final, prompt_identity, refuses, remove_references, render

SHORT_NAMES = {
    "refine": "refine-high-to-low",
    "refine-h2l": "refine-high-to-low",
    "refine-l2h": "refine-low-to-high",
}
"""Short name of a strategy -> its full name."""

MAP_REDUCE = "map-reduce"

__all__ = [
    "MAP_REDUCE",
    "SHORT_NAMES",
    "ContextPlan",
    "Form",
    "Reducer",
    "Shown",
    "Summarizer",
    "Task",
    "asked_in",
    "assemble",
    "bullets_of",
    "check_prompt",
    "final",
    "find_ordering",
    "local_models",
    "make_summarizer",
    "order",
    "prompt_identity",
    "refuses",
    "remove_references",
    "render",
    "shown_documents",
    "strategy_options",
]


def make_summarizer(strategy: str | Mapping[str, Any] = "direct") -> Summarizer:
    """Return the strategy with a name or short name, or the class at `module:Class`. `{strategy: NAME, option: value}` sets
    options.

    Raises plugins.UnknownName for an unknown strategy, an unknown option or a wrong value.
    """
    from summhay_ray.summarize import strategies

    options = {} if isinstance(strategy, str) else dict(strategy)
    name = strategy if isinstance(strategy, str) else options.pop("strategy", "")
    known = plugins.discover(strategies)
    full = SHORT_NAMES.get(name, name)
    if ":" not in name and full not in known:
        raise plugins.unknown("summarizing strategy", name, [*known, *SHORT_NAMES])
    made = plugins.load(name) if ":" in name else known[full]
    if not callable(getattr(made, "summarize", None)):
        raise plugins.UnknownName(f"{name!r} has no method `summarize`; expected module:Class (summarize/base.py)")
    try:
        summarizer: Summarizer = made(**options)
    except ValidationError as error:
        first = error.errors()[0]
        option, takes = str(first["loc"][0]), sorted(one.name for one in fields(made))
        if first["type"] == "unexpected_keyword_argument":
            raise plugins.unknown(f"option of strategy {name!r}", option, takes) from error
        raise plugins.UnknownName(f"strategy {name!r}: {option}: {first['msg']}, found {first['input']!r}") from error
    return summarizer


def strategy_options(name: str) -> list[str]:
    """Return the options of a built-in strategy; none for any other name."""
    from summhay_ray.summarize import strategies

    made = plugins.discover(strategies).get(SHORT_NAMES.get(name, name))
    return [one.name for one in fields(made)] if is_dataclass(made) else []


def local_models() -> dict[str, type[LocalModel]]:
    """Return the offline summarizers, which need no API key, by name (`offline/support`, `offline/lead`)."""
    from summhay_ray.summarize import offline

    return plugins.discover(offline)
