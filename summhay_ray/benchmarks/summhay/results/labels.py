"""People's labels of a run's judgments: the choice of judgments, the sheet, and the scores by judge and people.

The sheet is CSV in UTF-8 and shows neither system nor verdict. Each judgment is drawn with a known probability, so that the
labels represent all of them (`metrics.corrections`).
"""

import random
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import polars as pl

from summhay_ray.benchmark import RunStore
from summhay_ray.benchmarks.summhay.haystacks.metadata import BY_NAME, HaystackMetadata, stored_metadata
from summhay_ray.benchmarks.summhay.results.judges import check_judged, judge_of_record, judged_pieces, judges_of
from summhay_ray.errors import UserError
from summhay_ray.metrics import Corrected, LabelledScore, SystemScore, Weighting, by_labels, corrected_mean, score_summary
from summhay_ray.records import COVERAGE_VALUE, Coverage, Judgment, Score
from summhay_ray.sheets import read_sheet, sheet

COLUMNS = ("row", "chance", "query", "insight", "bullets", "coverage", "bullet")
"""Columns of the sheet. `row`, `chance`, `coverage` and `bullet` are read back."""
_LABELS: Sequence[Coverage] = ("NO_COVERAGE", "PARTIAL_COVERAGE", "FULL_COVERAGE")
_WORDS = {word: label for label in _LABELS for word in (label.lower(), label.partition("_")[0].lower())} | {"none": _LABELS[0]}
_NOBODY = "people"
_LABELS_A_SYSTEM = 3
"""Minimum number of labels per system, on average, for the mean of all systems."""
_EVENLY = 0.5
"""The share of a system's labels that is drawn with equal probability. The rest is drawn by the judge's uncertainty."""


@dataclass(frozen=True, slots=True)
class Label:
    """A person's label. `bullet`: number (from 1) of the bullet that covers the insight; None if the person named none."""

    cell_id: str
    insight_id: str
    chance: float
    coverage: Coverage
    bullet: int | None


@dataclass(frozen=True, slots=True)
class Labels:
    """The labelled rows of a sheet. `n_rows`: total number of rows."""

    rows: tuple[Label, ...]
    n_rows: int


def draw_labels(run: RunStore, n: int, path: Path, judge: str = "", seed: int = 0) -> dict[str, Any]:
    """Write a sheet with `n` judgments of a judge for people to label. Never overwrites a file. Raises UserError, StoreError.

    Systems have equal shares of the labels. Within a system, half are drawn evenly, and half by the judge's uncertainty if it
    reports one: labels are most informative where the judge is likely to err. Judgments are drawn in order of the judge's
    value, at equal steps (systematic sampling), so that low, middle and high values are represented. The same run and seed give
    the same rows.
    """
    check_judged(run)
    run = run.at()
    if n < 1:
        raise UserError(f"--n {n}: expected at least 1")
    if path.exists():
        raise UserError(f"{path} is already there, and may hold labels; name another file")
    name = judge_of_record(run, judge)
    judges = [one for one in judges_of(run) if one.judge == name]
    parts = [BY_NAME["judgments"].frame(()).with_columns(system=pl.lit("").cast(pl.String))]
    for piece, judged in judged_pieces(run, "judgments", judges):
        parts.append(judged.join(piece.select("cell_id", "system"), on="cell_id", how="left"))
    worth = pl.col("coverage").replace_strict(COVERAGE_VALUE, default=None, return_dtype=pl.Float64)
    values = pl.concat(parts).with_columns(value=pl.coalesce("value", worth))
    found = values.sort("system", "value", "cell_id", "position")
    if found.is_empty():
        raise UserError(f"{run.run_id} has no judgment by {name or 'a judge'} yet; nothing to label")
    chances = chances_of(found, n)
    taken = draw_systematically(chances, random.Random(f"{seed}/{n}"))
    asked = found.with_columns(chance=pl.Series(chances, dtype=pl.Float64))[taken]
    cells = {row["cell_id"]: row for row in run.table("summaries", asked["cell_id"].unique().to_list()).iter_rows(named=True)}
    known = {one.haystack_id: one for one in stored_metadata(run.store, run.record)}
    insights = {(row["haystack_id"], row["insight_id"]): row["text"] for row in run.table("insights").iter_rows(named=True)}
    rows = []
    for row in asked.iter_rows(named=True):
        cell = cells[row["cell_id"]]
        topics = known[cell["haystack_id"]].subtopics
        query = next((one.query for one in topics if one.subtopic_id == cell["subtopic_id"]), "")
        bullets = "\n".join(f"{number}. {bullet}" for number, bullet in enumerate(cell["bullets"], 1))
        texts = (query, insights.get((cell["haystack_id"], row["insight_id"]), ""), bullets)
        rows.append([f"{row['cell_id']}/{row['insight_id']}", f"{row['chance']:.6g}", *texts, "", ""])
    random.Random(f"order/{seed}").shuffle(rows)
    try:
        path.write_bytes(sheet(COLUMNS, rows))
    except OSError as error:
        raise UserError(f"{path}: cannot be written ({error.strerror}); name another file") from error
    systems = found["system"].n_unique()
    return {"run": run.run_id, "judge": name, "sheet": str(path), "rows": len(rows), "of": found.height, "systems": systems}


def chances_of(found: pl.DataFrame, n: int) -> list[float]:
    """Return each judgment's probability of being drawn. Probabilities add up to `n`, or to the number of judgments if that
    is smaller."""
    share = n / found["system"].n_unique()
    doubt = pl.col("uncertainty").fill_null(0.0)
    own, evenly = doubt.sum().over("system"), 1 / pl.len().over("system")
    part = pl.when(own > 0).then(_EVENLY * evenly + (1 - _EVENLY) * doubt / own).otherwise(evenly)
    return [min(1.0, share * one) for one in found.select(part).to_series()]


def draw_systematically(chances: Sequence[float], chance: random.Random) -> list[int]:
    """Draw by systematic sampling: return the items that contain the points u, u + 1, u + 2 ... of the running sum of
    probabilities."""
    taken, total, step = [], 0.0, chance.random()
    for place, one in enumerate(chances):
        total += one
        if total > step:
            taken.append(place)
            step += 1
    return taken


def read_labels(path: Path) -> Labels:
    """Read the labels of a sheet. Rows without a label are left out. Raises UserError, with a message of one line that names
    the row."""
    rows: dict[str, Label] = {}
    n_rows = 0
    for line, said in read_sheet(path, ("row", "chance", "coverage", "bullet")):
        n_rows += 1
        where = f"{path} row {line}"
        if not said["coverage"]:
            continue
        label = _label(where, said)
        if rows.setdefault(said["row"], label) != label:
            raise UserError(f"{where}: the same row is labelled twice, differently; keep one")
    if not rows:
        raise UserError(f"{path}: none of its {n_rows} rows is labelled; write no, partial or full into the column coverage")
    return Labels(tuple(rows.values()), n_rows)


def _label(where: str, said: Mapping[str, str]) -> Label:
    cell, _, insight = said["row"].partition("/")
    if not cell or not insight:
        raise UserError(f"{where}, column row: {said['row']!r:.60} is not an id; leave the ids as written")
    try:
        chance = float(said["chance"].replace(",", "."))
    except ValueError:
        chance = 0.0
    if not 0 < chance <= 1:
        raise UserError(f"{where}, column chance: {said['chance']!r:.60}; leave the numbers as written, above 0 and at most 1")
    coverage = _WORDS.get(said["coverage"].lower())
    if coverage is None:
        raise UserError(f"{where}, column coverage: {said['coverage']!r:.60}; expected no, partial or full")
    bullet = said["bullet"].removesuffix(".0")
    if bullet and not (bullet.isascii() and bullet.isdecimal() and int(bullet[:9]) > 0 and len(bullet) < 10):
        raise UserError(f"{where}, column bullet: {said['bullet']!r:.60}; expected the number of a bullet, or nothing")
    return Label(cell, insight, chance, coverage, int(bullet) if bullet and coverage != "NO_COVERAGE" else None)


Pairs = Mapping[tuple[str, str], Sequence[tuple[LabelledScore, LabelledScore | None, int]]]
"""(judge, system) -> coverage and joint of each labelled judgment, and the number of judgments of its query."""


def label_pairs(run: RunStore, labels: Labels, metadata: Sequence[HaystackMetadata]) -> Pairs:
    """Join the labels with the judges' scores.

    Raises UserError for a label of another run, and for a bullet that a summary does not have.
    """
    wanted: dict[str, dict[str, Label]] = defaultdict(dict)
    for label in labels.rows:
        wanted[label.cell_id][label.insight_id] = label
    pairs: dict[tuple[str, str], list[tuple[LabelledScore, LabelledScore | None, int]]] = defaultdict(list)
    seen, by_id = set(), {one.haystack_id: one for one in metadata}
    for piece, judged in judged_pieces(run, "judgments", judges_of(run)):
        for summary in BY_NAME["summaries"].records(piece.filter(pl.col("cell_id").is_in(list(wanted)))):
            rows = BY_NAME["judgments"].records(judged.filter(pl.col("cell_id") == summary.cell_id))
            own, gold = wanted[summary.cell_id], by_id[summary.haystack_id].gold
            for label in own.values():
                if label.bullet is not None and label.bullet > len(summary.bullets):
                    bullets = f"the summary has bullets 1..{len(summary.bullets)}"
                    raise UserError(f"the sheet: row {label.cell_id}/{label.insight_id} names bullet {label.bullet}; {bullets}")
            # Joint of the covered insights for which people named a bullet.
            named = [
                Judgment(summary.cell_id, _NOBODY, label.insight_id, place, "", label.coverage, str(label.bullet))
                for place, label in enumerate(own.values())
                if label.bullet is not None and label.insight_id in gold
            ]
            scored = score_summary(named, summary.bullets, gold)
            people = {one.insight_id: one.joint for one in scored if isinstance(one, Score)}
            n_judged = Counter(row.judge for row in rows)
            seen |= {(summary.cell_id, insight_id) for insight_id in own if insight_id in gold}
            for row in rows:
                said = own.get(row.insight_id)
                found = [score for score in score_summary([row], summary.bullets, gold) if isinstance(score, Score)]
                if said is None or not found:
                    continue
                worth = COVERAGE_VALUE[said.coverage]
                joint = people.get(row.insight_id, 0.0 if not worth else None)
                pair = LabelledScore(found[0].coverage, worth, said.chance)
                own_joint = found[0].joint
                both = None if joint is None or own_joint is None else LabelledScore(own_joint, joint, said.chance)
                pairs[row.judge, summary.system].append((pair, both, n_judged[row.judge]))
    if strange := [label for label in labels.rows if (label.cell_id, label.insight_id) not in seen]:
        raise UserError(
            f"the sheet: row {strange[0].cell_id}/{strange[0].insight_id} is not a judgment of {run.run_id}; give its sheet"
        )
    return pairs


def labelled_scores(scores: Sequence[SystemScore], pairs: Pairs) -> list[SystemScore]:
    """Add the figures corrected by people's labels to the scores of each system with at least `FEWEST` labels of its own."""
    return [by_labels(score, *_weighted(pairs.get((score.judge, score.system), ()), score.weighting)) for score in scores]


def pooled_over_systems(scores: Sequence[SystemScore], pairs: Pairs, judge: str) -> dict[str, Corrected]:
    """Return the means of coverage and joint over all systems, corrected by the labels of all of them, for one judge.

    Empty with fewer labels than `FEWEST` in total, or fewer than three for any system. The means show how far the judge errs on
    average; its error on a single system may differ.
    """
    own = [score for score in scores if score.judge == judge]
    every = [pair for score in own for pair in pairs.get((judge, score.system), ())]
    found: dict[str, Corrected] = {}
    if len(every) < _LABELS_A_SYSTEM * len(own):
        return found
    for figure, used in zip(("coverage", "joint"), _weighted(every, "queries"), strict=True):
        values = [value for score in own if (value := getattr(score, figure)) is not None]
        if values and (one := corrected_mean(fmean(values), used, sum(score.n_scored for score in own))):
            found[figure] = one
    return found


def _weighted(
    pairs: Sequence[tuple[LabelledScore, LabelledScore | None, int]], weighting: Weighting
) -> tuple[list[LabelledScore], list[LabelledScore]]:
    """Weight the pairs of coverage, and those of joint. If queries have equal weight, a judgment of a longer query weighs
    less."""
    if weighting == "queries":
        pairs = [
            (replace(one, chance=one.chance * n), joint and replace(joint, chance=joint.chance * n), n) for one, joint, n in pairs
        ]
    return [one for one, _, _ in pairs], [joint for _, joint, _ in pairs if joint is not None]
