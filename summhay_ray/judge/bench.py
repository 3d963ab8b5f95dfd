"""The figures of `judge-bench`: they compare a judge's verdicts with people's annotations.

They are those of Table 1 of the paper (correlation, linking accuracy, dollars) and Table 6 (bias by summarizer; correlation of
summary length with score and with delta), with the release's definitions. On the release's 144 summaries, the stored GPT-4o
predictions get 0.730 and 88.5 %; Table 1, on all 200 summaries, has 0.716 and 88.9 %.

The 95 % intervals generalize to further subtopics. The summaries of a subtopic are about the same insights, so they form one
unit. The interval of the correlation is from 10,000 resamples, without those whose correlation is undefined; that of linking
accuracy is from `unit_means`. Intervals are None with fewer subtopics than `FEWEST_UNITS`.
"""

from __future__ import annotations

import json
import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from summhay_ray import metrics
from summhay_ray.judge.annotations import AnnotatedSummary, linked_bullet, linking_accuracy, load_summaries, read_summaries
from summhay_ray.judge.base import Verdict
from summhay_ray.judge.offline import Rated, rate
from summhay_ray.judge.prompt import Form, render, template
from summhay_ray.llm import Limits, ModelSettings
from summhay_ray.metrics import alpha
from summhay_ray.records import COVERAGE_VALUE
from summhay_ray.text import count_tokens

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "STORED_NAMES",
    "Agreement",
    "AnnotatedSummary",
    "Rated",
    "Verdicts",
    "agreement",
    "biases_json",
    "load_summaries",
    "measured_bias",
    "rate",
    "read_biases",
    "read_summaries",
    "shipped_biases",
    "stored_micros",
    "stored_verdicts",
]

PAPER_MODELS = {
    "claude3-haiku": "claude-3-haiku-20240307",
    "claude3-opus": "claude-3-opus-20240229",
    "claude3-sonnet": "claude-3-sonnet-20240229",
    "gemini-1.5-flash": "gemini-1.5-flash-preview-0514",
    "gemini-1.5-pro": "gemini-1.5-pro-preview-0514",
    "gpt-4o": "gpt-4o-2024-05-13",
    "gpt3.5": "gpt-3.5-turbo-0125",
    "gpt4-turbo": "gpt-4-turbo-2024-04-09",
}
"""A model's name in stored predictions -> its provider's name."""

PROMPTED, FEW_SHOT = "predictions_prompted_", "predictions_9fs_"

SAMPLES = 10_000
_LEAST_VARIANCE = 1e-9
"""If either side has less variance, the correlation of a resample is undefined."""
STORED_PREFIX = "stored/"

STORED_NAMES: Mapping[str, tuple[str, ...]] = {
    "predictions_prompted_gpt-4o": ("released", "replay/*", "gpt-4o", "*/gpt-4o", "gpt-4o-2024-05-13", "*/gpt-4o-2024-05-13"),
    "predictions_prompted_claude3-opus": ("*claude-3-opus-20240229",),
    "predictions_prompted_gemini-1.5-pro": ("*gemini-1.5-pro", "*gemini-1.5-pro-preview-0514"),
}
"""Key of stored predictions -> names of the judges that made them. GPT-4o also made the released judgments."""

Verdicts = Sequence[Sequence[Verdict | None]]
"""A judge's verdicts on each annotated summary, parallel to its insights; None for a missing verdict."""

Interval = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Agreement:
    """A judge's agreement with people. A figure without data is None. `n_scored` of `n_expected` insights have a verdict.

    `correlation` uses the expected coverage (a judge's value, else the value of its label), `correlation_labels` only the labels.
    `kappa` (Cohen's) and `alpha` (Krippendorff's, ordinal) compare the labels. A summary's bias is the judge's mean coverage by
    labels minus people's; `bias` maps each summarizer to the mean over its summaries, and `bias_mean` is the unweighted mean over
    summarizers. Lengths are words per bullet (appendix A.3).
    """

    correlation: float | None
    correlation_ci: Interval | None
    correlation_labels: float | None
    linking_accuracy: float | None
    linking_ci: Interval | None
    linking_n: int
    bias: dict[str, float]
    bias_mean: float | None
    length_score_corr: float | None
    length_delta_corr: float | None
    n_scored: int
    n_expected: int
    kappa: float | None = None
    alpha: float | None = None


@dataclass(frozen=True, slots=True)
class _Scored:
    """One summary's insights that have a verdict, with expected coverage, label values and bullets by the judge and by people."""

    summary: AnnotatedSummary
    ours: list[float]
    labels: list[float]
    theirs: list[float]
    our_links: list[int | None]
    their_links: list[int | None]
    delta: float
    """The judge's mean coverage minus people's (appendix A.3); 0 without a verdict."""


def agreement(summaries: Sequence[AnnotatedSummary], verdicts: Verdicts, summarizers: Sequence[str]) -> Agreement:
    """Return the figures of one judge. `summarizers`: the author of each summary. The result is deterministic to the last bit."""
    scored = [_score(summary, row) for summary, row in zip(summaries, verdicts, strict=True)]
    kept = [(judged, name) for judged, name in zip(scored, summarizers, strict=True) if judged.theirs]
    ours, labels, theirs = (
        [value for judged, _ in kept for value in getattr(judged, field)] for field in ("ours", "labels", "theirs")
    )
    our_links = [bullet for judged, _ in kept for bullet in judged.our_links]
    linking, linking_n = linking_accuracy(our_links, [bullet for judged, _ in kept for bullet in judged.their_links])
    correlated, linked = _intervals([judged for judged, _ in kept])
    bias = _by_summarizer(kept)
    lengths = metrics.words_per_bullet([judged.summary.bullets for judged, _ in kept])
    sized = [(length, judged) for length, (judged, _) in zip(lengths, kept, strict=True) if length is not None]
    return Agreement(
        correlation=metrics.pearson(ours, theirs),
        correlation_ci=None if metrics.pearson(ours, theirs) is None else correlated,
        correlation_labels=metrics.pearson(labels, theirs),
        linking_accuracy=linking if linking_n else None,
        linking_ci=linked,
        linking_n=linking_n,
        bias=bias,
        bias_mean=statistics.fmean(bias.values()) if bias else None,
        length_score_corr=metrics.pearson([one for one, _ in sized], [statistics.fmean(judged.labels) for _, judged in sized]),
        length_delta_corr=metrics.pearson([one for one, _ in sized], [judged.delta for _, judged in sized]),
        n_scored=len(ours),
        n_expected=sum(len(summary.insights) for summary in summaries),
        kappa=metrics.cohens_kappa(labels, theirs),
        alpha=alpha([labels, theirs]),
    )


def measured_bias(
    judge: str, summaries: Sequence[AnnotatedSummary], verdicts: Verdicts, summarizers: Sequence[str]
) -> metrics.JudgeBias | None:
    """Return the judge's mean bias over insights, for correcting scores; None without verdicts.

    The squared standard error is the error of a mean over subtopics (`unit_means`) plus the variance between topics, since scores
    are corrected on new topics. With two topics, that variance is a rough guess. With one topic it is unknown and counts as 0.
    """
    scored = [_score(summary, row) for summary, row in zip(summaries, verdicts, strict=True)]
    kept = [(judged, name) for judged, name in zip(scored, summarizers, strict=True) if judged.theirs]
    if not kept:
        return None
    topics: dict[str, list[_Scored]] = defaultdict(list)
    for judged, _ in kept:
        topics[judged.summary.topic].append(judged)
    biases = {topic: _mean_bias(members) for topic, members in topics.items()}
    mean, se = _mean_bias([judged for judged, _ in kept])
    between = 0.0
    if len(biases) > 1:
        within = statistics.fmean(one_se**2 for _, one_se in biases.values())
        between = max(statistics.variance([one_mean for one_mean, _ in biases.values()]) - within, 0.0)
    return metrics.JudgeBias(
        judge=judge,
        mean=mean,
        se=math.sqrt(se**2 + between),
        n_insights=sum(len(judged.theirs) for judged, _ in kept),
        n_summaries=len(kept),
        summarizers=_by_summarizer(kept),
        topics=tuple(one_mean for one_mean, _ in biases.values()),
    )


def stored_verdicts(summaries: Sequence[AnnotatedSummary], key: str) -> Verdicts:
    """Return the stored predictions of a key, parallel to the insights."""
    return [summary.stored.get(key) or (None,) * len(summary.insights) for summary in summaries]


def stored_micros(
    key: str, summaries: Sequence[AnnotatedSummary], verdicts: Sequence[Sequence[Verdict | None]], wanted: Sequence[Sequence[int]]
) -> int | None:
    """Estimate the micro-dollars for the stored predictions of the given insights, one call each; None if the key's model is
    unknown.

    The release does not give the cost of its calls. The estimate counts cl100k tokens of our per-insight prompt and of the
    answer, at the model's price in the months of the paper (llm/paper_models.json). The wording of the paper's own prompts
    differs.
    """
    prefix = next((prefix for prefix in (PROMPTED, FEW_SHOT) if key.startswith(prefix)), "")
    model = PAPER_MODELS.get(key.removeprefix(prefix)) if prefix else None
    if model is None:
        return None
    settings = ModelSettings.written(model, {}, Limits())
    text = template(form=Form(nine=prefix == FEW_SHOT))
    total = 0
    for summary, row, places in zip(summaries, verdicts, wanted, strict=True):
        for place in places:
            prompt = render(text, summary.insights[place].text, summary.bullets)
            verdict = row[place]
            answer = verdict and {"coverage": verdict.coverage, "bullet_id": json.loads(verdict.bullet_id)}
            total += settings.expected_micros(count_tokens(prompt), count_tokens(json.dumps(answer)) if answer else 0)
    return total


@cache
def shipped_biases() -> tuple[metrics.JudgeBias, ...]:
    """Return the biases of `measured_bias.json`, which is read once.

    `summhay judge-bench judge_annotations.json --held-out --judge ... --out` writes the file. In it, `per_insight(offline)` is
    the free judge when it is asked about one insight per call.
    """
    text = resources.files("summhay_ray.judge").joinpath("measured_bias.json").read_text(encoding="utf-8")
    return read_biases(text)


def read_biases(text: str) -> tuple[metrics.JudgeBias, ...]:
    """Read a file written by `biases_json`. Raise ValueError, with a short reason, for any other content."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError("it is not JSON") from None
    judges = content.get("judges") if isinstance(content, dict) else None
    if not isinstance(judges, list) or not all(isinstance(entry, dict) for entry in judges):
        raise ValueError("it has no list of judges")
    if any("correlation" in entry for entry in judges):
        raise ValueError("it is what judge-bench --json says")
    biases = []
    for number, entry in enumerate(judges):
        if not isinstance(entry.get("judge"), str):
            raise ValueError(f"judges[{number}] has no name")
        place = f"judges[{number}], {entry['judge']}"
        for name in ("mean", "se", "n_insights", "n_summaries"):
            value = entry.get(name)
            if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
                raise ValueError(f"{place}: {name} is missing or not a number")
        for name in ("names", "topics"):
            if not isinstance(entry.get(name, []), list):
                raise ValueError(f"{place}: {name} is not a list")
        if unlike := sorted(set(entry) - set(metrics.JudgeBias.__dataclass_fields__)):
            raise ValueError(f"{place}, has an unknown field {unlike[0]!r}")
        biases.append(metrics.JudgeBias(**{**entry, **{name: tuple(entry.get(name, ())) for name in ("names", "topics")}}))
    return tuple(biases)


def biases_json(biases: Sequence[metrics.JudgeBias], about: str) -> str:
    """Return the text of a file of measured biases, with five decimals."""
    entries = []
    for bias in biases:
        entry: dict[str, Any] = {name: getattr(bias, name) for name in metrics.JudgeBias.__dataclass_fields__}
        entry |= {name: round(entry[name], 5) for name in ("mean", "se")}
        entry["summarizers"] = {name: round(value, 5) for name, value in bias.summarizers.items()}
        entry["topics"] = [round(value, 5) for value in bias.topics]
        entries.append(entry)
    return json.dumps({"about": about, "judges": entries}, indent=1) + "\n"


def _score(summary: AnnotatedSummary, row: Sequence[Verdict | None]) -> _Scored:
    faced = [
        (verdict, coverage, bullet)
        for verdict, coverage, bullet in zip(row, summary.coverage, summary.bullet, strict=True)
        if verdict is not None
    ]
    labels, theirs = [COVERAGE_VALUE[verdict.coverage] for verdict, _, _ in faced], [coverage for _, coverage, _ in faced]
    return _Scored(
        summary,
        ours=[verdict.expected for verdict, _, _ in faced],
        labels=labels,
        theirs=theirs,
        our_links=[linked_bullet(verdict) for verdict, _, _ in faced],
        their_links=[bullet for _, _, bullet in faced],
        delta=statistics.fmean(labels) - statistics.fmean(theirs) if faced else 0.0,
    )


def _by_summarizer(kept: Sequence[tuple[_Scored, str]]) -> dict[str, float]:
    deltas: dict[str, list[float]] = defaultdict(list)
    for judged, name in kept:
        deltas[name].append(judged.delta)
    return {name: statistics.fmean(values) for name, values in sorted(deltas.items())}


def _by_subtopic(scored: Sequence[_Scored], sums: Callable[[_Scored], Sequence[float]]) -> NDArray[np.float64]:
    """Sum over the summaries of each subtopic, one row per subtopic. If there are no ids, summaries with the same insights form a
    subtopic."""
    import numpy as np

    found: dict[tuple[Any, ...], list[Sequence[float]]] = defaultdict(list)
    for judged in scored:
        insights = judged.summary.insights
        subtopic = insights[0].subtopic_id or tuple(insight.insight_id for insight in insights)
        found[judged.summary.topic, subtopic].append(sums(judged))
    return np.array([np.sum(rows, axis=0) for rows in found.values()], dtype=float)


def _intervals(scored: Sequence[_Scored]) -> tuple[Interval | None, Interval | None]:
    """Return the intervals of correlation and of linking accuracy, or None with too few subtopics. Resamples with an undefined
    correlation are left out."""
    import numpy as np

    rows = _by_subtopic(scored, _sums)
    if (n_rows := len(rows)) < metrics.FEWEST_UNITS:
        return None, None
    drawn = np.random.default_rng(0).multinomial(n_rows, np.full(n_rows, 1 / n_rows), size=SAMPLES)
    n, x, y, xx, yy, xy, *_ = (drawn.astype(float) @ rows).T
    with np.errstate(divide="ignore", invalid="ignore"):
        variances = (n * xx - x * x) * (n * yy - y * y)
        correlations = ((n * xy - x * y) / np.sqrt(variances))[variances > _LEAST_VARIANCE]
    # If all resamples are equal, the interval is unknown.
    varied = len(correlations) > 1 and np.ptp(correlations) > _LEAST_VARIANCE
    low, high = np.quantile(correlations, metrics.QUANTILES_95) if varied else (0.0, 0.0)
    return (float(low), float(high)) if varied else None, metrics.unit_means(rows[:, 7:], rows[:, 6:7]).interval()


def _sums(judged: _Scored) -> list[float]:
    """Return the sums n, x, y, xx, yy, xy of the values, the number of insights that both sides link, and the number that both
    link to the same bullet."""
    linked = [our == their for our, their in zip(judged.our_links, judged.their_links, strict=True) if our and their]
    products = [our * their for our, their in zip(judged.ours, judged.theirs, strict=True)]
    squares = [sum(value * value for value in values) for values in (judged.ours, judged.theirs)]
    return [len(judged.ours), sum(judged.ours), sum(judged.theirs), *squares, sum(products), len(linked), sum(linked)]


def _mean_bias(scored: Sequence[_Scored]) -> tuple[float, float]:
    """Return the mean over insights of the label value minus people's coverage, and its standard error (0 for one subtopic)."""
    rows = _by_subtopic(scored, lambda judged: [sum(judged.labels) - sum(judged.theirs), len(judged.labels)])
    means = metrics.unit_means(rows[:, :1], rows[:, 1:], bounds=(-1.0, 1.0))
    return float(means.mean[0]), float(means.se[0]) if len(rows) > 1 else 0.0
