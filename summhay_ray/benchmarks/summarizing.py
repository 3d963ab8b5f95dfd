"""Shared parts of benchmarks that summarize: the entries of `summarizers` and `strategies`, answers from files, and outcomes.

Benchmarks import this module. It imports `summhay_ray.benchmark` and `summarize`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Any, ClassVar, cast

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator
from pydantic.json_schema import SkipJsonSchema

from summhay_ray import plugins, summarize
from summhay_ray.benchmark import Model, ModelSpec, RawAnswer, Request, Text
from summhay_ray.errors import UserError
from summhay_ray.outcome import KIND, Answer, Failed, Malformed, Outcome, Refusal
from summhay_ray.plugins import STOPS, error_line, planning

AskModel = Callable[[Request], Awaitable[Outcome[RawAnswer]]]
"""A function that sends a request and returns its outcome, such as `ask.of(stage)`."""
INPUT = "input"
"""The kind of objects in the store that hold files of answers."""
GIVEN = "given"
"""The strategy name of a summarizer whose answers come from a file."""
REDUCE = "reduce"
_DIRECT = "direct"


def _strategy(value: Any) -> Any:
    """Reduce a strategy without options to its name."""
    return value["strategy"] if isinstance(value, Mapping) and set(value) == {"strategy"} else value


Strategy = Annotated[str | dict[str, Any], BeforeValidator(_strategy)]
"""A strategy in a spec: its name, or `{strategy: NAME, option: value}`."""


def _no_answers(value: Any) -> None:
    if value is not None:
        raise ValueError("a file holds one text for each query, but here each query needs several answers; name a model")


NoAnswers = Annotated[SkipJsonSchema[None], BeforeValidator(_no_answers)]
"""The type of `answers` in benchmarks that ask a model several questions about one query: a file of answers is refused."""


class SummarizerSpec(ModelSpec):
    """A summarizer: a model and a strategy, or a file of answers."""

    strategy: Strategy = Field(
        default=_DIRECT, description="how to ask the model; or {strategy: NAME, option: value}, module:Class"
    )

    reduce: Model | None = Field(default=None, description="for map-reduce: the model that merges; null: the model itself")

    @field_validator("reduce")
    @classmethod
    def _can_reduce(cls, reduce: ModelSpec | None, info: ValidationInfo) -> ModelSpec | None:
        if reduce is not None:
            strategy = info.data.get("strategy", _DIRECT)
            if not _reduces(strategy):
                raise ValueError(f"strategy {strategy_name(strategy)!r} merges no summaries; map-reduce does")
            if reduce.prompt or reduce.answers is not None:
                raise ValueError("takes no prompt and no answers; name a model")
        return reduce

    APART: ClassVar[frozenset[str]] = ModelSpec.APART | {REDUCE}

    @property
    def models(self) -> tuple[str, ...]:
        return (self.model, self.reduce.model) if self.reduce else (self.model,)

    @property
    def strategy_label(self) -> str:
        return strategy_label(self.strategy, self.reduce.label if self.reduce else "")

    @property
    def model_label(self) -> str:
        """The model's name, for tables that have a separate column for the strategy."""
        return self.label.removesuffix(f"+{self.strategy_label}")


def summarizer_entry(value: Any) -> Any:
    """Normalize a summarizer's entry to a mapping. A strategy's options, such as `units` in `{model: X, strategy: map-reduce,
    units: chunks}`, move into `strategy`; `reduce` moves out of it. A file of answers gets the strategy `GIVEN`."""
    entry = ModelSpec.entry(value)
    if not isinstance(entry, Mapping):
        return entry
    if isinstance(strategy := entry.get("strategy"), Mapping) and REDUCE in strategy:
        options = {option: content for option, content in strategy.items() if option != REDUCE}
        entry = {**entry, REDUCE: strategy[REDUCE], "strategy": _strategy(options)}
    if isinstance(name := entry.get("strategy"), str) and ":" not in name:
        options = {option: entry[option] for option in summarize.strategy_options(name) if option in entry}
        rest = {field: content for field, content in entry.items() if field not in options}
        entry = {**rest, "strategy": {"strategy": name, **options}} if options else entry
    return {**entry, "strategy": GIVEN} if entry.get("answers") is not None else entry


Summarizer = Annotated[SummarizerSpec, BeforeValidator(summarizer_entry, json_schema_input_type=Text | SummarizerSpec)]
"""A summarizer in a spec: a model's name, or a mapping of the fields of `SummarizerSpec`."""


def unused_retrievers(summarizers: Sequence[SummarizerSpec], retrievers: Sequence[str]) -> list[str]:
    """Return a warning for each summarizer whose answers come from a file, if the spec has retrievers: they have no effect on
    it."""
    unused = [name for name in retrievers if name != "none"]
    mend = "its answers come from a file, whatever is retrieved; write retrievers: [none], or give it a spec of its own"
    named = f"retrievers: {', '.join(unused)}: without effect on"
    return [f"{named} {one.label}: {mend}" for one in summarizers if one.answers is not None and unused]


def strategy_name(strategy: str | Mapping[str, Any]) -> str:
    return strategy if isinstance(strategy, str) else str(strategy.get("strategy", ""))


def strategy_label(strategy: str | Mapping[str, Any], reducer: str = "") -> str:
    """Return a strategy's name for tables: the name, then its options and its reducer, if any."""
    options = {} if isinstance(strategy, str) else {name: value for name, value in strategy.items() if name != "strategy"}
    options |= {REDUCE: reducer} if reducer else {}
    text = ", ".join(f"{name}={value}" for name, value in sorted(options.items()))
    return f"{strategy_name(strategy)} ({text})" if text else strategy_name(strategy)


def _reduces(strategy: str | Mapping[str, Any]) -> bool:
    """Return whether a strategy merges summaries. A user-defined strategy may."""
    name = strategy_name(strategy)
    return ":" in name or summarize.SHORT_NAMES.get(name, name) == summarize.MAP_REDUCE


def cross_strategies(fields: Any, default: Sequence[Any] = ()) -> Any:
    """Expand each summarizer without a strategy into one per entry of `strategies` (else of `default`), and return the spec's
    fields. A summarizer that occurs several times is named MODEL+STRATEGY."""
    if not isinstance(fields, Mapping) or not isinstance(fields.get("summarizers"), list):
        return fields
    strategies = fields.get("strategies") or default
    if not isinstance(strategies, list | tuple) or not all(isinstance(strategy, str | Mapping) for strategy in strategies):
        return fields
    entries = [summarizer_entry(entry) for entry in fields["summarizers"]]
    uses = Counter(_name_of(entry) for entry in entries)
    summarizers: list[Any] = []
    for entry in entries:
        if not isinstance(entry, Mapping) or entry.get("answers") is not None:
            summarizers.append(entry)
        elif entry.get("strategy") is not None:
            several = uses[_name_of(entry)] > 1 and not entry.get("name") and isinstance(entry["strategy"], str | Mapping)
            summarizers.append(_with_name(entry, entry.get("model")) if several else entry)
        else:
            for strategy in strategies:
                # `reduce` is only for strategies that merge summaries.
                own = {name: value for name, value in entry.items() if name != REDUCE or _reduces(strategy)}
                summarizers.append(_with_name(summarizer_entry({**own, "strategy": strategy}), _name_of(entry)))
            if not strategies:
                summarizers.append(entry)
    return {**fields, "summarizers": summarizers}


def _with_name(entry: Mapping[str, Any], name: Any) -> Mapping[str, Any]:
    reducer = _name_of(ModelSpec.entry(entry[REDUCE])) if entry.get(REDUCE) else ""
    return {**entry, "name": f"{name}+{strategy_label(entry['strategy'], reducer)}"}


def _name_of(entry: Any) -> str:
    return str(entry.get("name") or entry.get("model")) if isinstance(entry, Mapping) else str(getattr(entry, "label", entry))


def check_strategy(strategy: str | Mapping[str, Any]) -> None:
    """Raise UnknownName, with a message of one line, if a strategy does not exist or cannot be made."""
    with plugins.own_code(f"strategy {strategy_name(strategy)!r} cannot be made", "give the options that its class takes"):
        summarize.make_summarizer(strategy)


async def guard(error_class: str, work: Callable[[], Awaitable[Any]], planned: str = "") -> Any:
    """Return the result of `work`, which calls a strategy or a judge. If it raises, as user-defined code may, return a Failed
    of class `error_class`. `planned`: while the run is planned, the name of the strategy or judge; an exception is then raised as
    Unplannable. Empty otherwise."""
    if planned:
        with planning(planned):
            return await work()
    try:
        return await work()
    except (OSError, UserError, *STOPS):
        raise
    # User code may raise anything, even SystemExit. The exception becomes the failure of this row.
    except BaseException as error:  # noqa: BLE001
        return Failed(error_class, error_line(error), retryable=True)


def read_summary(outcome: Any) -> Outcome[RawAnswer]:
    """Read the outcome of a summary and remove the model's thinking. A refusal in words becomes Refusal. An answer without
    bullets, or with unfinished thinking, becomes Malformed. A value that is no outcome becomes Failed."""
    if not isinstance(outcome, tuple(KIND)):
        return Failed("strategy_error", f"the strategy gave {type(outcome).__name__} and no outcome", retryable=True)
    answer = summarize.final(cast(Outcome[RawAnswer], outcome))
    if not isinstance(answer, Answer):
        return answer
    raw = answer.value
    if summarize.refuses(raw.text):
        return Refusal("refusal", "the model refused in words", raw.key, raw.attempts, raw.usd_micros)
    if not raw.text:
        return Malformed("empty_answer", "the answer has no line besides its thinking", raw.key, raw.attempts, raw.usd_micros)
    return answer
