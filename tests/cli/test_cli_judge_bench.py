"""`summhay judge-bench` and `summhay score --bias` on the command line."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from annotated import summary, write
from commands import Said, released, write_json

pytestmark = pytest.mark.core

Cli = Callable[..., Said]
GPT = "predictions_prompted_gpt-4o"
PEOPLE = [(1.0, 1), (0.5, 2), (0.0, None)]
KEYS = {"judge", "correlation", "correlation_ci", "linking_accuracy", "linking_n", "usd", "usd_per_200", "bias", "bias_mean"}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    kind = [(1.0, 1), (1.0, 2), (0.5, 1)]
    return write(tmp_path / "annotations.json", [summary(PEOPLE, {GPT: kind}), summary(PEOPLE[::-1], {GPT: kind[::-1]})])


def test_the_document_is_the_contract(cli: Cli, file: Path, tmp_path: Path) -> None:
    names = [f"stored/{GPT}", "offline", f"blend(stored/{GPT},offline)", f"cascade(offline,stored/{GPT},0.1)"]
    judges = [argument for name in names for argument in ("--judge", name)]
    said = cli("judge-bench", file, *judges, "--store", tmp_path / "store", "--json")
    assert said.code == 0
    document = said.document
    assert (document["n_summaries"], document["n_insights"]) == (2, 6)
    assert [row["judge"] for row in document["judges"]] == names
    assert all(row.keys() >= KEYS | {"length_score_corr", "length_delta_corr"} for row in document["judges"])
    # GPT-4o gives 0.5 more for two of three insights: a third of a point per summary.
    assert document["judges"][0]["bias"] == {"gpt-4o": pytest.approx(1 / 3)}
    assert not (tmp_path / "store").exists()


def test_a_person_sees_two_tables(cli: Cli, file: Path) -> None:
    said = cli("judge-bench", file)
    assert said.code == 0
    assert "Agreement with people" in said.out and "Bias against people" in said.out
    assert f"stored/{GPT}" in said.out and "offline/judge" in said.out and "33.3" in said.out
    assert "6 insights in 2 summaries; 0 calls made" in said.out


def test_missing_judgments_are_reported_with_exit_code_4(cli: Cli, tmp_path: Path) -> None:
    path = write(tmp_path / "annotations.json", [summary(PEOPLE, {GPT: PEOPLE}), summary(PEOPLE)])
    said = cli("judge-bench", path, "--judge", f"stored/{GPT}", "--json")
    assert said.code == 4
    assert said.err == f"stored/{GPT}: judgments are missing: 3 missing_prediction\n"
    [row] = said.document["judges"]
    assert (row["n_scored"], row["n_expected"], row["failures"]) == (3, 6, {"missing_prediction": 3})


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--judge", "stored/predictions_prompted_gpt4o"], f"did you mean '{GPT}'?"),
        (["--judge", "blend(offline)"], "blend takes two judges"),
        (["--judge", "cascade(offline,stored/x,2)"], "the share is"),
        (["--judge", ""], "a judge's name is empty"),
        (["--spec", "none.yaml"], "no such file"),
        (["--budget", "-1"], "--budget"),
        (["--held-out"], "has only one topic"),
    ],
)
def test_what_cannot_be_measured_is_refused_in_one_line(cli: Cli, file: Path, arguments: list[str], told: str) -> None:
    assert told in cli("judge-bench", file, *arguments).refusal


def test_a_file_that_is_none_is_refused_in_one_line(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "text.json").write_text("not json\x1b[2J", encoding="utf-8")
    assert "is not an annotation file" in cli("judge-bench", tmp_path / "text.json").refusal
    assert "no such file" in cli("judge-bench", tmp_path / "missing.json").refusal
    assert "cannot be read" in cli("judge-bench", tmp_path).refusal


def test_where_biases_are_to_be_written_is_looked_at_before_anything_is_asked(
    cli: Cli, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("summhay_ray.api.judge_bench", lambda *_, **__: pytest.fail("asked"))
    assert "is a folder; name a file in it" in cli("judge-bench", file, "--out", tmp_path).refusal
    assert "its folder is not there" in cli("judge-bench", file, "--out", tmp_path / "none" / "bias.json").refusal
    assert "those are the annotations themselves" in cli("judge-bench", file, "--out", file).refusal


def test_figures_are_shown_before_biases_are_written(
    cli: Cli, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, written = tmp_path / "bias.json", Path.write_text

    def full(path: Path, *arguments: Any, **options: Any) -> int:
        if path == out:
            raise OSError(28, "No space left on device")
        return written(path, *arguments, **options)

    monkeypatch.setattr(Path, "write_text", full)
    said = cli("judge-bench", file, "--out", out)
    assert said.code == 2 and "Agreement with people" in said.out
    assert (
        said.err == f"summhay: --out {out}: cannot be written (No space left on device); nothing is asked again for another one\n"
    )


def test_a_file_that_the_free_judge_was_fitted_on_is_reported(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    topics = {hashlib.sha256(topic.encode()).hexdigest() for topic in ("ferries", "trams")}
    monkeypatch.setattr("summhay_ray.cli.judge.FITTED", topics)
    rows = [summary(PEOPLE * 7, {GPT: PEOPLE * 7}, topic=topic) for topic in ("ferries", "trams") for _ in range(2)]
    path = write(tmp_path / "fitted.json", rows)
    told = "offline was fitted on the topics of this very file: its figures and bias here are too good; give --held-out\n"
    spec = tmp_path / "judges.yaml"
    spec.write_text("judges: [{model: offline/judge, strategy: per_insight}]", encoding="utf-8")
    asked = ["--spec", str(spec), "--judge", "offline/judge"]
    for judges in ([], ["--judge", "offline"], asked, ["--judge", f"blend(stored/{GPT},offline)"]):
        assert cli("judge-bench", path, *judges, "--json").err == told
    assert cli("judge-bench", path, "--judge", f"stored/{GPT}").err == ""
    assert (
        cli("judge-bench", write(tmp_path / "more.json", [*rows, summary(PEOPLE, topic="trains")]), "--judge", "offline").err
        == ""
    )
    assert told not in cli("judge-bench", path, "--judge", "offline", "--held-out").err


@pytest.fixture
def imported(cli: Cli, tmp_path: Path) -> Callable[..., Said]:
    """`imported(*options)`: `summhay score` of a released file that GPT-4o judged."""
    store = tmp_path / "store"
    run = cli("import", write_json(tmp_path / "topic.json", released()), "--store", store, "--json").document["run"]
    return lambda *options: cli("score", run, "--store", store, *options)


def test_scores_stand_corrected_beside_the_raw_ones(imported: Callable[..., Said]) -> None:
    gpt = next(one for one in imported("--json").document["systems"] if one["system"] == "gpt-4o")
    # Full, partial and no coverage of three insights.
    assert gpt["coverage"] == pytest.approx((1 + 0.5 + 0) / 3)
    assert 0.3 < gpt["coverage_corrected"] < 0.5
    assert gpt["joint_corrected"] == pytest.approx(gpt["joint"] * gpt["coverage_corrected"] / gpt["coverage"])
    # 0.5 minus 0.096, the bias of GPT-4o as measured on the release's own predictions.
    shown = imported("--all").out
    assert "Corrected for the judge's bias" in shown and "40.4" in shown
    assert "Results, raw (bias +9.6 ±4.6 points), judged by released" in shown
    assert gpt["bias"] == {
        "judge": f"stored/{GPT}",
        "mean": pytest.approx(0.096, abs=1e-3),
        "se": pytest.approx(0.0235, abs=1e-3),
        "source": "144 annotated summaries of judge_annotations.json",
    }


def test_ones_own_measurement_comes_before_ours(imported: Callable[..., Said], cli: Cli, file: Path, tmp_path: Path) -> None:
    out = tmp_path / "bias.json"
    assert cli("judge-bench", file, "--judge", f"stored/{GPT}", "--out", out).code == 0
    content = json.loads(out.read_text(encoding="utf-8"))
    [entry] = content["judges"]
    assert entry["mean"] == pytest.approx(1 / 3, abs=1e-5) and "released" in entry["names"]
    raw = imported("--json").document["systems"]
    own = imported("--json", "--bias", out).document["systems"]
    gpt = next(one for one in own if one["system"] == "gpt-4o")
    assert gpt["coverage_corrected"] == pytest.approx(0.5 - entry["mean"])
    plain = ("coverage", "citation", "joint", "n_scored")
    assert [[one[name] for name in plain] for one in own] == [[one[name] for name in plain] for one in raw]
    assert "cannot be read" in imported("--bias", tmp_path / "missing.json").refusal


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("text", "it is not JSON"),
        ("{}", "it has no list of judges"),
        pytest.param("[]", "it has no list of judges", marks=pytest.mark.soak),
        pytest.param(
            '{"judges": [{"judge": "a", "correlation": 0.7}]}', "it is what judge-bench --json says", marks=pytest.mark.soak
        ),
        pytest.param('{"judges": [{"mean": 0.1}]}', "judges[0] has no name", marks=pytest.mark.soak),
        ('{"judges": [{"judge": "a", "mean": "0.1"}]}', "judges[0], a: mean is missing or not a number"),
        pytest.param(
            '{"judges": [{"judge": "a", "mean": 0.1, "se": 0.1, "n_insights": 3}]}',
            "judges[0], a: n_summaries is missing or not a number",
            marks=pytest.mark.soak,
        ),
        pytest.param(
            '{"judges": [{"judge": "a", "mean": 0.1, "se": 0.1, "n_insights": 3, "n_summaries": 1, "names": 3}]}',
            "judges[0], a: names is not a list",
            marks=pytest.mark.soak,
        ),
        (
            '{"judges": [{"judge": "a", "mean": 0.1, "se": 0.1, "n_insights": 3, "n_summaries": 1, "sd": 2}]}',
            "judges[0], a, has an unknown field 'sd'",
        ),
    ],
)
def test_a_file_that_holds_no_biases_is_refused_in_words(
    imported: Callable[..., Said], tmp_path: Path, text: str, told: str
) -> None:
    path = tmp_path / "bias.json"
    path.write_text(text, encoding="utf-8")
    assert imported("--bias", path).refusal == (
        f"bias.json holds no measured biases: {told}; give one that judge-bench --out wrote"
    )
