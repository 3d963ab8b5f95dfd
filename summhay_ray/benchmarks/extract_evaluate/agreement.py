"""How far ratings from less agree with ratings from all of it, beside what they spare: of one rater, or of two."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import polars as pl

from summhay_ray.benchmark import Section
from summhay_ray.benchmarks.rating import RatingTable
from summhay_ray.errors import UserError
from summhay_ray.metrics import concordance, pearson
from summhay_ray.outcome import MICROS
from summhay_ray.store import RunStore

TEXT = (
    "Same: equal after rounding. Concordance (Lin; of whole numbers Cohen's kappa with quadratic weights) asks for the same "
    "ratings, not only for ratings that rise together."
)


@dataclass(frozen=True, slots=True)
class RatingAgreement:
    """Two ratings each of the same things, `other` the one that is held against the first; None where nothing makes a figure."""

    n: int
    pearson: float | None
    concordance: float | None
    same: float | None
    """Share of ratings that are equal after rounding."""
    difference: float | None
    """Mean of the other's less the first's, on the scale."""


def agreement(first: Sequence[float], other: Sequence[float]) -> RatingAgreement:
    """Compare ratings, in one order."""
    n = len(first)
    if not n:
        return RatingAgreement(0, None, None, None, None)
    same = sum(_whole(a) == _whole(b) for a, b in zip(first, other, strict=True)) / n
    difference = math.fsum(b - a for a, b in zip(first, other, strict=True)) / n
    return RatingAgreement(n, pearson(first, other), concordance(first, other), same, difference)


def _whole(rating: float) -> int:
    """The nearest whole number, halves up: all points of a scale are alike, where Python rounds 2.5 to 2 and 3.5 to 4."""
    return math.floor(rating + 0.5)


@dataclass(frozen=True)
class RaterComparison:
    """Two raters of one run, or one of each of two runs, over what both rated."""

    runs: tuple[str, str]
    """Whose run each is of; the same where they are of one."""
    raters: tuple[str, str]
    n_rated: tuple[int, int]
    """What each of them rated."""
    found: RatingAgreement
    by_criterion: Mapping[str, RatingAgreement]
    prompt_tokens: tuple[int, int]
    usd: tuple[float, float]
    """Dollars of each one's ratings of what both rated."""

    def to_json(self) -> dict[str, Any]:
        """The JSON document of `summhay compare`."""
        return {
            "run": self.runs[0],
            "other_run": self.runs[1],
            "judges": list(self.raters),
            "n_scored": list(self.n_rated),
            "agreement": asdict(self.found),
            "by_criterion": {name: asdict(one) for name, one in self.by_criterion.items()},
            "input_tokens": list(self.prompt_tokens),
            "usd": list(self.usd),
        }

    def sections(self) -> list[Section]:
        """For people."""
        one_run = self.runs[0] == self.runs[1]
        first, other = (
            self.raters if one_run else (f"{rater} of {run}" for rater, run in zip(self.raters, self.runs, strict=True))
        )
        usd, tokens = (
            f"{' / '.join(map(form.format, pair))}" for form, pair in (("{:.4f}", self.usd), ("{:,}", self.prompt_tokens))
        )
        rows = [{"criterion": name, **asdict(one)} for name, one in {**self.by_criterion, "all": self.found}.items()]
        told = f"{other} held against {first}, on what both rated. Dollars: {usd}; prompt tokens: {tokens}. {TEXT}"
        title = f"{first} and {other}" + (f" on {self.runs[0]}" if one_run else "")
        return [Section(title, told, pl.DataFrame(rows), {"same": "%"})]


def compare_raters(
    rates: RatingTable, run: RunStore, raters: Sequence[str] = (), against: RunStore | None = None
) -> RaterComparison:
    """Compare two of a run's raters; where it has just two, none need be named. With `against`, one of its raters and
    one of that run's: where both have just one, or one of the same name, none need be named. Raises UserError."""
    runs = (run, against or run)
    tables = [_ratings(rates, one) for one in runs]
    known = [table["rater"].unique(maintain_order=True).to_list() for table in tables]
    chosen = list(raters) or (known[0] if against is None else _one_each(*known))
    apart = against is not None or len(set(chosen)) == 2
    if len(chosen) != 2 or not apart or any(name not in names for name, names in zip(chosen, known, strict=True)):
        told = "; ".join(
            f"{one.run_id} has ratings by {', '.join(names) or 'nobody'}" for one, names in zip(runs, known, strict=True)
        )
        raise UserError(f"compare takes two raters: --judges A B; {told if against is not None else told.partition('; ')[0]}")
    first, other = chosen
    mine, theirs = (table.filter(pl.col("rater") == name) for table, name in zip(tables, chosen, strict=True))
    both = mine.join(theirs, on=rates.of, suffix="_2").sort(rates.of)
    if both.is_empty():
        raise UserError(
            f"nothing is rated by both {first} and {other} from the same extracts; let both finish, on the same pairs"
        )
    sums = [both.select(pl.col(f"{name}{end}").sum()).item() for name in ("prompt_tokens", "usd_micros") for end in ("", "_2")]
    parts = both.partition_by("criterion", as_dict=True, maintain_order=True)
    return RaterComparison(
        runs=(run.run_id, runs[1].run_id),
        raters=(first, other),
        n_rated=(mine.height, theirs.height),
        found=_of(both),
        by_criterion={str(name): _of(rows) for (name,), rows in parts.items()},
        prompt_tokens=(int(sums[0]), int(sums[1])),
        usd=(sums[2] / MICROS, sums[3] / MICROS),
    )


def _ratings(rates: RatingTable, run: RunStore) -> pl.DataFrame:
    """What is rated, by whom, with tokens and dollars of the answer; a rating that could not be read is none."""
    table = run.at().table(rates.table)
    rater = pl.col(rates.rater) if rates.rater in table.columns else pl.lit(rates.rater)
    if "usd_micros" not in table.columns:
        costs = run.at().table("raw_answers").select("key", "usd_micros", prompt_tokens="input_tokens")
        table = table.join(costs, on="key", how="left")
    named = {"rater": rater, "rating": pl.col(rates.value)}
    return table.select(*rates.of, "prompt_tokens", "usd_micros", **named).drop_nulls("rating")


def _one_each(mine: Sequence[str], theirs: Sequence[str]) -> list[str]:
    if len(mine) == len(theirs) == 1:
        return [*mine, *theirs]
    shared = [name for name in mine if name in theirs]
    return shared * 2 if len(shared) == 1 else []


def _of(both: pl.DataFrame) -> RatingAgreement:
    return agreement(both["rating"].to_list(), both["rating_2"].to_list())
