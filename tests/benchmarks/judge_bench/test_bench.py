"""`judge-bench` over real HTTP and over stored predictions: composed names, money, the log, and a user's own judge."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from annotated import LABELS, TOLD, summary, write
from simulated_provider import KEY, Simulated, in_thread

from summhay_ray import api, plugins
from summhay_ray.benchmarks.judge_bench import BenchResult, BenchRow
from summhay_ray.engine import SpecError
from summhay_ray.store import Store

pytestmark = pytest.mark.core

KEY_ENV = "BENCH_KEY"
PRICE = {"input_per_mtok": 2.5, "output_per_mtok": 10.0}
GPT, OTHER = "predictions_prompted_gpt-4o", "predictions_prompted_gpt3.5"
PEOPLE = [[(1.0, 1), (0.5, 2), (0.0, None)], [(0.0, None), (1.0, 2), (0.5, 1)]]
EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "word_judge.py"


def annotated(folder: Path) -> Path:
    """Two summaries of three insights. GPT-4o agrees with people; the other judge says that the first bullet covers
    everything."""
    opus: dict[str, Any] = {
        "topic": "piers",
        "summkey": "summary_subtopic_claude3-opus",
        "summary": ["In March there was ice [3].", TOLD[1]],
    }
    rows = [
        summary(PEOPLE[0], {GPT: PEOPLE[0], OTHER: [(1.0, 1)] * 3}),
        summary(PEOPLE[1], {GPT: PEOPLE[1], OTHER: [(1.0, 1)] * 3}, **opus),
    ]
    return write(folder / "annotations.json", rows)


@dataclass
class Room:
    """An annotation file, a store and, for paid judges, a provider and a spec with its endpoint."""

    folder: Path
    provider: Simulated | None = None

    @property
    def store(self) -> Store:
        return Store(str(self.folder / "store"))

    def bench(self, *names: str, budget: float | None = None, spec: Path | None = None, file: Path | None = None) -> BenchResult:
        path = None if spec is None else str(spec)
        return api.judge_bench(file or annotated(self.folder), names, self.store.uri, budget, spec=path)

    def one(self, name: str) -> BenchRow:
        [row] = self.bench(name).judges
        return row

    def reach(self) -> dict[str, Any]:
        assert self.provider is not None
        return {"api_base": self.provider.base, "api_key_env": KEY_ENV, "price": PRICE}

    def module(self, monkeypatch: pytest.MonkeyPatch, name: str, code: str) -> None:
        """The user's own module, with this code from now on."""
        (self.folder / f"{name}.py").write_text(code, encoding="utf-8")
        monkeypatch.syspath_prepend(str(self.folder))
        monkeypatch.delitem(sys.modules, name, raising=False)
        plugins.code_identity.cache_clear()

    def spec(self, *judges: dict[str, Any], **fields: Any) -> Path:
        known = self.reach()
        path = self.folder / "judges.yaml"
        path.write_text(yaml.safe_dump({"judges": [{**known, **one} for one in judges], **fields}), encoding="utf-8")
        return path


def billed(room: Room) -> float:
    """Dollars that the provider has billed."""
    assert room.provider is not None
    return float(room.provider.stats()["micros"]) / 1e6


@pytest.fixture
def room(tmp_path: Path) -> Room:
    return Room(tmp_path)


def full(model: str, prompt: str) -> str:
    """An answer to any judge's prompt: everything is covered by the first bullet."""
    ids = re.findall(r'"insight_id": (\d+), "text"', prompt.rpartition("Reference Insights:")[2])
    if "Reference Insights:" in prompt:
        return json.dumps({"judgments": [{"insight_id": int(one), "coverage": LABELS[1.0], "bullet_id": 1} for one in ids]})
    return json.dumps({"coverage": LABELS[1.0], "bullet_id": 1})


@pytest.fixture
def serving(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Room]]:
    """`serving(answer)` returns a room whose provider gives this answer."""
    monkeypatch.setenv(KEY_ENV, KEY)
    open_now = []

    def start(answer: Callable[[str, str], str] = full, **settings: Any) -> Room:
        provider = in_thread(answer, input_price=2.5, output_price=10.0, **settings)
        open_now.append(provider)
        return Room(tmp_path, provider.__enter__())

    yield start
    for provider in open_now:
        provider.__exit__(None, None, None)


def test_without_names_the_files_own_judges_and_the_free_one(room: Room) -> None:
    result = room.bench()
    assert [row.judge for row in result.judges] == [f"stored/{GPT}", f"stored/{OTHER}", "offline/judge"]
    assert (result.n_summaries, result.n_insights, result.status) == (2, 6, "done")
    gpt, other, offline = result.judges
    assert (gpt.figures.correlation, gpt.figures.linking_accuracy, gpt.figures.linking_n) == (pytest.approx(1), 1.0, 4)
    assert gpt.figures.bias == {"claude3-opus": 0.0, "gpt-4o": 0.0}
    # People's coverage is 1.5 / 3 in both; full coverage of everything is 0.5 too much.
    assert other.figures.bias == {"claude3-opus": 0.5, "gpt-4o": 0.5}
    assert (other.figures.linking_accuracy, other.figures.linking_n) == (0.5, 4)
    assert (gpt.usd_source, offline.usd_source, offline.usd) == ("estimated", "free", 0.0)
    assert gpt.usd is not None and gpt.usd_per_200 == pytest.approx(gpt.usd * 100)
    assert not (room.folder / "store").exists()


@pytest.mark.parametrize("name", ["openai/gpt-4o", "gpt-4o"])
def test_a_model_without_its_key_is_refused_before_any_call(name: str, room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(SpecError, match="OPENAI_API_KEY is not set.*nothing was asked"):
        room.bench(name)
    assert not (room.folder / "store").exists()


def test_a_model_is_asked_once_and_found_in_the_log_after(serving: Callable[..., Room]) -> None:
    room = serving()
    spec = room.spec({"model": "openai/simulated"})
    first, second = (room.bench("openai/simulated", spec=spec) for _ in range(2))
    assert first.calls == {"made": 6, "reused": 0, "failed": 0}
    assert second.calls == {"made": 0, "reused": 6, "failed": 0}
    assert first.judges == second.judges
    [row] = first.judges
    assert row.figures.bias == {"claude3-opus": 0.5, "gpt-4o": 0.5}
    assert (row.usd_source, row.failures) == ("spent", {})
    assert row.usd == pytest.approx(billed(room), abs=1e-5)
    assert first.usd_spent == second.usd_spent == row.usd


def test_what_two_judges_ask_alike_is_paid_once(serving: Callable[..., Room]) -> None:
    room = serving()
    names = ("openai/simulated", "blend(openai/simulated,offline)", "cascade(offline,openai/simulated,0.5)", "named")
    # The last run asks by another entry of the spec: the items differ, the requests are the same.
    spec = room.spec(
        {"model": "openai/simulated"},
        {"model": "openai/simulated", "strategy": "blend(openai/simulated,offline)", "name": "named"},
    )
    result = room.bench(*names, spec=spec)
    alone, blended, cascade, named = result.judges
    assert result.calls["made"] == 6 and room.provider is not None and room.provider.stats()["served"] == 6
    assert alone.usd == blended.usd == named.usd == result.usd_spent == pytest.approx(billed(room), abs=1e-5)
    assert cascade.usd == pytest.approx(result.usd_spent / 2, rel=0.1), "its own three calls"
    assert cascade.figures.n_scored == 6
    assert blended.figures == named.figures != alone.figures


def test_summaries_that_are_alike_are_paid_once(serving: Callable[..., Room]) -> None:
    room = serving()
    file = write(room.folder / "twice.json", [summary(PEOPLE[0]), summary(PEOPLE[1])])
    result = room.bench("openai/simulated", spec=room.spec({"model": "openai/simulated"}), file=file)
    assert result.calls["made"] == 3 and result.judges[0].figures.n_scored == 6
    assert result.judges[0].usd == result.usd_spent


def test_the_figures_of_the_released_annotations(summhay_data: Path, tmp_path: Path) -> None:
    path, store = summhay_data / "judge_annotations.json", Store(str(tmp_path))
    stored = f"stored/{GPT}"
    names = [stored, "offline", f"blend({stored},offline)", f"cascade(offline,{stored},0.1)"]
    names.append(f"panel({stored},stored/predictions_prompted_gemini-1.5-pro,offline)")
    [shipped] = api.judge_bench(path, ["offline"], store.uri).judges
    result = api.judge_bench(path, names, store.uri, held_out=True)
    assert (result.n_summaries, result.n_insights, result.held_out) == (144, 1094, True)
    figures = {row.judge: (row.figures.correlation, row.figures.linking_accuracy) for row in result.judges}
    expected = [(0.7302, 0.8853), (0.8022, 0.8975), (0.8136, 0.9000), (0.8026, 0.8897), (0.8138, 0.8973)]
    assert list(figures.values()) == [pytest.approx(one, abs=5e-5) for one in expected]
    assert (shipped.figures.correlation, shipped.figures.linking_accuracy) == pytest.approx((0.8085, 0.9), abs=5e-5)


def test_the_budget_stops_it_and_a_larger_one_goes_on(serving: Callable[..., Room]) -> None:
    room = serving()
    spec = room.spec({"model": "openai/simulated"}, limits={"openai/simulated": {"concurrency": 1}})
    # One call: about 900 tokens in and at most 200 out cost 0.0043 dollars.
    stopped = room.bench("openai/simulated", budget=0.006, spec=spec)
    assert stopped.status == "budget" and 0 < stopped.judges[0].failures["budget"] < 6
    assert 0 < stopped.usd_spent <= 0.006
    left = stopped.to_json()["left"]
    assert left["judgments"] == left["calls"] == stopped.judges[0].failures["budget"]
    done = room.bench("openai/simulated", budget=1, spec=spec)
    assert (done.status, done.left) == ("done", None)
    assert done.calls["made"] == 6 - stopped.calls["made"] == left["calls"]
    assert left["usd"]["min"] <= done.usd_spent - stopped.usd_spent <= left["usd"]["max"]
    assert left["usd"]["min"] < left["usd"]["expected"] < left["usd"]["max"]


def test_a_runs_spec_defines_how_judges_are_reached(serving: Callable[..., Room]) -> None:
    room = serving()
    run = {
        "haystacks": ["sample/news"],
        "retrievers": ["bm25"],
        "summarizers": [{"model": "openai/writer", **room.reach()}, "offline/lead"],
        "limits": {"openai/writer": {"rpm": 1}, "openai/simulated": {"concurrency": 1}},
        "stage_budgets_usd": {"summarize": 0.0, "judge": 1.0},
        "model_budgets_usd": {"openai/writer": 0.0},
    }
    result = room.bench("openai/simulated", spec=room.spec({"model": "openai/simulated"}, **run))
    assert (result.status, result.calls["made"], result.judges[0].usd) == ("done", 6, result.usd_spent)
    for field, told in (("limits", "openai/simulate"), ("stage_budgets_usd", "jugde")):
        wrong = {**run, field: {told: 1.0} if field == "stage_budgets_usd" else {told: {"rpm": 1}}}
        with pytest.raises(SpecError, match=f"{field}: .*{told}'"):
            room.bench("openai/simulated", spec=room.spec({"model": "openai/simulated"}, **wrong))


def test_a_bench_is_a_spec_of_its_kind_too(serving: Callable[..., Room]) -> None:
    room = serving()
    fields = {"kind": "judge_bench", "file": str(annotated(room.folder)), "names": [f"stored/{GPT}", "openai/simulated"]}
    result = api.run({**fields, "judges": [{"model": "openai/simulated", **room.reach()}]}, room.store.uri, executor="inline")
    assert (result.kind, result.status, result.cells["total"], result.calls["made"]) == ("judge_bench", "done", 6, 6)
    command = room.bench(f"stored/{GPT}", "openai/simulated", spec=room.spec({"model": "openai/simulated"}))
    assert result.to_json()["judges"] == command.to_json()["judges"] and command.calls["made"] == 0


def test_what_is_left_counts_calls_once_whichever_judge_lacks_them(serving: Callable[..., Room]) -> None:
    room = serving()
    spec = room.spec({"model": "openai/simulated"})
    result = room.bench("per_summary(openai/simulated)", "blend(per_summary(openai/simulated),offline)", budget=0, spec=spec)
    assert (result.status, result.calls["made"]) == ("budget", 0)
    assert result.left is not None and (result.left["judgments"], result.left["calls"]) == (12, 2)


def test_an_unreadable_answer_is_a_failure_and_never_no_coverage(serving: Callable[..., Room]) -> None:
    room = serving(lambda model, prompt: "I would say it is covered.")
    [row] = room.bench("openai/simulated", spec=room.spec({"model": "openai/simulated"})).judges
    assert row.failures == {"no_json": 6}
    assert (row.figures.n_scored, row.figures.correlation, row.usd_source) == (0, None, "spent")
    assert row.messages["no_json"] and row.usd == pytest.approx(billed(room), abs=1e-5)


def test_a_bench_that_asked_is_a_run_as_any_other(serving: Callable[..., Room]) -> None:
    room = serving(lambda model, prompt: full(model, prompt) if "ferry" in prompt.rpartition("Insight:")[2] else "Who knows.")
    result = room.bench("openai/simulated", spec=room.spec({"model": "openai/simulated"}))
    [row] = result.judges
    [run] = room.store.run_ids()
    told = api.status(run, room.store.uri)
    assert (told.kind, told.cells) == ("judge_bench", {"total": 6, "done": 2, "failed": 4})
    assert told.usd["spent"] == result.usd_spent
    failed = api.failures(run, room.store.uri)
    assert [one["judge"] for one in failed] == ["openai/simulated"] * 4 and row.failures == {"no_json": 4}
    shown = api.make_report(run, room.store.uri)
    agreement, bias = (shown.section(name).table for name in ("agreement", "bias"))
    assert agreement is not None and bias is not None
    assert agreement.select("n", "n_expected", "n of bullets").rows() == [(2, 6, row.figures.linking_n)]
    assert bias["mean"].to_list() == [row.figures.bias_mean]
    found = api.explain(run, failed[0]["cell_id"], room.store.uri)
    assert "Who knows." in json.dumps(found)
    with pytest.raises(SpecError, match="is of kind judge_bench and holds no summaries"):
        api.rejudge(run, "offline", room.store.uri)


def test_the_example_of_a_judge_works_as_it_stands(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    room.module(monkeypatch, "word_judge", EXAMPLE.read_text(encoding="utf-8"))
    row = room.one("word_judge:WordJudge")
    assert row.figures.n_scored == 6 and row.failures == {}
    assert row.usd_source == "free"
    assert not (room.folder / "store").exists()


BROKEN = """
from summhay_ray.judge import Verdict
from summhay_ray.outcome import Answer

class Raises:
    name = "raises"
    async def judge(self, insights, bullets, settings, ask):
        raise KeyError("mine")

class Odd:
    name = "odd"
    async def judge(self, insights, bullets, settings, ask):
        return [Answer(Verdict("MAYBE", "1")) for _ in insights]

class Absent:
    name = "absent"
    async def judge(self, insights, bullets, settings, ask):
        return [Answer(Verdict("FULL_COVERAGE", "99")) for _ in insights]

class Sure:
    name = "sure"
    async def judge(self, insights, bullets, settings, ask):
        return [Answer(Verdict("FULL_COVERAGE", "1", value=3.0)) for _ in insights]

class Few:
    name = "few"
    async def judge(self, insights, bullets, settings, ask):
        return [Answer(Verdict("FULL_COVERAGE", "1", value=3.0))]
"""


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("Raises", "judge_error"),
        ("Odd", "unknown_coverage"),
        ("Few", "judge_error"),
        ("Absent", "unusable_bullet"),
        ("Sure", "unusable_value"),
    ],
)
def test_a_persons_own_judge_that_fails_is_counted(name: str, error: str, room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    room.module(monkeypatch, "broken_judges", BROKEN)
    row = room.one(f"broken_judges:{name}")
    assert row.failures == {error: 6}
    assert not (room.folder / "store").exists()


ASKING = """
import json
from summhay_ray.judge import Verdict
from summhay_ray.llm import Request
from summhay_ray.outcome import Answer

class Asks:
    name = "asks"
    model = None
    async def judge(self, insights, bullets, settings, ask):
        prompt = "Reference Insight: " + insights[0].text + str(bullets)
        said = await ask(Request(model=self.model or settings.model, messages=prompt, sampling=settings.sampling))
        if not isinstance(said, Answer):
            return [said] * len(insights)
        return [Answer(Verdict(json.loads(said.value.text)["coverage"], "1"), key=said.key) for _ in insights]

class AsksAnother(Asks):
    name = "asks_another"
    model = "openai/of-nobody"
"""


def test_a_persons_own_judge_asks_the_specs_model_and_no_other(
    serving: Callable[..., Room], monkeypatch: pytest.MonkeyPatch
) -> None:
    room = serving()
    room.module(monkeypatch, "asking_judges", ASKING)
    model = {"model": "openai/simulated"}
    spec = room.spec(
        {**model, "strategy": "asking_judges:Asks", "name": "asks"},
        {**model, "strategy": "asking_judges:AsksAnother", "name": "another"},
    )
    result = room.bench("asks", "another", spec=spec)
    asks, another = result.judges
    # One call per summary.
    assert result.calls["made"] == 2 and asks.figures.n_scored == 6 and asks.usd_source == "spent"
    assert another.failures == {"judge_error": 6}
    assert "model 'openai/of-nobody' is asked but not listed" in another.missing
    assert room.bench("asks", spec=spec).calls == {"made": 0, "reused": 2, "failed": 0}


def test_a_users_own_judge_is_asked_again_after_a_change(serving: Callable[..., Room], monkeypatch: pytest.MonkeyPatch) -> None:
    room = serving()
    spec = room.spec({"model": "openai/simulated", "strategy": "changed_judges:Asks", "name": "asks"})
    room.module(monkeypatch, "changed_judges", ASKING)
    before = room.bench("asks", spec=spec)
    said = 'json.loads(said.value.text)["coverage"], "1"'
    room.module(monkeypatch, "changed_judges", ASKING.replace(said, '"NO_COVERAGE", "null"'))
    after = room.bench("asks", spec=spec)
    assert (before.judges[0].figures.bias_mean, after.judges[0].figures.bias_mean) == (0.5, -0.5)
    assert after.calls["made"] == 0, "what it asks is as before, and in the log"
