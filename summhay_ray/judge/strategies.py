"""Part of the judge room: how a run asks a judge, as `strategy:` in a spec says it. Other rooms take it from `summhay_ray.judge`.

A strategy is a way to ask a model (`per_insight`, `few_shot`, `per_summary`, `few_shot+per_summary`, or `module:Class`), with
`blend` and `cascade(SHARE)` before it: `blend+per_summary`, `cascade(0.1)`, `cascade(0.1)+blend`. Where nothing stands behind
them, the model is asked `per_insight`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from summhay_ray.judge.names import DEFAULT_SHARE, OFFLINE, BadName, Named, read_share, share_text
from summhay_ray.judge.offline import OfflineJudge
from summhay_ray.judge.prompt import ALONE, Form, template
from summhay_ray.text import text_hash

FORMS: Mapping[str, Form] = {
    "per_insight": ALONE,
    "few_shot": Form(nine=True),
    "per_summary": Form(together=True),
    "few_shot+per_summary": Form(together=True, nine=True),
}
_CASCADE = re.compile(r"cascade(?:\((.*)\))?")


@dataclass(frozen=True, slots=True)
class Strategy:
    """A strategy, taken apart: `base` asks the model, `blend` mixes in the free judge, `share` is a cascade's, else None."""

    base: str = "per_insight"
    blend: bool = False
    share: float | None = None

    @property
    def text(self) -> str:
        """Its one spelling: what a run's identity hashes."""
        steps = [f"cascade({share_text(self.share)})"] if self.share is not None else []
        steps += ["blend"] if self.blend else []
        if not steps or self.base != "per_insight":
            steps.append(self.base)
        return "+".join(steps)


def parse_strategy(text: str) -> Strategy:
    """The strategy that `text` names; whether its base exists is for `make_judge` to say. Raises BadName in one line."""
    steps = [step.strip() for step in text.strip().split("+")]
    share, mixed = None, False
    cascade = _CASCADE.fullmatch(steps[0])
    if cascade:
        share = DEFAULT_SHARE if cascade[1] is None else read_share(cascade[1], f"strategy {text!r}")
        steps = steps[1:]
    if steps and steps[0] == "blend":
        mixed, steps = True, steps[1:]
    if any(step == "" or step == "blend" or _CASCADE.fullmatch(step) for step in steps):
        raise BadName(f"strategy {text!r}: expected cascade(SHARE), then blend, then how to ask: cascade(0.1)+blend+per_summary")
    return Strategy("+".join(steps) or "per_insight", mixed, share)


def default_strategy(model: str) -> str:
    """How a model is asked where nobody says it: the free judge about a whole summary at once, any other per insight."""
    return "per_summary" if model == OFFLINE else "per_insight"


def strategy_of(named: Named) -> tuple[str, str]:
    """(model, strategy) of a spec's entry that is the named judge. Raises BadName for a judge that no run can ask.

    A person's own judge (`module:Class`) gets the free model: one that asks another is named in a spec, with its model.
    """
    model, strategy = _of(named)
    return model, strategy.text


def partners(strategy: str) -> tuple[str, ...]:
    """The models that a strategy asks beside its own: each needs settings, limits and a price as any other does."""
    parsed = parse_strategy(strategy)
    return (OFFLINE,) if parsed.blend or parsed.share is not None else ()


def planned(strategy: str) -> tuple[str, float]:
    """(the strategy without its cascade, the share of the insights that it is expected to be asked about): for planning."""
    parsed = parse_strategy(strategy)
    return Strategy(parsed.base, parsed.blend).text, 1.0 if parsed.share is None else parsed.share


def check_prompt(text: str, strategy: str = "per_insight") -> None:
    """Raises ValueError, in one line, where a judge's prompt file lacks a placeholder that its strategy fills."""
    template(text, FORMS.get(parse_strategy(strategy).base, ALONE))


def prompt_template(prompt: str, strategy: str) -> str:
    """The text that a strategy of ours fills with bullets and insights: the user's `prompt`, or ours; empty for others."""
    form = FORMS.get(parse_strategy(strategy).base)
    return "" if form is None else template(prompt, form)


def asks_alone(strategy: str) -> bool:
    """Whether a strategy of ours asks about each insight apart from all others: what it says of one hangs on no other."""
    form = FORMS.get(strategy)
    return form is not None and not form.together


@lru_cache(maxsize=64)
def prompt_identity(prompt: str = "", strategy: str = "per_insight") -> str:
    """sha256 (hex) of what is asked with the user's `prompt`, or with our own where it is empty: part of a run's identity.

    Beside the strategy's own prompt: the one that asks again about a single insight, and the free judge's with its revision.
    """
    parsed = parse_strategy(strategy)
    form = FORMS.get(parsed.base, ALONE)
    asked = [template(prompt, form)]
    if form.together and not prompt:
        asked.append(template("", Form(nine=form.nine)))
    if parsed.blend or parsed.share is not None:
        asked += [template("", Form(together=True)), OfflineJudge.revision]
    hashes = [text_hash(text) for text in asked]
    return hashes[0] if len(hashes) == 1 else hashlib.sha256("".join(hashes).encode("ascii")).hexdigest()


def _of(named: Named) -> tuple[str, Strategy]:
    if named.kind == "cascade":
        model, inner = _of(named.parts[1])
        return model, Strategy(inner.base, inner.blend, DEFAULT_SHARE if named.share is None else named.share)
    if named.kind == "blend":
        judge, other = named.parts
        if other.kind != "offline":
            raise BadName(f"judge {named.text!r}: a run blends with offline alone; write blend({judge.text},offline)")
        model, inner = _of(judge)
        return model, Strategy(inner.base, blend=True)
    if named.kind == "few_shot" and named.parts[0].kind == "per_summary":
        return named.parts[0].parts[0].text, Strategy("few_shot+per_summary")
    if named.kind in ("few_shot", "per_summary"):
        return named.parts[0].text, Strategy(named.kind)
    if named.kind == "stored":
        raise BadName(f"judge {named.text!r} stands in an annotations file; `summhay judge-bench` alone reads it")
    if named.kind == "code":
        return OFFLINE, Strategy(named.text)
    return named.text, Strategy(default_strategy(named.text))
