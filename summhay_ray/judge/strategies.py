"""Strategies: how a run asks a judge, by `strategy:` in a spec. Other packages import from `summhay_ray.judge`.

A strategy is a way to ask a model (`per_insight`, `few_shot`, `per_summary`, `few_shot+per_summary`), a judge's code
(`module:Class`), or the name of a composed judge (`names.py`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import lru_cache

from summhay_ray.judge.names import OFFLINE, BadName, Named, parse_name
from summhay_ray.judge.prompt import ALONE, Form, template
from summhay_ray.text import text_hash

FORMS: Mapping[str, Form] = {
    "per_insight": ALONE,
    "few_shot": Form(nine=True),
    "per_summary": Form(together=True),
    "few_shot+per_summary": Form(together=True, nine=True),
}


def default_strategy(model: str) -> str:
    """The default strategy of a model: whole summaries for the free judge, single insights for any other."""
    return "per_summary" if model == OFFLINE else "per_insight"


def strategy_of(named: Named) -> tuple[str, str]:
    """(model, strategy) of a spec's entry for the named judge. Raises BadName for a judge that a run cannot ask.

    The model of a composed judge is its first paid one. A user's own judge (`module:Class`) gets the free model; to use another
    model, write both in a spec.
    """
    if named.composed:
        if two := next((blend for blend in named.inner("blend") if blend.parts[1].kind != "offline"), None):
            mend = two.text.replace("blend", "panel", 1)
            raise BadName(f"judge {two.text!r}: a run blends with offline alone; write {mend}")
        models = [strategy_of(leaf)[0] for leaf in named.leaves()]
        return next((model for model in models if model != OFFLINE), OFFLINE), named.text
    if named.kind == "few_shot" and named.parts[0].kind == "per_summary":
        return named.parts[0].parts[0].text, "few_shot+per_summary"
    if named.kind in ("few_shot", "per_summary", "per_insight"):
        return named.parts[0].text, named.kind
    if named.kind == "stored":
        raise BadName(f"judge {named.text!r} stands in an annotations file; `summhay judge-bench` alone reads it")
    if named.kind == "code":
        return OFFLINE, named.text
    return named.text, default_strategy(named.text)


def name_of(model: str, strategy: str) -> Named:
    """The name of the judge with this model and strategy: the inverse of `strategy_of`. Raises BadName, UnknownName."""
    if "(" in strategy:
        return parse_name(strategy)
    if ":" in strategy:
        return Named(strategy, "code")
    asked = Named(model, "offline" if model == OFFLINE else "model")
    if strategy == default_strategy(model):
        return asked
    shown = "offline" if model == OFFLINE else model
    if strategy == "few_shot+per_summary":
        asked, strategy, shown = Named(f"per_summary({shown})", "per_summary", (asked,)), "few_shot", f"per_summary({shown})"
    kind = strategy if strategy in FORMS else "per_insight"
    return Named(f"{strategy}({shown})", kind, (asked,))  # type: ignore[arg-type]


def check_prompt(text: str, strategy: str = "per_insight") -> None:
    """Raises ValueError, in one line, if a judge's prompt file lacks a placeholder that its strategy fills."""
    template(text, FORMS.get(strategy, ALONE))


def prompt_template(prompt: str, strategy: str) -> str:
    """The prompt template of a built-in strategy: the user's `prompt`, or ours; empty for other strategies."""
    form = FORMS.get(strategy)
    return "" if form is None else template(prompt, form)


def asks_alone(strategy: str) -> bool:
    """Whether a built-in strategy asks about each insight separately, so that verdicts do not depend on other insights."""
    form = FORMS.get(strategy)
    return form is not None and not form.together


@lru_cache(maxsize=64)
def prompt_identity(prompt: str = "", strategy: str = "per_insight") -> str:
    """sha256 (hex) of the prompt templates, with the user's `prompt` or, if it is empty, our own: part of a run's identity.

    It covers the strategy's own prompt and the one for a second call about a single insight.
    """
    form = FORMS.get(strategy, ALONE)
    asked = [template(prompt, form)]
    if form.together and not prompt:
        asked.append(template("", Form(nine=form.nine)))
    hashes = [text_hash(text) for text in asked]
    return hashes[0] if len(hashes) == 1 else hashlib.sha256("".join(hashes).encode("ascii")).hexdigest()
