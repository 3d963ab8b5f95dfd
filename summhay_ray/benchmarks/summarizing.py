"""Shared parts of benchmarks that summarize: the entries of `summarizers` and `strategies`, answers from files, and outcomes.

The benchmarks import it. It uses the door and the room summarize.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Mapping, Sequence
from typing import Annotated, Any, cast

from pydantic import BeforeValidator, Field

from summhay_ray import plugins, summarize
from summhay_ray.benchmark import (
    Answer,
    Benchmark,
    Failed,
    Malformed,
    ModelSpec,
    Outcome,
    Refusal,
    Text,
    model_entry,
    planning,
)
from summhay_ray.errors import UserError
from summhay_ray.llm import RawAnswer
from summhay_ray.outcome import KIND
from summhay_ray.plugins import STOPS, error_line
from summhay_ray.store import Store

INPUT = "input"
"""The kind of the store's objects that hold files of answers."""
GIVEN = "given"
"""The strategy of a summarizer whose answers come from a file."""
_DIRECT = "direct"


def _strategy(value: Any) -> Any:
    """A strategy without options is reduced to its name."""
    return value["strategy"] if isinstance(value, Mapping) and set(value) == {"strategy"} else value


Strategy = Annotated[str | dict[str, Any], BeforeValidator(_strategy)]
"""A strategy in a spec: its name, or `{strategy: NAME, option: value}`."""


class SummarizerSpec(ModelSpec):
    """A summarizer: a model and a strategy, or a file of answers."""

    strategy: Strategy = Field(
        default=_DIRECT, description="how the model is asked; or {strategy: NAME, option: value}, module:Class"
    )

    @property
    def strategy_label(self) -> str:
        """The strategy's name in tables."""
        return strategy_label(self.strategy)

    @property
    def model_label(self) -> str:
        """The model's name in tables that have a column for the strategy."""
        return self.label.removesuffix(f"+{self.strategy_label}")


def _folded(value: Any) -> Any:
    """An entry with the options of its strategy moved into `strategy`, if they are beside it, as in
    `{model: X, strategy: map-reduce, units: chunks}`."""
    entry = model_entry(value)
    if not isinstance(entry, Mapping) or not isinstance(name := entry.get("strategy"), str) or ":" in name:
        return entry
    options = {option: entry[option] for option in summarize.strategy_options(name) if option in entry}
    if not options:
        return entry
    kept = {field: content for field, content in entry.items() if field not in options}
    return {**kept, "strategy": {"strategy": name, **options}}


def _entry(value: Any) -> Any:
    entry = _folded(value)
    return {**entry, "strategy": GIVEN} if isinstance(entry, Mapping) and entry.get("answers") is not None else entry


Summarizer = Annotated[SummarizerSpec, BeforeValidator(_entry, json_schema_input_type=Text | SummarizerSpec)]
"""A summarizer in a spec: a model's name, or a mapping of the fields of `SummarizerSpec`."""


def strategy_name(strategy: str | Mapping[str, Any]) -> str:
    """The name of a strategy without its options."""
    return strategy if isinstance(strategy, str) else str(strategy.get("strategy", ""))


def strategy_label(strategy: str | Mapping[str, Any]) -> str:
    """A strategy's name in tables: its name, followed by its options, if any."""
    if isinstance(strategy, str):
        return strategy
    options = ", ".join(f"{name}={value}" for name, value in sorted(strategy.items()) if name != "strategy")
    return f"{strategy_name(strategy)} ({options})" if options else strategy_name(strategy)


def crossed(fields: Any, default: Sequence[Any] = ()) -> Any:
    """A spec's fields, in which each summarizer without a strategy is replaced by one summarizer for each of `strategies`.

    A summarizer that occurs more than once is named MODEL+STRATEGY. `default`: the strategies of a spec that names none.
    """
    if not isinstance(fields, Mapping) or not isinstance(fields.get("summarizers"), list):
        return fields
    strategies = fields.get("strategies") or default
    if not isinstance(strategies, list | tuple) or not all(isinstance(strategy, str | Mapping) for strategy in strategies):
        return fields
    entries = [_folded(entry) for entry in fields["summarizers"]]
    uses = Counter(_name_of(entry) for entry in entries)
    summarizers: list[Any] = []
    for entry in entries:
        if not isinstance(entry, Mapping) or entry.get("answers") is not None:
            summarizers.append(entry)
        elif entry.get("strategy") is not None:
            strategy = entry["strategy"]
            several = uses[_name_of(entry)] > 1 and not entry.get("name") and isinstance(strategy, str | Mapping)
            summarizers.append({**entry, "name": f"{entry.get('model')}+{strategy_label(strategy)}"} if several else entry)
        else:
            summarizers += [
                {**entry, "strategy": strategy, "name": f"{_name_of(entry)}+{strategy_label(strategy)}"}
                for strategy in strategies
            ] or [entry]
    return {**fields, "summarizers": summarizers}


def _name_of(entry: Any) -> str:
    return str(entry.get("name") or entry.get("model")) if isinstance(entry, Mapping) else str(getattr(entry, "label", entry))


def check_strategy(strategy: str | Mapping[str, Any]) -> None:
    """Raises UnknownName, in one line, if there is no such strategy or it cannot be made."""
    with plugins.own_code(f"strategy {strategy_name(strategy)!r} cannot be made", "give the options that its class takes"):
        summarize.make_summarizer(strategy)


def keep_answers(workload: Benchmark[Any], store: Store) -> dict[str, str]:
    """Put the files of answers into the store; returns name in the spec -> sha256 (hex)."""
    files = [given.file for given in workload.given_answers.values()]
    return {file: store.put_object(INPUT, workload.inputs.read(file)) for file in files}


async def guarded(error_class: str, name: str, work: Awaitable[Any], planned: bool = False) -> Any:
    """The result of `work`, a call of a strategy or judge called `name`; a Failed of class `error_class` if it raises.

    The strategy or judge may be a user's own, and must not stop other items. While planning (`planned`), its exceptions become
    Unplannable.
    """
    if planned:
        with planning(name):
            return await work
    try:
        return await work
    except (OSError, UserError, *STOPS):
        raise
    # A user's own code may raise anything, even SystemExit. It becomes the failure of this row.
    except BaseException as error:  # noqa: BLE001
        return Failed(error_class, error_line(error), retryable=True)


def read_summary(outcome: Any) -> Outcome[RawAnswer]:
    """The outcome of a summary: a refusal in words becomes Refusal, an answer without bullets Malformed, and anything that is no
    outcome Failed."""
    if not isinstance(outcome, tuple(KIND)):
        return Failed("strategy_error", f"the strategy gave {type(outcome).__name__} and no outcome", retryable=True)
    if isinstance(outcome, Answer) and summarize.refuses(outcome.value.text):
        raw = outcome.value
        return Refusal("refusal", "the model refused in words", raw.key, raw.attempts, raw.usd_micros)
    if isinstance(outcome, Answer) and not summarize.bullets_of(outcome.value.text):
        raw = outcome.value
        return Malformed("empty_answer", "the answer holds no line but its thinking", raw.key, raw.attempts, raw.usd_micros)
    return cast(Outcome[RawAnswer], outcome)
