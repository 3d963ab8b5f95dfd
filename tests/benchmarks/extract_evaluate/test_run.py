"""Extract-then-Evaluate as a run: without a key, and with a provider that bills."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import polars as pl
import pytest
from simulated_provider import Simulated, in_thread

import summhay_ray
from summhay_ray import cli
from summhay_ray.benchmarks.extract_evaluate import read_pairs
from summhay_ray.benchmarks.extract_evaluate.workload import cut_as_released
from summhay_ray.comparison import SystemComparison
from summhay_ray.engine import SpecError
from summhay_ray.errors import UserError
from summhay_ray.judge import criteria
from summhay_ray.metrics import concordance
from summhay_ray.text import count_tokens

KEY_ENV = "EXTRACT_EVALUATE_KEY"
PRICE = {"input_per_mtok": 30.0, "output_per_mtok": 60.0}
FACTS = (
    "The cook hid the key in the bell.",
    "The ship left port at dawn with nine sailors.",
    "A storm broke the tall mast on Tuesday.",
    "The captain sold the cargo of salt for forty coins.",
    "Two whales followed the ship to the strait.",
    "The carpenter mended the hull with oak.",
)
SYSTEMS = {"true": (0, 1, 2), "half": (0, 1), "false": (0,)}


def pairs_file(folder: Path) -> Path:
    """Four sources of six facts in different order, with three summaries each: some facts, and filler that no source has."""
    pairs, documents = [], {}
    for turn in range(4):
        facts = [*FACTS[turn:], *FACTS[:turn]]
        documents[f"log-{turn}"] = {
            "source": " ".join(f"{fact} Nothing else was noted on day {n}." for n, fact in enumerate(facts))
        }
        for system, told in SYSTEMS.items():
            invented = ["Zebras painted a purple library quickly."] * (3 - len(told))
            summary = " ".join([facts[n] for n in told] + invented)
            scores = {"faithfulness": 100 * len(told) / 3}
            pairs.append(
                {"doc_id": f"log-{turn}", "system_id": system, "summary": summary, "reference": facts[0], "scores": scores}
            )
    path = folder / "logs.json"
    path.write_text(json.dumps({"dataset": "logs", "documents": documents, "pairs": pairs}))
    return path


def spec(folder: Path, **changes: Any) -> Path:
    fields = {
        "kind": "extract_evaluate",
        "pairs": [pairs_file(folder).name],
        "methods": ["lead", "rouge-1+2"],
        "budgets": [32, 64],
        "raters": ["offline/rater"],
        "metrics": ["rouge-1", "words"],
        "resamples": 100,
        "splits": 20,
        **changes,
    }
    path = folder / "spec.yaml"
    path.write_text(json.dumps(fields))
    return path


N_RATINGS = 12 * (2 + 2 * 2)


def rows(frame: pl.DataFrame, **of: Any) -> list[dict[str, Any]]:
    return frame.filter(*(pl.col(name) == value for name, value in of.items())).to_dicts()


def test_without_a_key(tmp_path: Path) -> None:
    path, store = spec(tmp_path), str(tmp_path / "store")
    found = summhay_ray.run(path, store=store, executor="inline")
    assert (found.status, found.cells["done"]) == ("done", N_RATINGS)
    extracts = summhay_ray.table(found.run, "extracts", store)
    assert extracts.height == 12 * 4 and (extracts["tokens"] <= extracts["budget"]).all()
    [full] = rows(found.scores["correlations"], method="full")
    assert full["pearson"] > 0.95 and (full["n"], full["n_expected"], full["documents"]) == (12, 12, 4)
    # Four documents: an interval needs six.
    assert (full["pearson_low"], full["pearson_high"]) == (None, None)
    small = {row["method"]: row for row in rows(found.scores["correlations"], budget=32)}
    assert small["rouge-1+2"]["usd"] < full["usd"]
    # The paper's price: $30 per million tokens of the mean prompt.
    assert full["usd"] == pytest.approx(full["prompt_tokens"] * 30 / 1e6)
    choices = {row["choice"]: row for row in found.scores["choices"].to_dicts()}
    assert choices["best"]["budget"] and choices["best, held out"]["share"] > 0
    assert choices["full"]["pearson"] == full["pearson"]
    differences = rows(found.scores["differences"], method="rouge-1+2", budget=64, against="full")[0]
    [cell] = rows(found.scores["correlations"], method="rouge-1+2", budget=64)
    assert differences["pearson"] == pytest.approx(cell["pearson"] - full["pearson"])
    [by_system] = rows(found.scores["levels"], method="full", level="between systems")
    assert by_system["n"] == 3 and by_system["spearman"] == 1
    [by_words] = rows(found.scores["metrics"], metric="words")
    assert by_words["n"] == 12 and found.scores["metrics"].height == 2
    shares = found.scores["positions"].group_by("method").agg(pl.col("share").sum())["share"].to_list()
    assert shares == [pytest.approx(1.0)] * 2
    titles = [section.title for section in found.sections]
    assert found.to_json()["criteria"] == {
        "faithfulness": {"scale": [1, 7], "version": 1, "prompt_hash": criteria()["faithfulness"].prompt_hash}
    }
    curve = next(one.table for one in found.sections if one.title.startswith("Pearson by length"))
    assert curve is not None and set(curve.filter(pl.col("method") == "full")["pearson"]) == {full["pearson"]}
    assert titles[0] == "Full document or extract" and "Lengths of the extracts" in titles
    again = summhay_ray.run(path, store=store, executor="inline")
    assert (again.run, again.calls["made"]) == (found.run, 0)
    explained = summhay_ray.explain(found.run, "logs/log-2/half/rouge-1+2@64/faithfulness/offline/rater", store)
    [row] = explained["rows"]["extract_ratings"]
    [call] = explained["calls"]
    assert (
        row["key"] == call["key"] and f"<summary>\n{FACTS[2]}" in call["prompt"] and "whole number from 1 to 7" in call["prompt"]
    )


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[Simulated]:
    monkeypatch.setenv(KEY_ENV, "sk-rater")

    def answer(model: str, prompt: str) -> str:
        if "Zebras" not in prompt:
            return "6"
        return "hm" if model.endswith("vague") else "2"

    with in_thread(answer, input_price=30.0, cached_price=30.0, output_price=60.0) as found:
        yield found


def paid(provider: Simulated, model: str, **more: Any) -> dict[str, Any]:
    return {"model": model, "api_base": provider.base, "api_key_env": KEY_ENV, "price": PRICE, **more}


def test_paid_to_the_micro_dollar_within_the_budget_and_once(tmp_path: Path, provider: Simulated) -> None:
    path, store = spec(tmp_path, raters=[paid(provider, "openai/keen")], methods=["lead"], budgets=[32]), str(tmp_path / "store")
    planned = summhay_ray.plan(path, store)
    assert planned.cells == 12 * (2 + 1) and provider.stats()["served"] == 0
    expected = planned.usd["expected"]
    stopped = summhay_ray.run(path, store=store, executor="inline", budget=expected / 3)
    assert stopped.status == "budget" and 0 < stopped.usd["spent"] <= expected / 3
    done = summhay_ray.run(path, store=store, executor="inline", budget=1)
    assert done.status == "done" and round(done.usd["spent"] * 1e6) == round(expected * 1e6)
    assert provider.stats()["served"] == planned.stages[0].calls
    assert summhay_ray.run(path, store=store, executor="inline").calls["made"] == 0
    # The amount paid equals the cost of a pair.
    [full] = rows(done.scores["correlations"], method="full")
    assert full["usd"] == pytest.approx((full["prompt_tokens"] * 30 + 60) / 1e6, rel=0.05)


def test_what_cannot_be_read_is_a_failure_and_0_as_released(tmp_path: Path, provider: Simulated) -> None:
    path, store = spec(tmp_path, raters=[paid(provider, "openai/vague")], budgets=[64], methods=["lead"]), str(tmp_path / "store")
    found = summhay_ray.run(path, store=store, executor="inline")
    assert found.status == "partial" and found.cells["failed"] == 8 * 3
    failures = summhay_ray.table(found.run, "failures", store)
    assert set(failures["error"]) == {"no_rating"} and set(failures["kind"]) == {"malformed"}
    [full] = rows(found.scores["correlations"], method="full")
    assert (full["n"], full["n_expected"], full["pearson"], full["reason"]) == (
        4,
        12,
        None,
        "all ratings and scores of people are equal",
    )
    [released] = rows(summhay_ray.score(found.run, store, compat="release").scores["correlations"], method="full")
    # Four of twelve are rated, with 6, including all true summaries: deviations 4, -2, -2 with scores 1, 0, -1 (thirds of 100).
    assert released["n"] == 12 and released["pearson"] == pytest.approx((4 + 2) / (24 * 2) ** 0.5)


def test_a_panel_of_raters_has_their_mean_and_keeps_each_rating(tmp_path: Path, provider: Simulated) -> None:
    paid_one = paid(provider, "openai/keen")
    raters = [paid_one, {**paid_one, "model": "panel(openai/keen,offline)"}]
    path, store = spec(tmp_path, raters=raters, methods=[], full=["whole"], metrics=[]), str(tmp_path / "store")
    ahead = summhay_ray.plan(path, store)
    result = summhay_ray.run(path, store, executor="inline")
    assert result.status == "done" and result.calls["made"] == sum(stage.calls for stage in ahead.stages)
    made = provider.stats()["served"]
    ratings = summhay_ray.table(result.run, "extract_ratings", store)
    one, panel = (ratings.filter(pl.col("rater") == name) for name in ("openai/keen", "panel(openai/keen,offline)"))
    assert one.height == panel.height == made == 12, "both share the paid member's answers"
    assert panel["how"].unique().to_list() == ["panel"]
    for mine, both in zip(one.iter_rows(named=True), panel.iter_rows(named=True), strict=True):
        assert both["votes"][0] == mine["rating"] and both["rating"] == pytest.approx(sum(both["votes"]) / 2)


class NotANumber:
    """A user's metric that returns NaN for some summaries."""

    name = ""
    sizes: ClassVar[list[int]] = []

    def score(self, texts: Sequence[Any]) -> list[float]:
        self.sizes.append(len(texts))
        return [float("nan") if "Zebras" in text.summary else 1.0 for text in texts]


def test_nan_of_a_metric_is_never_a_score(tmp_path: Path) -> None:
    path, store = spec(tmp_path, methods=[], full=["whole"], metrics=[f"{__name__}:NotANumber"]), str(tmp_path / "store")
    found = summhay_ray.run(path, store=store, executor="inline")
    # This run is so small that all texts are one batch.
    assert NotANumber.sizes == [12]
    scores = summhay_ray.table(found.run, "metric_scores", store)["score"].to_list()
    assert sorted(scores, key=str) == [1.0] * 4 + [None] * 8
    [row] = found.scores["metrics"].to_dicts()
    assert (row["n"], row["n_expected"], row["pearson"]) == (4, 12, None)


def test_a_criterion_can_be_for_some_datasets(tmp_path: Path) -> None:
    logs = pairs_file(tmp_path)
    (tmp_path / "more.json").write_text(logs.read_text().replace('"logs"', '"more"').replace("faithfulness", "relevance"))
    criteria: list[Any] = [{"name": "faithfulness", "datasets": ["logs"]}, {"name": "relevance", "datasets": ["more"]}]
    common = {"methods": [], "full": ["whole"], "metrics": [], "pairs": ["logs.json", "more.json"]}
    found = summhay_ray.run(spec(tmp_path, criteria=criteria, **common), store=str(tmp_path / "store"), executor="inline")
    ratings = summhay_ray.table(found.run, "extract_ratings", str(tmp_path / "store"))
    assert set(ratings.select("dataset", "criterion").rows()) == {("logs", "faithfulness"), ("more", "relevance")}
    assert (found.status, ratings.height) == ("done", 24)
    criteria[0]["datasets"] = ["log"]
    with pytest.raises(UserError, match="criteria: faithfulness: no dataset of the pairs is named 'log'"):
        summhay_ray.plan(spec(tmp_path, criteria=criteria, **common), store=str(tmp_path / "store"))


def test_samples_and_log_probabilities(tmp_path: Path, provider: Simulated) -> None:
    raters = [
        paid(provider, "openai/keen", name="sampled", samples=5, temperature=1),
        paid(provider, "openai/keen", name="weighed", logprobs=10, role="system"),
    ]
    path, store = spec(tmp_path, raters=raters, methods=["lead"], budgets=[32], full=["whole"]), str(tmp_path / "store")
    planned = summhay_ray.plan(path, store)
    assert [(one.calls, one.output_tokens) for one in planned.stages] == [(48, 24 * 5 + 24)]
    found = summhay_ray.run(path, store=store, executor="inline")
    ratings = summhay_ray.table(found.run, "extract_ratings", store)
    sampled, weighed = (ratings.filter(pl.col("rater") == name) for name in ("sampled", "weighed"))
    assert set(sampled["how"]) == {"samples"} and set(sampled["n_asked"]) == {5} and set(sampled["rating"]) == {2.0, 6.0}
    assert sampled["votes"].to_list()[0] == [sampled["rating"][0]] * 5
    assert set(weighed["how"]) == {"logprobs"} and ((weighed["mass"] > 0.4) & (weighed["mass"] <= 1)).all()
    assert round(found.usd["spent"] * 1e6) == round(planned.usd["expected"] * 1e6)


def test_the_lever_spares_what_the_plan_says(tmp_path: Path, provider: Simulated) -> None:
    lever = {"extract": {"method": "rouge-1+2", "tokens": 32}}
    whole = spec(tmp_path, raters=[paid(provider, "openai/keen")], methods=[], full=["whole"])
    store = str(tmp_path / "store")
    full = summhay_ray.plan(whole, store)
    path = spec(tmp_path, raters=[paid(provider, "openai/keen", **lever)], methods=[], full=["whole"])
    found = summhay_ray.plan(path, store)
    assert found.run != full.run and full.stages[0].spared_tokens == 0
    spared = found.stages[0].spared_micros
    assert round(full.usd["expected"] * 1e6) - round(found.usd["expected"] * 1e6) == pytest.approx(spared, abs=12) and spared > 0
    assert found.to_json()["stages"][0]["spared_tokens"] == full.stages[0].input_tokens - found.stages[0].input_tokens
    done = summhay_ray.run(path, store=store, executor="inline")
    assert round(done.usd["spent"] * 1e6) == round(found.usd["expected"] * 1e6)


def test_compare_shows_agreement_and_dollars(tmp_path: Path, provider: Simulated, capsys: pytest.CaptureFixture[str]) -> None:
    raters = [
        paid(provider, "openai/keen"),
        paid(provider, "openai/keen", name="reduced", extract={"tokens": 24}),
        paid(provider, "openai/vague", name="vague"),
    ]
    store = str(tmp_path / "store")
    found = summhay_ray.run(
        spec(tmp_path, raters=raters, methods=["lead"], budgets=[32], full=["whole"]), store=store, executor="inline"
    )
    one = summhay_ray.compare(found.run, ["openai/keen", "reduced"], store).to_json()
    assert one["agreement"] == {"n": 24, "pearson": 1.0, "concordance": 1.0, "same": 1.0, "difference": 0.0}
    assert one["usd"][1] < one["usd"][0] and one["input_tokens"][1] < one["input_tokens"][0] and one["n_scored"] == [24, 24]
    partly = summhay_ray.compare(found.run, ["openai/keen", "vague"], store).to_json()
    assert partly["n_scored"] == [24, 8] and partly["agreement"]["n"] == 8, "what only one could rate counts for neither"
    with pytest.raises(SystemExit) as stop:
        cli.main(["compare", found.run, "--store", store])
    assert stop.value.code == 0 and "Decision by " in capsys.readouterr().out
    with pytest.raises(SystemExit) as stop:
        cli.main(["compare", found.run, "--judges", "openai/keen", "reduced", "--store", store])
    assert stop.value.code == 0 and "Concordance" in capsys.readouterr().out
    # Two runs: the named raters, or the systems of the same name, query by query.
    path = spec(
        tmp_path, raters=[paid(provider, "openai/keen", extract={"tokens": 24})], methods=["lead"], budgets=[32], full=["whole"]
    )
    reduced_run = summhay_ray.run(path, store=store, executor="inline")
    two = summhay_ray.api.compare_systems(found.run, reduced_run.run, judges=["openai/keen"] * 2, store=store).to_json()
    assert two["judges"] == ["openai/keen"] * 2 and (two["run"], two["other_run"]) == (found.run, reduced_run.run)
    assert two["usd"] == one["usd"] and two["agreement"] == one["agreement"]
    with pytest.raises(SystemExit) as stop:
        cli.main(["compare", found.run, reduced_run.run, "--judges", "vague", "openai/keen", "--store", store])
    assert stop.value.code == 0 and f"vague of {found.run} and openai/keen of {reduced_run.run}" in capsys.readouterr().out
    same = summhay_ray.api.compare_systems(found.run, reduced_run.run, store=store)
    assert isinstance(same, SystemComparison)
    assert {*same.table["system_a"]} == {"lead@32_openai/keen", "full_openai/keen"}
    with pytest.raises(UserError, match="--judges A B"):
        summhay_ray.api.compare_systems(found.run, reduced_run.run, judges=["nobody", "openai/keen"], store=store)
    agreed = rows(found.scores["agreement"], rater="openai/keen", method="lead")
    assert agreed[0]["same"] == 1.0 and 0 < agreed[0]["spared"] < 1


def test_concordance_by_hand() -> None:
    # Whole numbers: 1 minus the mean squared difference (1 of 4 pairs by 1), over that of chance (both spread .25, means .25
    # apart).
    first, other = [1.0, 2.0, 1.0, 2.0], [1.0, 2.0, 2.0, 2.0]
    spread = 0.25 + 0.1875
    assert concordance(first, other) == pytest.approx(1 - 0.25 / (spread + 0.25**2))
    assert concordance([3.0, 3.0], [3.0, 3.0]) is None and concordance([], []) is None


def test_an_extract_in_which_no_sentence_fits_is_not_rated(tmp_path: Path, provider: Simulated) -> None:
    path, store = (
        spec(tmp_path, raters=[paid(provider, "openai/keen")], budgets=[5, 64], methods=["lead"], full=["whole"]),
        str(tmp_path / "store"),
    )
    planned = summhay_ray.plan(path, store)
    told = "no sentence of the source fits into 5 tokens; take a larger budget"
    assert f"12 ratings will fail: empty_extract: {told}" in planned.warnings
    found = summhay_ray.run(path, store=store, executor="inline")
    failures = summhay_ray.table(found.run, "failures", store)
    assert failures.select("error", "message").unique().rows() == [("empty_extract", told)] and failures.height == 12
    [row] = rows(found.scores["correlations"], budget=5)
    assert (row["n"], row["n_expected"]) == (0, 12)
    assert provider.stats()["served"] == planned.stages[0].calls
    released = spec(tmp_path, raters=["offline/rater"], budgets=[5], methods=["lead"], compat="release")
    assert summhay_ray.run(released, store=store, executor="inline").status == "done", "as the paper's code"


def test_pairs_that_nobody_scored_are_not_expected_to_correlate(tmp_path: Path) -> None:
    path = spec(tmp_path, methods=[], full=["whole"])
    told = json.loads((tmp_path / "logs.json").read_text())
    for pair in told["pairs"][:5]:
        pair.pop("scores")
    (tmp_path / "logs.json").write_text(json.dumps(told))
    found = summhay_ray.run(path, store=str(tmp_path / "store"), executor="inline")
    [full] = rows(found.scores["correlations"], method="full")
    assert (full["n"], full["n_expected"]) == (7, 7)
    [within] = rows(found.scores["levels"], level="within documents")
    # One of four sources is not scored at all, and one has a single scored summary.
    assert (within["n"], within["n_expected"]) == (2, 3)


def test_full_as_released_is_cut_by_characters() -> None:
    source, template = "word " * 9000, criteria()["relevance"].prompt
    cut = cut_as_released(source, "short", template, 8000)
    room = 8000 - count_tokens(template) - count_tokens("short") - 1
    assert cut == source[:room] and count_tokens(cut) < 8000 / 4
    assert cut_as_released("few words", "short", template, 8000) == "few words"


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"methods": ["rouge-9"]}, "methods: no extraction method is named 'rouge-9'; did you mean"),
        ({"budgets": [0]}, "budgets: a budget is 0; expected at least 1 token"),
        ({"criteria": ["style"]}, "criteria[0]: 'style' is not a criterion that has a prompt here"),
        ({"raters": [{"model": "offline/rater", "samples": 3}]}, "samples above 1 at temperature 0 are one answer"),
        ({"metrics": ["bleurt"]}, "no metric is named 'bleurt'"),
        ({"methods": [], "full": []}, "name at least one"),
        ({"raters": [{"model": "offline/rater", "extract": {"method": "none"}}]}, "no extraction method is named 'none'"),
        ({"pairs": ["nowhere.json"]}, "no file 'nowhere.json'"),
        ({"pairs": ["sample/news"]}, "pairs: no sample is named 'sample/news'; there is sample/pairs"),
        ({"methods": ["lead", "lead"]}, "methods: 'lead' is listed twice"),
        ({"methods": ["lead"], "models": {"lead": "folder"}}, "models: method lead reads no model"),
        (
            {
                "criteria": [{"name": "relevance", "scale": [1, 10], "prompt": "mine.txt"}],
                "raters": [{"model": "offline/rater", "logprobs": 5}],
            },
            "criteria: relevance: the scale is 1 to 10; logprobs rate by one token, up to 9",
        ),
    ],
)
def test_bad_specs_are_refused_in_one_line(
    tmp_path: Path, fields: dict[str, Any], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.main(["plan", str(spec(tmp_path, **fields)), "--store", str(tmp_path / "store")])
    said = capsys.readouterr().err.strip()
    assert stop.value.code == 2 and told in said and "\n" not in said


ONE = {"doc_id": "d", "system_id": "s", "source": "A.", "system_output": "B."}


@pytest.mark.parametrize(
    "text",
    [
        json.dumps([ONE]),
        json.dumps(ONE) + "\n" + json.dumps({**ONE, "system_id": "t"}) + "\n",
        json.dumps({"documents": {"d": {"source": "A."}}, "pairs": [{"doc_id": "d", "system_id": "s", "summary": "B."}]}),
    ],
)
def test_pairs_in_three_forms(text: str) -> None:
    pair = read_pairs(text, "folder/mine.json")[0]
    assert (pair.id, pair.source, pair.summary, pair.reference, pair.scores) == ("mine/d/s", "A.", "B.", "", {})
    scored = read_pairs(json.dumps([{**ONE, "scores": {"factual_consistency": 0.5, "relevance": None}}]), "mine.json")[0]
    assert scored.human("consistency") == 0.5 and scored.human("relevance") is None


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[", "mine.json: is not JSON"),
        ("[]", "mine.json: has no pairs"),
        ("{}", "mine.json: expected a list of pairs"),
        ('[{"doc_id": "d"}]', "mine.json: pair 1: system_id: field required"),
        ('[{"doc_id": "d", "system_id": "s", "source": 3}]', "mine.json: pair 1: source: input should be a valid string"),
        (json.dumps([ONE, {**ONE, "scores": {"f": "high"}}]), "mine.json: pair 2: scores.f: input should be a valid number"),
        (json.dumps([{**ONE, "scores": {"f": float("nan")}}]), "scores.f: input should be a finite number"),
        (json.dumps(ONE) + "\n{\n", "mine.json:2: is no JSON"),
        (json.dumps([{**ONE, "dataset": ["x"]}]), "pair 1: dataset: input should be a valid string"),
        (json.dumps([{**ONE, "reference": 0}]), "pair 1: reference: input should be a valid string"),
        (json.dumps([{**ONE, "source": " "}]), "pair 1: source: is blank"),
        (json.dumps([{**ONE, "system_output": ""}]), "pair 1: system_output: is blank"),
    ],
)
def test_pairs_that_are_none(text: str, told: str) -> None:
    with pytest.raises(SpecError, match=re.escape(told)):
        read_pairs(text, "mine.json")
