"""The parts of a benchmark: stages, items and their queues, rows and failures."""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import polars as pl

from summhay_ray import plugins
from summhay_ray.engine.spec.spec import ModelSpec
from summhay_ray.errors import UserError
from summhay_ray.llm import RawAnswer
from summhay_ray.outcome import NoAnswer
from summhay_ray.run_options import Compat, Over
from summhay_ray.store import RunStore, Table

Size = Literal["least", "expected", "most"]
"""The length of an unknown answer that the plan assumes: the shortest possible, the expected, or the longest allowed."""

Rows = Mapping[str, Sequence[Any]]
"""Table -> its rows: records of the table's class."""

Tables = Mapping[str, pl.DataFrame]
"""Table -> its rows as a frame."""


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Options for computing the results of a stored run."""

    compat: Compat = "default"
    """How `score` interprets stored answers."""
    judge: str = ""
    """The judge whose figures are shown, if the run has more than one; empty: the run's own judge."""
    labels: str = ""
    """Path of a sheet with people's labels, which are used to correct the figures; empty: none."""
    over: Over | None = None
    """The population to which differences between systems generalize; None: chosen from the data."""
    whole: bool = False
    """True for the report, which shows all results; False for the output at the end of a run."""


@dataclass(eq=False)
class RunTables(Mapping[str, pl.DataFrame]):
    """The tables that `score` gets, including `items`, the items that the run has asked. Each table is read when it is first
    used.

    Items that were not asked yet are left out, so figures do not count them as missing.
    """

    run: RunStore
    """The stored run, which gives access to its record and the store."""
    names: Sequence[str]
    read: Callable[[str], pl.DataFrame]
    """Reads a table. The result is cached."""
    options: ReadOptions = ReadOptions()

    def __getitem__(self, name: str) -> pl.DataFrame:
        if name not in self.names:
            raise KeyError(name)
        return self.read(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def pieces(self, name: str, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
        """Yield consecutive pieces of a table, ordered by the key, with the given columns and the key columns.

        Rows with the same value in the first key column are in one piece. Only about one piece is in memory at a time.
        """
        return self.run.pieces(name, columns)


@dataclass(frozen=True, slots=True)
class Stage:
    """One kind of question that a benchmark asks. Budgets, plans and progress are reported by stage."""

    name: str
    output_tokens: int = 100
    """Expected length of an answer, in tokens, for the plan. It does not limit the answer; the request's `max_tokens` does."""
    example: str | None = None
    """A plausible answer, with which the plan counts the questions that depend on an answer. If None, these are not planned."""


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue of items that wait for the same models. One queue never delays another."""

    models: tuple[str, ...] = ()
    """The models that the queue's items ask."""
    computes: bool = False
    """True if the items only compute, for example with a model that runs in the worker. These items get separate workers."""
    max_in_flight: int | None = None
    """Maximum number of items in progress on one worker; None: as many as the models' concurrency allows."""
    batch_size: int | None = None
    """Maximum number of items sent to a worker in one batch; None: the engine decides."""


@dataclass(frozen=True, slots=True, init=False)
class Item:
    """A unit of work. It is answered once and committed together with all of its rows."""

    id: str
    queue: str = ""
    data: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """The item's content as small JSON, which is sent to the worker."""
    source: str = ""
    """Name of an input that several items share. `prepare` processes it once for all of them, and they are scheduled together."""
    group: str = ""
    """Items of one group share a long prompt prefix. One worker asks them in order, to use the provider's prompt cache."""
    size: int = 1
    """Expected number of rows in the benchmark's counted table; see `Counted`."""
    repeat_of: str = ""
    """Id of an earlier item with the same prompts, if this item only asks for another `sample`. Its calls are planned like those
    of the earlier item."""
    reads: str = ""
    """Name of data, such as a file, that is slow to read or prepare; the same for all items of a source. Sources with the same
    `reads` go to one worker, unless that leaves another worker idle."""

    def __init__(
        self,
        id: str,
        queue: str = "",
        data: Mapping[str, Any] | None = None,
        source: str = "",
        group: str = "",
        size: int = 1,
        repeat_of: str = "",
        reads: str = "",
        *,
        model: ModelSpec | None = None,
    ) -> None:
        """`model`: the spec's entry of the model to ask. Without a `queue`, the item waits in that model's queue."""
        named = queue or (model.label if model is not None else "")
        values = (id, named, data or {}, source, group, size, repeat_of, reads)
        for name, value in zip(self.__dataclass_fields__, values, strict=True):
            object.__setattr__(self, name, value)

    @property
    def model(self) -> str:
        """The model's name in tables, which is the name of the item's queue."""
        return self.queue


@dataclass(frozen=True, slots=True)
class Prepared:
    """The result of preparing a source: rows for the store, and the data that each item receives as `ask.prepared`."""

    rows: Rows = field(default_factory=dict)
    shared: Any = None
    """JSON that every item of the source receives."""
    own: Mapping[str, Any] = field(default_factory=dict)
    """Item id -> JSON that this item receives instead of `shared`."""
    problem: NoAnswer | None = None
    """The reason if the source could not be prepared. Each of its items then becomes a failure in `stage`."""
    stage: str = ""


@dataclass(frozen=True, slots=True)
class Counted:
    """Words for messages about a run, and the table whose rows are counted in addition to items. `items`: the plural noun for
    items. `item`: the singular; if empty, the plural without its last letter. `table`: the counted table; empty: none. `prefix`:
    the first letter of run ids."""

    items: str = "items"
    table: str = ""
    prefix: str = "r"
    item: str = ""

    def phrase(self, n: int) -> str:
        """A number of items with its noun, in the singular or plural."""
        return f"{n} {self.items if n != 1 else self.item or self.items[:-1]}"


@dataclass(frozen=True, slots=True)
class Failure:
    """A question without a usable answer. It is recorded, and never scored."""

    item_id: Annotated[str, "the item that failed"]
    stage: Annotated[str, "the stage in which it failed; empty if outside of any stage"]
    kind: Annotated[str, "refusal, malformed or failed"]
    error: Annotated[str, "class of the error: context_window, missing_answer, empty_answer, ..."]
    message: Annotated[str, "what is wrong, in one line"]
    key: Annotated[str, "key of the raw answer or the request; empty if no request was made"]
    attempts: Annotated[int, "HTTP attempts made"]
    usd_micros: Annotated[int, "cost in millionths of a dollar"]
    model: Annotated[str, "the model that was asked; empty if none was"] = ""


FAILURES = Table("failures", Failure, ("item_id", "stage", "error", "message"))
RAW_ANSWERS = Table("raw_answers", RawAnswer, ("key",), texts=("text", "further_texts", "logprobs"))


def all_tables(benchmark: Any) -> Sequence[Table]:
    """Return all tables of a benchmark's runs, including `raw_answers` and `failures`."""
    named = {table.name: table for table in (RAW_ANSWERS, FAILURES, *benchmark.tables)}
    return tuple(named.values())


class BadBenchmark(UserError):
    """Raised if a benchmark violates the contract or its own declarations. The run stops before it spends more."""


@contextlib.contextmanager
def reading(what: str, mend: str) -> Iterator[None]:
    """Return a context that converts exceptions of a benchmark's own code to BadBenchmark. `what`: where; `mend`: the remedy."""
    try:
        yield
    except (OSError, UserError, KeyboardInterrupt, *plugins.STOPS):
        raise
    # A benchmark's code may raise anything; it must not look like an error of the engine.
    except BaseException as error:
        raise BadBenchmark(f"{what} raises {plugins.error_line(error)}; {mend}") from error
