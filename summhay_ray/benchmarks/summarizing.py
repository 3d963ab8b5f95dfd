"""What every benchmark has that summarizes: the entries of `summarizers` and `strategies`, answers made elsewhere, and what an
answer comes to. For the benchmarks; on the door and room summarize."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Awaitable, Mapping, Sequence
from typing import Annotated, Any, ClassVar, cast

from pydantic import BeforeValidator, Field

from summhay_ray import plugins, summarize
from summhay_ray.benchmark import (
    Answer,
    Failed,
    Inputs,
    LocalModel,
    Malformed,
    ModelSpec,
    Outcome,
    Refusal,
    Request,
    SpecError,
    Text,
    model_entry,
    planning,
)
from summhay_ray.errors import UserError
from summhay_ray.llm import RawAnswer
from summhay_ray.outcome import KIND
from summhay_ray.plugins import STOPS, told
from summhay_ray.store import Store

ANSWERS = "answers/"
"""How the name of a model begins whose answers lie in a file."""
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

    LATER: ClassVar[frozenset[str]] = ModelSpec.LATER | {"answers"}

    strategy: Strategy = Field(
        default=_DIRECT, description="how the model is asked; or {strategy: NAME, option: value}, module:Class"
    )
    answers: str | None = Field(default=None, description="JSON lines of query_id and text, made elsewhere: no model is asked")

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
    if not isinstance(entry, Mapping) or entry.get("answers") is None or entry.get("model"):
        return entry
    if not entry.get("name"):
        raise ValueError(f"answers {entry['answers']!r}: give them a name: NAME")
    return {**entry, "model": f"{ANSWERS}{entry['name']}", "strategy": GIVEN}


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


class GivenAnswers(LocalModel):
    """A model whose answers lie in a file: JSON lines `{"query_id": ..., "text": ...}`. A request's `lookup` is a query's id."""

    def __init__(self, name: str, content: bytes, file: str) -> None:
        """Raises SpecError where a line of the file cannot be used."""
        self.texts = answers_of(content, file)
        self.name, self.revision = name, hashlib.sha256(content).hexdigest()

    def answer(self, request: Request) -> str:
        """The text for the query. Raises LookupError where the file has none."""
        if request.lookup not in self.texts:
            raise LookupError(f"{self.name} holds no answer to query {request.lookup!r}")
        return self.texts[request.lookup]


def given_answers(summarizers: Sequence[SummarizerSpec], inputs: Inputs) -> list[GivenAnswers]:
    """The models of the summarizers whose answers lie in files, each read and checked. Raises SpecError."""
    return [GivenAnswers(one.model, inputs.read(one.answers), one.answers) for one in summarizers if one.answers is not None]


def keep_answers(summarizers: Sequence[SummarizerSpec], inputs: Inputs, store: Store) -> dict[str, str]:
    """Put the files of answers into the store: file as the spec names it -> sha256 (hex)."""
    return {one.answers: store.put_object(INPUT, inputs.read(one.answers)) for one in summarizers if one.answers is not None}


def answers_of(content: bytes, file: str) -> dict[str, str]:
    """Query's id -> text, of JSON lines. Raises SpecError, naming the line."""
    texts: dict[str, str] = {}
    for number, line in enumerate(content.split(b"\n"), start=1):
        if not line.strip():
            continue
        where = f"{file}:{number}"
        try:
            row = json.loads(line)
        except ValueError:
            raise SpecError(f'{where}: no JSON; expected a line such as {{"query_id": "7", "text": "..."}}') from None
        if not isinstance(row, dict):
            raise SpecError(f"{where}: expected an object with query_id and text")
        for name in ("query_id", "text"):
            if not isinstance(row.get(name), str):
                raise SpecError(f"{where}: {name}: expected text, found {json.dumps(row.get(name))[:40]}")
        if row["query_id"] in texts:
            raise SpecError(f"{where}: query_id: {row['query_id']!r} stands on an earlier line, too; leave one")
        texts[row["query_id"]] = row["text"]
    return texts


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
        return Failed(error_class, told(error), retryable=True)


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
