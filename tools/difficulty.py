"""Measures how the difficulty of synthesized haystacks changes the score of `offline/support`, one knob at a time.

    python tools/difficulty.py --json FILE                                                       # minutes
    python tools/difficulty.py --subtopics 9 --insights 7 --documents 100 --words 750 --seeds 2  # the paper's size

A knob is a field of `difficulty`. Each of its values is tried in haystacks of every domain and of seeds 1..N, one topic for each
seed. `offline/writer` writes them, `offline/support` summarizes them, and `offline/judge` judges, all in this process. The other
knobs keep their defaults. Only the documents per insight are fixed. By the domain's default they would decrease as insights are
added, so that two knobs would change. The retriever `full` shows the whole haystack, so that only the haystack changes. `bm25`
and `oracle` show the paper's share of it (15k tokens of 100 documents of 750 words: a fifth of a token per word). With these two,
the citation recall of any summarizer falls if insights are in more documents than are shown, and distractors displace relevant
text. In the whole haystack, distractors only replace filler and statements of other subtopics, which are as misleading. So the
effect of distractors is judged with `oracle`, and that of other knobs with the whole haystack.

For each value and retriever, it prints the scores in percent with their 95 % intervals, as `score` does. It also prints `stated`,
the share of insights that the summaries state with every number and name. `stated` uses the checks of documents, which, unlike
`offline/judge`, distinguish the sides of a conflict.

For each knob and retriever, it prints Spearman's correlation of the joint score with the knob's value, over values and over all
haystacks. It also prints the change of the joint score from the first value to the last, over the haystacks that both have, with
its 95 % interval (bootstrap over haystacks). The exit code is 1 if this change is not certainly in the expected direction, for
the retriever with which the knob is judged.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from summhay_ray import api
from summhay_ray.benchmarks.summhay import ScoreResult, score_run
from summhay_ray.benchmarks.synth.topics import made_up
from summhay_ray.errors import UserError
from summhay_ray.metrics import SystemScore, rank_agreement
from summhay_ray.store import RunStore, Store
from summhay_ray.synth.checking.presence import Presence
from summhay_ray.synth.making.domains import domain_names

WHOLE = "full"
FIGURES = ("coverage", "citation_precision", "citation_recall", "joint")
LEAST = 5
"""Minimum number of documents per insight, if the average allows it."""
RESAMPLES = 2000


@dataclass(frozen=True, slots=True)
class Knob:
    """A field of the difficulty, its values in order, and whether the score should rise with them."""

    name: str
    values: tuple[int, ...]
    rises: bool
    retriever: str = WHOLE
    """The retriever with which the knob is judged."""


KNOBS = (
    Knob("documents_per_insight", (2, 3, 5, 8, 12), True),
    Knob("paraphrase", (0, 1, 2, 3), False),
    Knob("distractors", (0, 2, 4, 8, 12), False, "oracle"),
    Knob("conflicts", (0, 3, 6, 12, 24), False),
)


@dataclass(frozen=True)
class Setting:
    """The haystacks and contexts of all knobs."""

    domains: tuple[str, ...] = ("conversation", "news")
    seeds: tuple[int, ...] = (1, 2)
    subtopics: int = 5
    insights: int = 5
    documents: int = 50
    words: int = 300
    retrievers: tuple[str, ...] = (WHOLE, "bm25", "oracle")
    difficulty: Mapping[str, int] = field(default_factory=lambda: {"documents_per_insight": 6})

    @property
    def token_budget(self) -> int:
        """Maximum cl100k tokens of documents that a retriever shows."""
        return self.documents * self.words // 5


@dataclass(frozen=True, slots=True)
class Scores:
    """The scores at one value of a knob with one retriever, as fractions, pooled and by haystack. `stated` has no interval."""

    retriever: str
    n_scored: int
    pooled: Mapping[str, float | None]
    ci: Mapping[str, tuple[float, float]]
    joint: Mapping[str, float]
    """Haystack name -> its joint score."""


def measure(setting: Setting, **turned: int) -> dict[str, Scores]:
    """Return retriever -> the scores at this difficulty, over the haystacks that could be made. Raise RuntimeError if scores are
    missing."""
    difficulty = {**setting.difficulty, **turned}
    difficulty["least"] = min(LEAST, difficulty["documents_per_insight"])
    places = [(domain, seed) for seed in setting.seeds for domain in setting.domains]
    with tempfile.TemporaryDirectory() as folder:
        store = Store(folder)
        entries = [make_haystack(setting, *place, store, difficulty) for place in places]
        spec = {
            "haystacks": list(filter(None, entries)),
            "retrievers": list(setting.retrievers),
            "token_budget": setting.token_budget,
            "summarizers": ["offline/support"],
            "judges": ["offline/judge"],
        }
        run = store.run(api.run(spec, store.uri, executor="inline").run)
        result, whole = score_run(run), stated_shares(run)
    return {one.retriever: scores_of(one, result, whole[one.retriever]) for one in result.systems}


def scores_of(system: SystemScore, result: ScoreResult, whole: float) -> Scores:
    """Return the scores of one system. Raise RuntimeError if they are missing."""
    if system.n_scored != system.n_expected:
        raise RuntimeError(f"{system.n_scored} of {system.n_expected} insights were scored with {system.retriever}")
    joint = {
        name: one.joint or 0.0
        for name, systems in result.haystacks.items()
        for one in systems
        if one.retriever == system.retriever
    }
    pooled = {"stated": whole, **{name: getattr(system, name) for name in FIGURES}}
    return Scores(
        system.retriever, system.n_scored, pooled, {name: system.ci[name] for name in FIGURES if name in system.ci}, joint
    )


def stated_shares(run: RunStore) -> dict[str, float]:
    """Return retriever -> share of the insights that a summary states with every number and name, checked as in documents."""
    texts: dict[tuple[str, str], list[str]] = {}
    for row in run.table("insights").iter_rows(named=True):
        texts.setdefault((row["haystack_id"], row["subtopic_id"]), []).append(row["text"])
    found: dict[str, list[bool]] = {}
    for row in run.table("summaries").iter_rows(named=True):
        insights = texts[row["haystack_id"], row["subtopic_id"]]
        # Citations are not numbers of the insight.
        bullets = "\n".join(bullet.rsplit(" [", 1)[0] if bullet.endswith("]") else bullet for bullet in row["bullets"])
        found.setdefault(row["retriever"], []).extend(verdict.found for verdict in Presence(insights).find(bullets))
    return {retriever: sum(shares) / len(shares) for retriever, shares in found.items()}


def make_haystack(setting: Setting, domain: str, seed: int, store: Store, difficulty: Mapping[str, int]) -> str:
    """Return the entry of the haystack of one domain and seed. If it could not be made, return an empty string and print a line
    on stderr.

    The seed's topic is the same in every domain and at every difficulty.
    """
    [topic] = made_up(seed, 1)
    shape = {name: getattr(setting, name) for name in ("subtopics", "insights", "documents", "words")}
    named = {"topic": topic, "name": f"{domain}_{seed}"}
    spec = {"domain": domain, "topics": [named], "seed": seed, "difficulty": difficulty, **shape}
    result = api.synth(spec, store.uri, executor="inline")
    if failed := result.scores.failed:
        print(f"no haystack of {domain}, seed {seed}, {dict(difficulty)}: {failed[0].message}", file=sys.stderr, flush=True)
    return next((one.entry for one in result.scores.haystacks), "")


@dataclass(frozen=True, slots=True)
class Trend:
    """The effect of a knob on the joint score with one retriever."""

    retriever: str
    spearman_of_values: float | None
    spearman_of_haystacks: float | None
    change: float
    """The change from the first value to the last, as the mean over haystacks."""
    change_ci: tuple[float, float] | None
    """None for a single haystack."""

    def holds(self, rises: bool) -> bool:
        """Whether the score certainly changes in the expected direction."""
        if self.change_ci is None:
            return False
        return self.change_ci[0] > 0 if rises else self.change_ci[1] < 0


def trend(points: Mapping[int, Scores]) -> Trend:
    """Return the trend over a knob's values, in their order."""
    values, scores = list(points), list(points.values())
    pairs = [(value, joint) for value, score in points.items() for joint in score.joint.values()]
    changes = [scores[-1].joint[name] - joint for name, joint in scores[0].joint.items() if name in scores[-1].joint]
    chance = random.Random("bootstrap over haystacks")
    means = sorted(sum(chance.choices(changes, k=len(changes))) / len(changes) for _ in range(RESAMPLES))
    return Trend(
        scores[0].retriever,
        rank_agreement(values, [score.pooled["joint"] or 0.0 for score in scores]).spearman,
        rank_agreement([value for value, _ in pairs], [joint for _, joint in pairs]).spearman,
        sum(changes) / len(changes),
        (means[int(0.025 * RESAMPLES)], means[int(0.975 * RESAMPLES) - 1]) if len(changes) > 1 else None,
    )


@dataclass(frozen=True, slots=True)
class Sweep:
    """The results of one knob: retriever -> value -> scores, and retriever -> trend."""

    knob: Knob
    points: Mapping[str, Mapping[int, Scores]]
    trends: Mapping[str, Trend]

    @property
    def holds(self) -> bool:
        """Whether the score certainly changes in the expected direction."""
        return self.trends[self.knob.retriever].holds(self.knob.rises)

    def to_json(self) -> dict[str, Any]:
        """Return the results as JSON."""
        points = [{"value": value, **asdict(scores)} for by_value in self.points.values() for value, scores in by_value.items()]
        return {
            **asdict(self.knob),
            "holds": self.holds,
            "points": points,
            "trends": [asdict(one) for one in self.trends.values()],
        }


def sweep(knob: Knob, setting: Setting, known: dict[str, dict[str, Scores]] | None = None) -> Sweep:
    """Measure each value of a knob. `known`: scores by difficulty that have already been measured; new ones are added."""
    kept = {} if known is None else known
    points: dict[str, dict[int, Scores]] = {name: {} for name in setting.retrievers}
    for value in knob.values:
        place = json.dumps(
            {"paraphrase": 1, "distractors": 0, "conflicts": 0, **setting.difficulty, knob.name: value}, sort_keys=True
        )
        if place not in kept:
            kept[place] = measure(setting, **{knob.name: value})
        for name, scores in kept[place].items():
            points[name][value] = scores
    return Sweep(knob, points, {name: trend(by_value) for name, by_value in points.items()})


def knob_table(one: Sweep) -> str:
    """Return the table of a knob, in Markdown."""
    heads = (
        "retriever",
        one.knob.name,
        "coverage",
        "citation precision",
        "citation recall",
        "joint",
        "stated",
        "haystacks",
        "insights",
    )
    lines = ["| " + " | ".join(heads) + " |", "|---|" + "--:|" * (len(heads) - 1)]
    for name, by_value in one.points.items():
        for value, scores in by_value.items():
            cells = [
                name,
                str(value),
                *(figure(scores, kind) for kind in (*FIGURES, "stated")),
                str(len(scores.joint)),
                str(scores.n_scored),
            ]
            lines.append("| " + " | ".join(cells) + " |")
    lines.append("")
    for name, found in one.trends.items():
        said = "as expected" if found.holds(one.knob.rises) else "NOT surely as expected"
        interval = "[{:+.1f}, {:+.1f}]".format(*(100 * end for end in found.change_ci)) if found.change_ci else "[-]"
        spearman = (
            f"Spearman {signed(found.spearman_of_values)} over values, {signed(found.spearman_of_haystacks)} over haystacks"
        )
        lines.append(f"{name}: joint {100 * found.change:+.1f} {interval}, {spearman}: {said}")
    way = "rise" if one.knob.rises else "fall"
    return "\n".join([f"## {one.knob.name}: the score is to {way} ({one.knob.retriever})", "", *lines, ""])


def figure(scores: Scores, name: str) -> str:
    """Return a score in percent, with its interval if there is one."""
    value, interval = scores.pooled[name], scores.ci.get(name)
    if value is None:
        return "-"
    return f"{100 * value:.1f}" + (f" [{100 * interval[0]:.1f}, {100 * interval[1]:.1f}]" if interval else "")


def signed(value: float | None) -> str:
    """Return a correlation as text, or a dash if there is none."""
    return "-" if value is None else f"{value:+.2f}"


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--knobs", nargs="+", choices=[knob.name for knob in KNOBS], default=[knob.name for knob in KNOBS])
    parser.add_argument("--domains", nargs="+", choices=domain_names(), default=list(domain_names()))
    parser.add_argument("--seeds", type=int, default=3, help="number of haystacks of each domain")
    parser.add_argument("--retrievers", nargs="+", default=list(Setting.retrievers))
    for name in ("subtopics", "insights", "documents", "words"):
        parser.add_argument(f"--{name}", type=int, default=getattr(Setting, name))
    parser.add_argument("--json", type=Path, help="the file for all figures")
    asked = parser.parse_args()
    shape = {name: getattr(asked, name) for name in ("subtopics", "insights", "documents", "words")}
    retrievers = tuple(dict.fromkeys([*(knob.retriever for knob in KNOBS if knob.name in asked.knobs), *asked.retrievers]))
    setting = replace(
        Setting(), domains=tuple(asked.domains), seeds=tuple(range(1, asked.seeds + 1)), retrievers=retrievers, **shape
    )
    began, known, sweeps = time.monotonic(), dict[str, dict[str, Scores]](), []
    for knob in KNOBS:
        if knob.name in asked.knobs:
            try:
                sweeps.append(sweep(knob, setting, known))
            except UserError as problem:
                parser.error(str(problem))
            print(knob_table(sweeps[-1]), flush=True)
    seconds = round(time.monotonic() - began, 1)
    print(f"{len(setting.domains)} domains x {len(setting.seeds)} seeds at each value, haystacks of {shape}, {seconds} s")
    if asked.json:
        report = {"setting": asdict(setting), "token_budget": setting.token_budget, "seconds": seconds}
        asked.json.write_text(json.dumps({**report, "knobs": [one.to_json() for one in sweeps]}, indent=1), encoding="utf-8")
    return 0 if all(one.holds for one in sweeps) else 1


if __name__ == "__main__":
    sys.exit(main())
