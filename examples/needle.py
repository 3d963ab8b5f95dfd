"""Needle: can a model find one entry of a long log, wherever it is, and quote it word for word?

After G. Kamradt's "needle in a haystack" (2023). Run it with `summhay run needle.yaml`.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated

import polars as pl

from summhay_ray.benchmark import (
    Ask,
    Benchmark,
    ByQuery,
    Chart,
    Item,
    Model,
    Request,
    Rows,
    Section,
    Spec,
    Stage,
    Table,
    Tables,
    Unreadable,
    mean_interval,
    user,
)

# --- data --------------------------------------------------------------------------------------------------------------

NEEDLE = "The cook hid the key of the rum store in the ship's bell."
NOTES = (
    "Wind from the west, all sails set.",
    "Calm sea; the crew mended nets.",
    "Two whales to starboard at noon.",
    "The carpenter tarred the long boat.",
    "Rain until evening, the water casks are full.",
)


def log(entries: int, depth: float, trial: int, seed: int) -> str:
    """Return a ship's log, one line per day. `depth` is the position of the needle: 0 is the first line, 1 the last."""
    draw = random.Random(f"{seed}/{trial}")
    lines = [draw.choice(NOTES) for _ in range(entries - 1)]
    lines.insert(round(depth * len(lines)), NEEDLE)
    return "\n".join(f"Day {day}: {line}" for day, line in enumerate(lines, start=1))


class NeedleSpec(Spec):
    """The fields of the YAML file, in addition to those of every spec (name, budget_usd, limits, workers, seed, ...)."""

    models: list[Model]
    depths: list[float] = [0.0, 0.25, 0.5, 0.75, 1.0]
    trials: int = 4
    entries: int = 300


# --- questions ---------------------------------------------------------------------------------------------------------

FIND = "{log}\n\nWhere is the key of the rum store? Answer with one sentence."
QUOTE = "{log}\n\nWhich day's entry mentions the key of the rum store? Write its line out, word for word: Day NUMBER: TEXT"


@dataclass(frozen=True)
class Found:
    """A row of table `found`: one model with one log."""

    model: str
    depth: float
    trial: int
    found: Annotated[bool, "the answer names the hiding place"]
    quoted: Annotated[bool | None, "the quotation is the log's own line; null if nothing was found"]


class Skimmer:
    """A model that needs no key, for trying out the benchmark. It reads the first and the last third of its prompt."""

    name = "offline/skimmer"
    revision = "1"

    def answer(self, request: Request) -> str:
        lines = request.prompt.splitlines()
        third = len(lines) // 3
        read = lines[:third] + lines[-third:]
        return next((line for line in read if "hid the key" in line), "The log does not say.")


class Needle(Benchmark[NeedleSpec]):
    """An item is one model and one log. The model is asked where the key is and, if it knows, for the line that says so."""

    stages = (
        Stage("find", output_tokens=20, example="It is in the ship's bell."),
        Stage("quote", output_tokens=25, example="Day 1: It is in the ship's bell."),
    )
    tables = (Table("found", Found, key=("model", "depth", "trial")),)
    own_models = (Skimmer,)

    def items(self) -> Iterator[Item]:
        for model in self.spec.models:
            for depth in self.spec.depths:
                for trial in range(self.spec.trials):
                    data = {"depth": depth, "trial": trial}
                    yield Item(f"{model.label}@{depth}#{trial}", model=model, data=data)

    async def answer(self, item: Item, ask: Ask) -> Rows:
        depth, trial = item.data["depth"], item.data["trial"]
        text = log(self.spec.entries, depth, trial, self.spec.seed)
        found = "bell" in (await ask("find", [user(FIND.format(log=text))])).text.lower()
        quoted = None
        if found:
            reply = await ask("quote", [user(QUOTE.format(log=text))])
            line = re.search(r"Day \d+: .*", reply.text)
            if line is None:
                raise Unreadable(reply, "Day NUMBER: TEXT")
            quoted = line.group().strip() in text.splitlines()
        return {"found": [Found(item.model, depth, trial, found, quoted)]}

    # --- scores --------------------------------------------------------------------------------------------------------

    def score(self, tables: Tables) -> Tables:
        found, items = tables["found"], tables["items"]
        return {
            "by_depth": mean_interval(found, "found", by=("model", "depth"), expected=items),
            "quoted": mean_interval(found.filter(pl.col("found")), "quoted", by="model"),
        }

    def by_query(self, tables: Tables) -> ByQuery:
        query = pl.format("{}#{}", "depth", "trial")
        scores = tables["found"].select(system="model", query=query, found=pl.col("found").cast(pl.Float64))
        return ByQuery(scores, {"found": "%"}, expected=tables["items"].select(system="model", query=query))

    # --- picture -------------------------------------------------------------------------------------------------------

    def report(self, scores: Tables) -> Sequence[Section]:
        return [
            Section(
                "The needle is found",
                text="By position: 0 is the log's first line, 1 its last.",
                table=scores["by_depth"],
                units={"found": "%"},
                chart=Chart.line(x="depth", y="found", series="model"),
            ),
            Section("Quoted word for word, if found", table=scores["quoted"], units={"quoted": "%"}),
        ]
