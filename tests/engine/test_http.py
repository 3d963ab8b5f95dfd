"""Runs over real HTTP: money, keys and kills with paid models."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from aiohttp import web
from fake_provider import FakeProvider, Reply, completion
from runs import at_most, kill, log_records, start, summhay, wait_for_answers, write_spec

from summhay_ray import api, cli
from summhay_ray.errors import UserError
from summhay_ray.judge import OfflineJudge
from summhay_ray.llm import Request
from summhay_ray.store import Store
from summhay_ray.summarize import local_models
from summhay_ray.text import count_tokens

pytestmark = pytest.mark.timeout(400)

CANARY = "sk-canary-0123456789abcdef"
N_SUMMARIES, N_JUDGMENTS = 4, 22
INPUT_RATE, OUTPUT_RATE = 100, 200


class Answering(FakeProvider):
    """Answers like `offline/lead` and `offline/judge`, and bills each call."""

    billed_micros = 0

    async def _reply(self, request: web.Request, content: Mapping[str, Any], reply: Reply) -> web.StreamResponse:
        prompt = content["messages"][0]["content"]
        model = OfflineJudge() if content["model"] == "judge" else local_models()["offline/lead"]()
        text = model.answer(Request(str(content["model"]), prompt))
        if reply.status != 200:
            return await super()._reply(request, content, reply)
        tokens_in, tokens_out = count_tokens(prompt), count_tokens(text)
        self.billed_micros += tokens_in * INPUT_RATE + tokens_out * OUTPUT_RATE
        await asyncio.sleep(reply.delay_s)
        usage = {"prompt_tokens": tokens_in, "completion_tokens": tokens_out, "total_tokens": tokens_in + tokens_out}
        return web.json_response(completion(content["model"], Reply(text=text, usage=usage)))


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[Answering]:
    monkeypatch.setenv("SUMMHAY_TEST_KEY", CANARY)
    server = Answering()
    server.start()
    yield server
    server.stop()


def spec_of(folder: Path, provider: FakeProvider, **fields: Any) -> Path:
    price = {"input_per_mtok": INPUT_RATE, "output_per_mtok": OUTPUT_RATE}
    reach = {"api_base": provider.base, "api_key_env": "SUMMHAY_TEST_KEY", "price": price, "max_tokens": 100}
    models = {
        "summarizers": [{"model": "openai/lead", **reach}],
        "judges": [{"model": "openai/judge", **reach}],
    }
    small = {"haystacks": ["sample/news"], "retrievers": ["bm25"], "token_budget": 1500}
    return write_spec(folder, {**small, **models, "executor": "inline", **fields})


def everything_written(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def test_a_paid_run_costs_what_the_provider_bills_and_hides_its_key(provider: Answering, tmp_path: Path) -> None:
    spec, store = spec_of(tmp_path, provider), tmp_path / "store"
    plan = summhay("plan", spec, "--store", store)
    result = summhay("run", spec, "--store", store)
    assert len(provider.requests) == N_SUMMARIES + N_JUDGMENTS == result["calls"]["made"]
    assert result["usd"]["spent"] == pytest.approx(provider.billed_micros / 1e6)
    assert result["left"] is None
    assert {stage["stage"]: stage["calls"] for stage in plan["stages"]} == {"summarize": N_SUMMARIES, "judge": N_JUDGMENTS}
    assert plan["usd"]["min"] <= result["usd"]["spent"] <= plan["usd"]["max"]
    again = summhay("run", spec, "--store", store)
    assert len(provider.requests) == N_SUMMARIES + N_JUDGMENTS
    assert again["systems"] == result["systems"]
    assert CANARY.encode() not in everything_written(store)
    free = {"executor": "inline", "haystacks": ["sample/news"], "retrievers": ["bm25"], "token_budget": 1500}
    free |= {"summarizers": ["offline/lead"], "judges": [{"model": "offline/judge", "strategy": "per_insight"}]}
    offline = summhay("run", write_spec(tmp_path, free), "--store", tmp_path / "free")["systems"][0]
    figures = ("coverage", "citation", "joint", "n_scored", "n_covered", "words_per_bullet")
    assert {name: result["systems"][0][name] for name in figures} == {name: offline[name] for name in figures}


def test_the_run_stops_at_its_budget_and_goes_on_with_more(provider: Answering, tmp_path: Path) -> None:
    spec, store = spec_of(tmp_path, provider), tmp_path / "store"
    budget = 0.6
    stopped = summhay("run", spec, "--store", store, "--budget", str(budget), code=3)
    assert stopped["status"] == "budget"
    assert 0 < provider.billed_micros / 1e6 <= stopped["usd"]["spent"] <= budget
    finished = stopped["cells"]["done"] + stopped["cells"]["failed"]
    assert finished < N_SUMMARIES
    left = stopped["left"]
    # The paid summaries decide how many judgments are left; answered ones are not left.
    assert left["cells"] == N_SUMMARIES - finished and 0 < left["calls"] <= N_SUMMARIES + N_JUDGMENTS - len(provider.requests)
    assert 0 < left["usd"]["min"] <= left["usd"]["expected"] <= left["usd"]["max"]
    assert len(published(store, stopped["run"])["judgments"]) < N_JUDGMENTS
    before = provider.billed_micros
    done = summhay("run", spec, "--store", store, "--budget", "100")
    assert (done["status"], done["run"], done["left"]) == ("done", stopped["run"], None)
    assert done["calls"]["made"] == left["calls"]
    assert left["usd"]["min"] <= (provider.billed_micros - before) / 1e6 <= left["usd"]["max"]
    assert len(provider.requests) == N_SUMMARIES + N_JUDGMENTS, "a paid answer was asked for again"
    assert max(provider.prompts.values()) == 1
    assert len(published(store, done["run"])["judgments"]) == N_JUDGMENTS


def published(store: Path, run: str) -> dict[str, pl.DataFrame]:
    """The published tables of the run, if there are any."""
    found = {folder.name: pl.read_parquet(folder / "*.parquet") for folder in (store / "runs" / run / "tables").iterdir()}
    stored = Store(str(store)).run(run)
    assert found.keys() == stored.declared.keys()
    assert all(found[name].equals(stored.table(name)) for name in found)
    return found


@pytest.mark.soak
def test_a_killed_paid_run_repeats_at_most_what_was_in_flight(provider: Answering, tmp_path: Path) -> None:
    provider.default = Reply(delay_s=0.3)
    limits = {model: {"concurrency": 2} for model in ("openai/lead", "openai/judge")}
    spec, store = spec_of(tmp_path, provider, limits=limits), tmp_path / "store"
    process = start(spec, store)
    assert wait_for_answers(process, store, 8)
    run = summhay("plan", spec, "--store", store)["run"]
    # The driver reports its money every two seconds.
    while not (going := summhay("status", run, "--store", store)["usd"])["reserved"]:
        assert process.poll() is None
    in_flight = provider.in_flight + 4
    kill(process)
    # The worst case of calls in flight is reserved while their driver lives, and uncertain afterwards; neither counts as spent.
    killed = summhay("status", run, "--store", store)["usd"]
    assert going["reserved"] > 0 == going["uncertain"] and killed["uncertain"] > 0 == killed["reserved"]
    assert going["spent"] <= killed["spent"] <= provider.billed_micros / 1e6 <= at_most({"usd": killed}) + 1e-9
    assert summhay("runs", "--store", store)["runs"][0]["usd"] == killed
    planned = summhay("plan", spec, "--store", store, "--budget", "5")
    assert {name: planned["usd"][name] for name in ("spent", "reserved", "uncertain")} == {
        name: killed[name] for name in ("spent", "reserved", "uncertain")
    }
    assert planned["usd"]["left"] == pytest.approx(5 - at_most({"usd": killed}))
    _an_unfinished_run_is_exported(store, tmp_path / "exported")
    result = summhay("run", spec, "--store", store)
    assert result["status"] == "done"
    repeated = len(provider.requests) - len(provider.prompts)
    assert repeated <= in_flight
    answers = log_records(store)
    assert len(answers) == len({record["key"] for record in answers}), "an answered call was repeated"
    # Calls in flight at the kill stay charged at their worst price: never less than the provider's bill.
    assert at_most(result) >= provider.billed_micros / 1e6 and result["usd"]["uncertain"] > 0


def test_a_dead_model_does_not_stop_the_other_and_is_tried_again_when_it_lives(provider: Answering, tmp_path: Path) -> None:
    reach = {"api_base": provider.base, "api_key_env": "SUMMHAY_TEST_KEY", "price": 0}

    def run(base: str, code: int) -> dict[str, Any]:
        models = [{"model": "openai/lead", **reach}, {"model": "openai/late", **reach, "api_base": base}]
        spec = spec_of(tmp_path, provider, summarizers=models, judges=["offline/judge"])
        return summhay("run", spec, "--store", tmp_path / "store", code=code)

    partial = run("http://127.0.0.1:9/v1", 4)
    by_model = {system["model"]: (system["n_scored"], system["n_expected"], system["joint"]) for system in partial["systems"]}
    assert by_model["openai/late"] == (0, N_JUDGMENTS, None)
    assert by_model["openai/lead"][0] == N_JUDGMENTS
    listed = summhay("failures", partial["run"], "--store", tmp_path / "store")["failures"]
    assert {row["stage"] for row in listed} == {"summarize"} and len(listed) == N_SUMMARIES
    assert CANARY not in str(listed)
    # A model's endpoint is not part of the run's identity: the same run continues, and only failed calls are repeated.
    done = run(provider.base, 0)
    assert (done["run"], done["calls"]["made"]) == (partial["run"], N_SUMMARIES)
    assert summhay("failures", done["run"], "--store", tmp_path / "store")["failures"] == []
    assert {system["n_scored"] for system in done["systems"]} == {N_JUDGMENTS}


def _an_unfinished_run_is_exported(store: Path, folder: Path) -> None:
    (run,) = Store(str(store)).run_ids()
    stored = Store(str(store)).run(run)
    assert not (store / "runs" / run / "tables").exists()
    files = summhay("export", run, "--store", store, "--tables", folder)["files"]
    assert sorted(files) == sorted(str(folder / name / "part-0.parquet") for name in stored.declared)
    assert pl.read_parquet(folder / "documents" / "*.parquet").equals(stored.table("documents"))
    text = summhay("export", run, "--store", store, "--tables", folder, "--format", "csv")["files"]
    assert all(Path(file).suffix == ".csv" for file in text)
    with pytest.raises(UserError, match="/proc/none: no table can be written there"):
        api.export_tables(run, "/proc/none", str(store))


def test_a_run_whose_tables_cannot_be_written_has_not_ended(
    provider: Answering, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    spec, store = spec_of(tmp_path, provider), tmp_path / "store"
    run = summhay("plan", spec, "--store", store)["run"]
    (store / "runs" / run).mkdir(parents=True)
    (store / "runs" / run / "tables").write_text("in the way")
    with pytest.raises(SystemExit, match="1"):
        cli.main(["run", str(spec), "--store", str(store), "--json"])
    told = capfd.readouterr()
    assert told.out == "" and str(store / "runs" / run / "tables") in told.err.splitlines()[-1]
    assert any("tables" in line for line in summhay("status", run, "--store", store)["warnings"])
    (store / "runs" / run / "tables").unlink()
    again = summhay("run", spec, "--store", store)
    assert (again["calls"]["made"], again["status"], again["warnings"]) == (0, "done", [])
    assert summhay("status", run, "--store", store)["warnings"] == []
    published(store, run)
