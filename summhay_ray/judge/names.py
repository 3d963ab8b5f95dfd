"""The grammar of judges' names, in commands and specs, for judges of any kind; and the model and strategy of a named judge.

A name gives the model and how to ask it: `openai/gpt-5.4` · `offline` (the free judge) · `stored/KEY` (predictions stored in an
annotation file) · `module:Class` (the user's own judge) · `per_insight(NAME)` · `per_summary(NAME)` · `few_shot(NAME)` ·
`blend(JUDGE,offline)` · `cascade(offline,JUDGE,SHARE)` · `panel(JUDGE,JUDGE,...)`. The last three are composed of judges
(`combine.py`).
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from summhay_ray import plugins
from summhay_ray.errors import UserError

Kind = Literal["model", "offline", "stored", "code", "per_insight", "per_summary", "few_shot", "blend", "cascade", "panel"]

OFFLINE = "offline/judge"
DEFAULT_SHARE = 0.1
"""The share of the insights that a cascade passes on if its name gives none."""

FORMS = {
    "per_insight": "per_insight(openai/gpt-5.4)",
    "per_summary": "per_summary(openai/gpt-5.4)",
    "few_shot": "few_shot(openai/gpt-5.4)",
    "blend": "blend(openai/gpt-5.4,offline)",
    "cascade": "cascade(offline,openai/gpt-5.4,0.1)",
    "panel": "panel(openai/gpt-5.4,gemini/gemini-3.5-flash,offline)",
}
_CALL = re.compile(r"([^\s(),]+)\s*\((.*)\)", re.DOTALL)
_WORD = re.compile(r"[^\s(),]+")
_CODE = re.compile(r"[^\W\d][\w-]*(?:\.[^\W\d][\w-]*)*:[^\W\d]\w*(?:\.[^\W\d]\w*)*")
_SHARE = re.compile(r"(?:share\s*=\s*)?([0-9]*\.?[0-9]+)")
_LONGEST = 1000
_ROOTS = ("offline", "stored")
_ASKED_OTHERWISE = (("per_summary", "few_shot"), ("offline", "per_summary"), ("offline", "per_insight"))


class BadName(UserError):
    """A malformed name of a judge. The message gives the error and the right form."""


@dataclass(frozen=True, slots=True)
class Named:
    """A parsed name of a judge. `text`: its canonical spelling. `share`: a cascade's; None if the name gives none.

    `sample`: the index of its answer if the same question is asked several times, from 0 (`repeated`).
    """

    text: str
    kind: Kind
    parts: tuple[Named, ...] = ()
    share: float | None = None
    sample: int = 0

    @property
    def composed(self) -> bool:
        """Whether the judge is composed of other judges."""
        return self.kind in ("blend", "cascade", "panel")

    def leaves(self) -> Iterator[Named]:
        """The judges to ask, in order; the judge itself if it is not composed of others."""
        return (leaf for part in self.parts for leaf in part.leaves()) if self.composed else iter((self,))

    def inner(self, kind: Kind) -> Iterator[Named]:
        """The blends, cascades or panels in it, including itself, the outer ones first."""
        if self.kind == kind:
            yield self
        for part in self.parts:
            yield from part.inner(kind)


def repeated(named: Named, times: int) -> Named:
    """A judge that is asked several times, as a panel of itself."""
    members = (replace(named, text=f"{named.text} #{sample + 1}", sample=sample) for sample in range(times))
    return Named(f"{named.text} x{times}", "panel", tuple(members))


def parse_name(text: str, free: str = OFFLINE) -> Named:
    """The parsed name. `free`: the model for the name `offline`.

    Raises UnknownName or BadName, in one line that shows the nearest valid form.
    """
    shown = text.strip()
    if len(shown) > _LONGEST:
        raise BadName(f"a judge's name of {len(shown)} characters begins with {shown[:40]!r}; expected at most {_LONGEST}")
    call = _CALL.fullmatch(shown)
    if call is None:
        if not shown:
            raise BadName(f"a judge's name is empty; expected a model, offline, or a form such as {FORMS['blend']}")
        if shown in FORMS:
            raise BadName(f"judge {shown!r} needs the judge that it asks in brackets: {FORMS[shown]}")
        if not _WORD.fullmatch(shown):
            raise BadName(f"judge {shown!r} is neither a model nor a form with matching brackets such as {FORMS['blend']}")
        if shown in ("offline", free):
            return Named(free, "offline")
        root, _, rest = shown.partition("/")
        near = difflib.get_close_matches(root, _ROOTS, n=1, cutoff=0.8)
        if near and (root not in _ROOTS or not rest):
            nearest = f"stored/{rest or 'KEY'}" if near[0] == "stored" else f"offline/{rest}" if rest else "offline"
            raise plugins.UnknownName(f"no judge is named {shown!r}; did you mean {nearest!r}?")
        if root == "stored":
            return Named(shown, "stored")
        return Named(shown, "code" if _CODE.fullmatch(shown) else "model")
    if call[1] not in FORMS:
        raise plugins.unknown("form of judge", call[1], FORMS)
    texts = _arguments(call[2], shown)
    if call[1] == "cascade":
        share = read_share(texts.pop(), f"judge {shown!r}") if len(texts) == 3 else None
        return _cascade([parse_name(part, free) for part in texts], share, shown)
    arguments = [parse_name(part, free) for part in texts]
    if call[1] == "panel":
        return _panel(arguments, shown)
    if call[1] == "blend":
        return _blend(arguments, shown)
    return _asked_as(call[1], arguments, shown)  # type: ignore[arg-type]


def read_share(text: str, where: str) -> float:
    """The share in `text` ("0.1", "share=0.1"). Raises BadName, which names `where`, outside (0, 1]."""
    match = _SHARE.fullmatch(text.strip())
    if match is None or not 0 < float(match[1]) <= 1:
        raise BadName(f"{where}: the share is {text.strip()!r}; expected a number above 0 and at most 1, such as 0.1")
    return float(match[1])


def _arguments(text: str, shown: str) -> list[str]:
    """The arguments of a form: the text between its brackets, split at the commas outside inner brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter == "(") - (letter == ")")
        if depth < 0:
            break
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    if depth != 0:
        raise BadName(f"judge {shown!r}: the brackets do not match; expected a form such as {FORMS['blend']}")
    return [part.strip() for part in parts]


def _asked_as(kind: Literal["per_insight", "per_summary", "few_shot"], arguments: Sequence[Named], shown: str) -> Named:
    if len(arguments) != 1:
        raise BadName(f"judge {shown!r}: {kind} takes one judge: {FORMS[kind]}")
    [inner] = arguments
    if kind == "per_summary" and inner.kind == "few_shot":
        return _asked_as("few_shot", [_asked_as("per_summary", inner.parts, shown)], shown)
    if kind == "few_shot" and inner.kind == "offline":
        raise BadName(f"judge {shown!r}: offline reads no examples; write offline")
    if inner.kind != "model" and (inner.kind, kind) not in _ASKED_OTHERWISE:
        raise BadName(f"judge {shown!r}: {kind} says how a model is asked; expected a model in it: {FORMS[kind]}")
    if (kind, inner.kind) in (("per_insight", "model"), ("per_summary", "offline")):
        # This is the default strategy.
        return inner
    return Named(f"{kind}({_short(inner)})", kind, (inner,))


def _blend(parts: Sequence[Named], shown: str) -> Named:
    if len(parts) != 2:
        raise BadName(f"judge {shown!r}: blend takes two judges, the free one last: {FORMS['blend']}")
    first, second = parts
    if first.kind == "offline" and not second.composed and second.kind != "offline":
        raise BadName(f"judge {shown!r}: blend takes the free judge last; write blend({second.text},offline)")
    if first.kind == "offline" or first.composed or second.composed:
        raise BadName(f"judge {shown!r}: blend mixes a judge with another: {FORMS['blend']}; a cascade or panel may ask a blend")
    return Named(f"blend({','.join(map(_short, parts))})", "blend", (first, second))


def _cascade(parts: Sequence[Named], share: float | None, shown: str) -> Named:
    if len(parts) != 2:
        raise BadName(f"judge {shown!r}: cascade takes the free judge, the judge to ask and a share: {FORMS['cascade']}")
    first, second = parts
    tail = "" if share is None else f",{share:.12g}"
    if first.kind != "offline":
        mend = f"cascade(offline,{_short(second if second.kind != 'offline' else first)}{tail})"
        raise BadName(f"judge {shown!r}: a cascade begins with the free judge, which says how uncertain it is; write {mend}")
    if second.kind in ("offline", "cascade"):
        raise BadName(f"judge {shown!r}: a cascade asks a judge that is neither free nor a cascade: {FORMS['cascade']}")
    return Named(f"cascade({','.join(map(_short, parts))}{tail})", "cascade", (first, second), share)


def _panel(parts: Sequence[Named], shown: str) -> Named:
    if len(parts) < 2:
        raise BadName(f"judge {shown!r}: a panel has two members or more: {FORMS['panel']}")
    texts = [_short(part) for part in parts]
    if twice := [text for text in texts if texts.count(text) > 1]:
        raise BadName(f"judge {shown!r}: {twice[0]} sits on the panel twice; name each member once")
    return Named(f"panel({','.join(map(_short, parts))})", "panel", tuple(parts))


def _short(named: Named) -> str:
    return "offline" if named.kind == "offline" else named.text


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
    kind: Kind = "few_shot" if strategy == "few_shot" else "per_summary" if strategy == "per_summary" else "per_insight"
    return Named(f"{strategy}({shown})", kind, (asked,))
