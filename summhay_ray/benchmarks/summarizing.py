"""What every benchmark has that summarizes: the entries of `summarizers` and `strategies`, answers made elsewhere, and what an
answer comes to. For the benchmarks; on the door and room summarize."""

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
"""Kind of the store's objects that hold such files."""
GIVEN = "given"
"""The strategy of such answers."""
_DIRECT = "direct"


def _strategy(value: Any) -> Any:
    """A strategy without options as its name."""
    return value["strategy"] if isinstance(value, Mapping) and set(value) == {"strategy"} else value


Strategy = Annotated[str | dict[str, Any], BeforeValidator(_strategy)]
"""A strategy in a spec: its name, or `{strategy: NAME, option: value}`."""


class SummarizerSpec(ModelSpec):
    """A summarizer: a model and a strategy; or a file of answers that were made elsewhere."""

    strategy: Strategy = Field(
        default=_DIRECT, description="how the model is asked; or {strategy: NAME, option: value}, module:Class"
    )

    @property
    def strategy_label(self) -> str:
        """What tables call the strategy."""
        return strategy_label(self.strategy)

    @property
    def model_label(self) -> str:
        """What tables call the model, where they have a column for the strategy."""
        return self.label.removesuffix(f"+{self.strategy_label}")


def _folded(value: Any) -> Any:
    """An entry whose strategy has its options beside it, `{model: X, strategy: map-reduce, units: chunks}`, with them inside."""
    entry = model_entry(value)
    if not isinstance(entry, Mapping) or not isinstance(name := entry.get("strategy"), str) or ":" in name:
        return entry
    options = {option: entry[option] for option in summarize.strategy_options(name) if option in entry}
    if not options:
        return entry
    kept = {field: found for field, found in entry.items() if field not in options}
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
    """What tables call a strategy: its name, and its options where it has some."""
    if isinstance(strategy, str):
        return strategy
    options = ", ".join(f"{name}={value}" for name, value in sorted(strategy.items()) if name != "strategy")
    return f"{strategy_name(strategy)} ({options})" if options else strategy_name(strategy)


def crossed(fields: Any, default: Sequence[Any] = ()) -> Any:
    """A spec's fields with each summarizer that names no strategy in the place of one for each of `strategies`.

    A summarizer that is there more than once is called MODEL+STRATEGY. `default`: the strategies of a spec that has none.
    """
    if not isinstance(fields, Mapping) or not isinstance(fields.get("summarizers"), list):
        return fields
    strategies = fields.get("strategies") or default
    if not isinstance(strategies, list | tuple) or not all(isinstance(one, str | Mapping) for one in strategies):
        return fields
    given = [_folded(one) for one in fields["summarizers"]]
    named = Counter(_called(one) for one in given)
    found: list[Any] = []
    for one in given:
        if not isinstance(one, Mapping) or one.get("answers") is not None:
            found.append(one)
        elif one.get("strategy") is not None:
            strategy = one["strategy"]
            several = named[_called(one)] > 1 and not one.get("name") and isinstance(strategy, str | Mapping)
            found.append({**one, "name": f"{one.get('model')}+{strategy_label(strategy)}"} if several else one)
        else:
            found += [
                {**one, "strategy": strategy, "name": f"{_called(one)}+{strategy_label(strategy)}"} for strategy in strategies
            ] or [one]
    return {**fields, "summarizers": found}


def _called(entry: Any) -> str:
    return str(entry.get("name") or entry.get("model")) if isinstance(entry, Mapping) else str(getattr(entry, "label", entry))


def check_strategy(strategy: str | Mapping[str, Any]) -> None:
    """Raises UnknownName, in one line, where a summarizing strategy is none or cannot be made."""
    with plugins.own_code(f"strategy {strategy_name(strategy)!r} cannot be made", "give the options that its class takes"):
        summarize.make_summarizer(strategy)


def keep_answers(workload: Benchmark[Any], store: Store) -> dict[str, str]:
    """Put the files of answers into the store: file as the spec names it -> sha256 (hex)."""
    files = [given.file for given in workload.given_answers.values()]
    return {file: store.put_object(INPUT, workload.inputs.read(file)) for file in files}


async def guarded(error_class: str, name: str, work: Awaitable[Any], planned: bool = False) -> Any:
    """What a strategy or judge gives, or a Failed where it raises: it may be a person's own, and must not stop the other rows.

    While a run is `planned`, what it raises is told at once: Unplannable.
    """
    if planned:
        with planning(name):
            return await work
    try:
        return await work
    except (OSError, UserError, *STOPS):
        raise
    # The border to strategies: what goes wrong there is a row, also what would end the process.
    except BaseException as error:  # noqa: BLE001
        return Failed(error_class, error_line(error), retryable=True)


def read_summary(outcome: Any) -> Outcome[RawAnswer]:
    """The outcome of a summary; a refusal in words is a refusal, and what is no outcome is a failure."""
    if not isinstance(outcome, tuple(KIND)):
        return Failed("strategy_error", f"the strategy gave {type(outcome).__name__} and no outcome", retryable=True)
    if isinstance(outcome, Answer) and summarize.refuses(outcome.value.text):
        raw = outcome.value
        return Refusal("refusal", "the model refused in words", raw.key, raw.attempts, raw.usd_micros)
    if isinstance(outcome, Answer) and not summarize.bullets_of(outcome.value.text):
        raw = outcome.value
        return Malformed("empty_answer", "the answer holds no line but its thinking", raw.key, raw.attempts, raw.usd_micros)
    return cast(Outcome[RawAnswer], outcome)
