"""How a run asks a judge, as `strategy:` in a spec says it. Other rooms take it from `summhay_ray.judge`.

A strategy is a way to ask a model (`per_insight`, `few_shot`, `per_summary`, `few_shot+per_summary`), a judge's code
(`module:Class`), or, of a judge that is made of others, its name (`names.py`).
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
    """How a model is asked where nobody says it: the free judge about a whole summary at once, any other per insight."""
    return "per_summary" if model == OFFLINE else "per_insight"


def strategy_of(named: Named) -> tuple[str, str]:
    """(model, strategy) of a spec's entry that is the named judge. Raises BadName for a judge that no run can ask.

    The model of a judge made of others is the first that is not free. A person's own judge (`module:Class`) gets the free model:
    one that asks another is named in a spec, with its model.
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
    """The name of the judge with this model and strategy: what `strategy_of` was given. Raises BadName, UnknownName."""
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
    """Raises ValueError, in one line, where a judge's prompt file lacks a placeholder that its strategy fills."""
    template(text, FORMS.get(strategy, ALONE))


def prompt_template(prompt: str, strategy: str) -> str:
    """The text that a strategy of ours fills with bullets and insights: the user's `prompt`, or ours; empty for others."""
    form = FORMS.get(strategy)
    return "" if form is None else template(prompt, form)


def asks_alone(strategy: str) -> bool:
    """Whether a strategy of ours asks about each insight apart from all others: what it says of one hangs on no other."""
    form = FORMS.get(strategy)
    return form is not None and not form.together


@lru_cache(maxsize=64)
def prompt_identity(prompt: str = "", strategy: str = "per_insight") -> str:
    """sha256 (hex) of what is asked with the user's `prompt`, or with our own where it is empty: part of a run's identity.

    Beside the strategy's own prompt: the one that asks again about a single insight.
    """
    form = FORMS.get(strategy, ALONE)
    asked = [template(prompt, form)]
    if form.together and not prompt:
        asked.append(template("", Form(nine=form.nine)))
    hashes = [text_hash(text) for text in asked]
    return hashes[0] if len(hashes) == 1 else hashlib.sha256("".join(hashes).encode("ascii")).hexdigest()
