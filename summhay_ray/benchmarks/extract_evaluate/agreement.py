"""The agreement of two series of ratings, such as ratings from extracts and from the full document, with the cost of each."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import polars as pl

from summhay_ray.benchmark import RunStore, Section
from summhay_ray.benchmarks.rating import RatingTable
from summhay_ray.errors import UserError
from summhay_ray.metrics import concordance, pearson
from summhay_ray.outcome import MICROS

TEXT = (
    "Same: equal after rounding. Concordance (Lin; on whole numbers, Cohen's kappa with quadratic weights) requires equal "
    "ratings, where a correlation only requires that they rise together."
)


@dataclass(frozen=True, slots=True)
class RatingAgreement:
    """The agreement of two series of ratings of the same texts. An undefined figure is None."""

    n: int
    pearson: float | None
    concordance: float | None
    same: float | None
    """Share of ratings that are equal after rounding."""
    difference: float | None
    """Mean of the second series minus the first, in points of the scale."""


def agreement(first: Sequence[float], other: Sequence[float]) -> RatingAgreement:
    """Return the agreement of two series of equal length; position i of both rates the same text."""
    n = len(first)
    if not n:
        return RatingAgreement(0, None, None, None, None)
    # Round halves up. (`round` rounds them to even: 2.5 to 2, but 3.5 to 4.)
    same = sum(math.floor(a + 0.5) == math.floor(b + 0.5) for a, b in zip(first, other, strict=True)) / n
    difference = math.fsum(b - a for a, b in zip(first, other, strict=True)) / n
    return RatingAgreement(n, pearson(first, other), concordance(first, other), same, difference)


@dataclass(frozen=True)
class RaterComparison:
    """Two raters, compared on the texts that both rated. The raters are from one run, or from two."""

    runs: tuple[str, str]
    """The run of each rater; equal if both are from the same run."""
    raters: tuple[str, str]
    n_rated: tuple[int, int]
    """Number of texts that each rater rated."""
    overall: RatingAgreement
    by_criterion: Mapping[str, RatingAgreement]
    prompt_tokens: tuple[int, int]
    usd: tuple[float, float]
    """The dollars that each rater's ratings of the shared texts cost."""

    def to_json(self) -> dict[str, Any]:
        """Return the JSON document of `summhay compare`."""
        return {
            "run": self.runs[0],
            "other_run": self.runs[1],
            "judges": list(self.raters),
            "n_scored": list(self.n_rated),
            "agreement": asdict(self.overall),
            "by_criterion": {name: asdict(figures) for name, figures in self.by_criterion.items()},
            "input_tokens": list(self.prompt_tokens),
            "usd": list(self.usd),
        }

    def sections(self) -> list[Section]:
        """Return the comparison as a section with a table: a row per criterion, and one for all."""
        one_run = self.runs[0] == self.runs[1]
        first, other = (
            self.raters if one_run else (f"{rater} of {run}" for rater, run in zip(self.raters, self.runs, strict=True))
        )
        usd, tokens = (
            f"{' / '.join(map(form.format, pair))}" for form, pair in (("{:.4f}", self.usd), ("{:,}", self.prompt_tokens))
        )
        rows = [{"criterion": name, **asdict(figures)} for name, figures in {**self.by_criterion, "all": self.overall}.items()]
        text = f"{other} compared with {first}, on what both rated. Dollars: {usd}; prompt tokens: {tokens}. {TEXT}"
        title = f"{first} and {other}" + (f" on {self.runs[0]}" if one_run else "")
        return [Section(title, text, pl.DataFrame(rows), {"same": "%"})]


def compare_raters(
    rates: RatingTable, run: RunStore, raters: Sequence[str] = (), against: RunStore | None = None
) -> RaterComparison:
    """Compare two raters of a run or, with `against`, a rater of `run` with one of `against`. `raters` may be omitted if only
    one pair is possible, or if exactly one name is in both runs. Raises UserError, which lists the raters, if the pair is
    unclear or has rated no text in common."""
    runs = (run, against or run)
    tables = [_ratings(rates, store) for store in runs]
    known = [table["rater"].unique(maintain_order=True).to_list() for table in tables]
    if bare := [store.run_id for store, names in zip(runs, known, strict=True) if not names]:
        raise UserError(
            f"{' and '.join(dict.fromkeys(bare))}: no text is rated there, so that there is nothing to compare "
            "(ODSum rates by the metric geval); summhay report RUN_A RUN_B puts any runs side by side"
        )
    chosen = list(raters) or (known[0] if against is None else _one_each(*known))
    apart = against is not None or len(set(chosen)) == 2
    if len(chosen) != 2 or not apart or any(name not in names for name, names in zip(chosen, known, strict=True)):
        listed = [
            f"{store.run_id} has ratings by {', '.join(names) or 'nobody'}" for store, names in zip(runs, known, strict=True)
        ]
        shown = "; ".join(listed if against is not None else listed[:1])
        raise UserError(f"compare takes two raters: --judges A B; {shown}")
    first, other = chosen
    mine, theirs = (table.filter(pl.col("rater") == name) for table, name in zip(tables, chosen, strict=True))
    both = mine.join(theirs, on=rates.of, suffix="_2").sort(rates.of)
    if both.is_empty():
        raise UserError(
            f"nothing is rated by both {first} and {other} from the same extracts; let both finish, on the same pairs"
        )
    sums = [both.select(pl.col(f"{name}{end}").sum()).item() for name in ("prompt_tokens", "usd_micros") for end in ("", "_2")]
    parts = {str(name): rows for (name,), rows in both.group_by("criterion", maintain_order=True)}
    agreed = [agreement(rows["rating"].to_list(), rows["rating_2"].to_list()) for rows in (both, *parts.values())]
    return RaterComparison(
        runs=(run.run_id, runs[1].run_id),
        raters=(first, other),
        n_rated=(mine.height, theirs.height),
        overall=agreed[0],
        by_criterion=dict(zip(parts, agreed[1:], strict=True)),
        prompt_tokens=(int(sums[0]), int(sums[1])),
        usd=(sums[2] / MICROS, sums[3] / MICROS),
    )


def _ratings(rates: RatingTable, run: RunStore) -> pl.DataFrame:
    """Return the readable ratings of a run, with the key of the rated text, the rater, and the answer's tokens and price."""
    table = run.at().table(rates.table)
    rater = pl.col(rates.rater) if rates.rater in table.columns else pl.lit(rates.rater)
    if "usd_micros" not in table.columns:
        costs = run.at().table("raw_answers").select("key", "usd_micros", prompt_tokens="input_tokens")
        # A panel's rating costs the sum of its members' ratings.
        alone = pl.concat_list("key")
        keys = pl.when(pl.col("keys").list.len() > 0).then("keys").otherwise(alone) if "keys" in table.columns else alone
        each = (
            table.select(*rates.of, *({rates.rater} & {*table.columns}), key=keys)
            .explode("key")
            .join(costs, on="key", how="left")
        )
        by = [name for name in each.columns if name not in costs.columns]
        table = table.join(each.group_by(by).agg(pl.col("usd_micros", "prompt_tokens").sum()), on=by, how="left")
    named = {"rater": rater, "rating": pl.col(rates.value)}
    return table.select(*rates.of, "prompt_tokens", "usd_micros", **named).drop_nulls("rating")


def _one_each(mine: Sequence[str], theirs: Sequence[str]) -> list[str]:
    if len(mine) == len(theirs) == 1:
        return [*mine, *theirs]
    shared = [name for name in mine if name in theirs]
    return shared * 2 if len(shared) == 1 else []
