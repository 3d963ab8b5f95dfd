"""The benchmark of docs/tutorials/add-a-benchmark.md, in one file, with a provider that bills, on both executors."""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from runs import PATIENCE_S, kill, kill_worker, open_to_others, process_tree, start, summhay, write_spec
from simulated_provider import Simulated, in_thread

import summhay_ray
from summhay_ray import cli, plugins
from summhay_ray.report import markdown
from summhay_ray.store.tables import digest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
KEY_ENV = "OWN_BENCHMARK_KEY"
PRICE = {"input_per_mtok": 2.5, "cached_input_per_mtok": 1.25, "output_per_mtok": 10}
MODELS, DEPTHS, TRIALS = ("openai/keen", "openai/vague"), [0.0, 0.3, 0.9], 3
N_ITEMS = len(MODELS) * len(DEPTHS) * TRIALS
N_FOUND = len(MODELS) * 2 * TRIALS
"""Both models read the first half of a log, in which the needle stands at two of the three depths."""
N_CALLS = N_ITEMS + N_FOUND


def reads_half(model: str, prompt: str) -> str:
    """Knows the first half of the log. `keen` quotes it; `vague` ignores the required form."""
    lines = prompt.splitlines()
    line = next((line for line in lines[: len(lines) // 2] if "hid the key" in line), None)
    if "Write its line out" not in prompt:
        return "In the ship's bell." if line else "The log does not say."
    return str(line) if model.endswith("keen") else "Somewhere at its beginning, I think."


@dataclass(frozen=True)
class Place:
    """A provider, and a folder with the benchmark and a spec of the provider's models."""

    provider: Simulated
    folder: Path

    @property
    def spec(self) -> Path:
        return self.folder / "spec.yaml"

    def fields(self, **changes: Any) -> dict[str, Any]:
        reach = {"api_base": self.provider.base, "api_key_env": KEY_ENV, "price": PRICE, "max_tokens": 60}
        models = [{"model": name, **reach} for name in MODELS]
        limits = {name: {"concurrency": 2} for name in MODELS}
        sizes = {"depths": DEPTHS, "trials": TRIALS, "entries": 40}
        return {"kind": "needle:Needle", "models": models, "limits": limits, **sizes, "workers": 2, **changes}

    def summhay(self, *arguments: str | Path, code: int = 0) -> dict[str, Any]:
        """The JSON document of a command in the benchmark's folder; on Ray, in a separate process."""
        if "ray" in arguments:
            return summhay(*arguments, code=code)
        said = io.StringIO()
        with contextlib.redirect_stdout(said), pytest.raises(SystemExit) as stop:
            cli.main([*map(str, arguments), "--json"])
        assert stop.value.code == code, f"{arguments}: exit {stop.value.code}"
        document: dict[str, Any] = json.loads(said.getvalue())
        return document

    def served(self) -> int:
        return int(self.provider.stats()["served"])

    def wait(self, process: subprocess.Popen[bytes], n: int) -> None:
        """Return when the provider has served n calls; the run must not end before."""
        end = time.monotonic() + PATIENCE_S
        while self.served() < n:
            assert process.poll() is None and time.monotonic() < end
            time.sleep(0.02)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    monkeypatch.setenv(KEY_ENV, "sk-own")
    monkeypatch.syspath_prepend(EXAMPLES)
    folder = tmp_path / "mine"
    folder.mkdir()
    shutil.copy(EXAMPLES / "needle.py", folder)
    monkeypatch.chdir(folder)
    with in_thread(reads_half, latency=0.25, input_price=2.5, cached_price=1.25, output_price=10.0) as provider:
        found = Place(provider, folder)
        write_spec(folder, found.fields())
        yield found
    sys.modules.pop("needle", None)


def told(frame: pl.DataFrame) -> list[dict[str, Any]]:
    """The expected rows of `found`."""
    return [{**row, "depth": round(row["depth"], 2)} for row in frame.to_dicts()]


EXPECTED = [
    {"model": "openai/keen", "depth": depth, "trial": trial, "found": depth < 0.5, "quoted": True if depth < 0.5 else None}
    for depth in DEPTHS
    for trial in range(TRIALS)
] + [
    # `vague` cannot quote its finding: these items are failures without rows.
    {"model": "openai/vague", "depth": 0.9, "trial": trial, "found": False, "quoted": None}
    for trial in range(TRIALS)
]


def whole_life(place: Place, executor: str) -> dict[str, str]:
    """Plan, stop at the budget, kill (on Ray a worker, too) and resume; return the results and the hashes of the tables."""
    store = place.folder / f"store-{executor}"
    told_by = ("--store", store)
    planned = place.summhay("plan", "spec.yaml", *told_by)
    assert planned["cells"] == N_ITEMS and place.served() == 0
    # With an example answer, the plan also counts calls that depend on an answer.
    assert [(one["stage"], one["calls"]) for one in planned["stages"]] == [
        (s, N_ITEMS // 2) for s in ("find", "find", "quote", "quote")
    ]

    stopped = place.summhay("run", "spec.yaml", *told_by, "--executor", executor, "--budget", "0.012", code=3)
    assert stopped["usd"]["spent"] <= 0.012 and stopped["left"]["cells"] > 0
    assert stopped["executor"] == executor

    process = start(Path("spec.yaml"), store, "--executor", executor)
    before = place.served()
    if executor == "ray":
        place.wait(process, before + 3)
        assert open_to_others(process_tree(process.pid)) == []
        assert kill_worker(process.pid)
    place.wait(process, before + 8)
    kill(process)

    run = place.summhay("run", "spec.yaml", *told_by, "--executor", executor, code=4)
    assert run["cells"] == {"total": N_ITEMS, "done": N_ITEMS - N_FOUND // 2, "failed": N_FOUND // 2}
    # Two models with two concurrent calls each, and as many answers that are not durable yet: a kill loses no more.
    assert N_CALLS <= place.served() <= N_CALLS + (16 if executor == "ray" else 8)
    assert place.summhay("run", "spec.yaml", *told_by, code=4)["calls"] == {"made": 0, "reused": N_CALLS, "failed": 0}
    status = place.summhay("status", run["run"], *told_by)
    assert (status["status"], status["kind"]) == ("partial", "needle:Needle")
    assert status["failures"] == {"unreadable": N_FOUND // 2}
    assert told(summhay_ray.table(run["run"], "found", str(store))) == EXPECTED
    _explains(place, run["run"], store)
    _fails(place, run["run"], store)
    hashes = {name: digest(summhay_ray.table(run["run"], name, str(store))) for name in status["tables"]}
    assert hashes == {name: one["sha256"] for name, one in status["tables"].items()}
    return hashes


def _explains(place: Place, run: str, store: Path) -> None:
    explained = place.summhay("explain", run, "openai/keen@0.3#1", "--store", store)
    assert explained["rows"]["found"] == [{"model": "openai/keen", "depth": 0.3, "trial": 1, "found": True, "quoted": True}]
    assert [call["stage"] for call in explained["calls"]] == ["find", "quote"]
    assert explained["calls"][0]["prompt"].endswith("Where is the key of the rum store? Answer with one sentence.")
    first = explained["calls"][0]["raw_answer"]
    assert first["text"] == "In the ship's bell." and first["usd_micros"] > 0
    assert place.summhay("explain", run, first["key"][:12], "--store", store) == explained


def _fails(place: Place, run: str, store: Path) -> None:
    failures = place.summhay("failures", run, "--store", store)["failures"]
    assert {one["item_id"] for one in failures} == {
        f"openai/vague@{depth}#{trial}" for depth in DEPTHS[:2] for trial in range(TRIALS)
    }
    one = failures[0]
    assert (one["stage"], one["kind"], one["error"]) == ("quote", "malformed", "unreadable")
    assert one["message"] == "expected Day NUMBER: TEXT; found 'Somewhere at its beginning, I think.'"
    assert one["usd_micros"] > 0 and one["key"]


def test_it_is_planned_stopped_killed_and_resumed_in_this_process(place: Place) -> None:
    hashes = whole_life(place, "inline")
    unhurt = summhay_ray.run("spec.yaml", store=str(place.folder / "unhurt"), executor="inline")
    assert hashes == {name: digest(summhay_ray.table(unhurt.run, name, str(place.folder / "unhurt"))) for name in hashes}


@pytest.mark.soak
@pytest.mark.ray
def test_it_is_planned_stopped_killed_and_resumed_on_ray(place: Place) -> None:
    hashes = whole_life(place, "ray")
    inline = summhay_ray.run("spec.yaml", store=str(place.folder / "inline"), executor="inline")
    assert hashes == {name: digest(summhay_ray.table(inline.run, name, str(place.folder / "inline"))) for name in hashes}


def test_its_scores_count_what_failed_as_expected(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    store = str(place.folder / "store")
    with pytest.raises(SystemExit) as stop:
        cli.main(["run", "spec.yaml", "--store", store, "--executor", "inline"])
    shown = capsys.readouterr().out
    assert stop.value.code == 4
    result = summhay_ray.run("spec.yaml", store=store)
    scores = {(row["model"], row["depth"]): row for row in result.scores["by_depth"].to_dicts()}
    keen, vague = scores["openai/keen", 0.3], scores["openai/vague", 0.3]
    assert (keen["found"], keen["n"], keen["n_expected"]) == (1.0, 3, 3)
    # Three values have a reason instead of an interval.
    assert (keen["found_low"], keen["found_high"]) == (None, None) and keen["found_reason"].startswith("too few")
    assert (vague["found"], vague["found_low"], vague["n"], vague["n_expected"]) == (None, None, 0, 3)
    cells = [line.split("│")[1:-1] for line in shown.splitlines() if line.startswith("│")]
    rows = [[cell.strip() for cell in row] for row in cells]
    assert ["openai/keen", "0.3", "100.0 [too few]", "3/3"] in rows and ["openai/vague", "0.3", "-", "0/3"] in rows
    assert "* fewer" in shown and shown.startswith("Decision by found")
    text = markdown(result.sections)
    assert text.startswith("## The needle is found\n\nBy position") and "## Quoted word for word, if found" in text
    assert "| openai/keen | 0.3 | 100.0 [too few] | 3/3 |" in text and "| openai/vague | 0.3 | - | 0/3 |" in text
    assert summhay_ray.score(result.run, store).scores["by_depth"].equals(result.scores["by_depth"])


def test_a_file_that_its_spec_names_is_a_part_of_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "quiz.py").write_text(QUIZ)
    monkeypatch.syspath_prepend(tmp_path)
    spec = tmp_path / "spec.yaml"
    spec.write_text("kind: quiz:Quiz\nquestions: q.jsonl\n")
    questions = [{"id": "one", "text": "1+1?", "right": "2"}, {"id": "two", "text": "2+2?", "right": "4"}]
    (tmp_path / "q.jsonl").write_text("\n".join(map(json.dumps, questions)) + "\n")
    store = str(tmp_path / "store")
    first = summhay_ray.run(spec, store=store, executor="inline")
    assert first.status == "done" and first.scores["scores"].to_dicts() == [{"model": "offline/two", "right": 0.5, **HALF}]
    plan = summhay_ray.plan(spec, store)
    assert (plan.run, plan.cells, plan.cells_finished) == (first.run, 2, 2)
    assert summhay_ray.api.load(spec).inputs.files == {"q.jsonl": tmp_path / "q.jsonl"}
    # The run has a copy of the file: it is explained without the file, and another content makes another run.
    (tmp_path / "q.jsonl").rename(tmp_path / "gone.jsonl")
    assert summhay_ray.explain(first.run, "two", store)["rows"]["answers"] == [
        {"id": "two", "model": "offline/two", "right": False}
    ]
    (tmp_path / "q.jsonl").write_text(json.dumps(questions[0]) + "\n")
    assert summhay_ray.run(spec, store=store, executor="inline").run != first.run
    sys.modules.pop("quiz", None)


HALF = {
    "right_low": None,
    "right_high": None,
    "right_reason": "too few independent values: 2, an interval needs 6",
    "n": 2,
    "n_expected": 2,
    "right_floor": 0.5,
}
QUIZ = """
import json
from dataclasses import dataclass
from summhay_ray.benchmark import *

class QuizSpec(Spec):
    questions: str
    model: Model = ModelSpec(model="offline/two")

@dataclass(frozen=True)
class Row:
    id: str
    model: str
    right: bool

class Two:
    name, revision = "offline/two", "1"
    def answer(self, request):
        return "2"

class Quiz(Benchmark[QuizSpec]):
    stages = (Stage("ask"),)
    tables = (Table("answers", Row, key=("id", "model")),)
    own_models = (Two,)
    def items(self):
        for line in self.inputs.text(self.spec.questions).splitlines():
            one = json.loads(line)
            yield Item(one["id"], data=one)
    async def answer(self, item, ask):
        reply = await ask("ask", item.data["text"])
        return {"answers": [Row(item.id, self.spec.model.label, reply.text == item.data["right"])]}
    def score(self, tables):
        return {"scores": mean_interval(tables["answers"], "right", by="model")}
"""
"""A benchmark of a single model, with its questions in a file; its items name no model."""


# --- an error in a benchmark is one line ---------------------------------------------------------------------------------


def quiz(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: Mapping[str, str]) -> tuple[Path, str]:
    """A quiz with some of its text replaced; its spec, and a store."""
    text = QUIZ
    for old, new in changes.items():
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    name = f"quiz_{abs(hash(text))}"
    (tmp_path / f"{name}.py").write_text(text)
    (tmp_path / "q.jsonl").write_text(
        "".join(json.dumps({"id": f"q{n}", "text": f"{n}?", "right": "2"}) + "\n" for n in range(3))
    )
    spec = tmp_path / "spec.yaml"
    spec.write_text(f"kind: {name}:Quiz\nquestions: q.jsonl\n")
    monkeypatch.syspath_prepend(tmp_path)
    return spec, str(tmp_path / "store")


def complaint(spec: Path, store: str, capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int, str]:
    """The output of `summhay run` and its exit code: one line, the last."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as stop:
        cli.main(["run", str(spec), "--store", store, "--executor", "inline", *more])
    lines = capsys.readouterr().err.strip().splitlines()
    assert "Traceback" not in "\n".join(lines)
    return int(stop.value.code or 0), lines[-1]


DECLARED = 'tables = (Table("answers", Row, key=("id", "model")),)'
ITEM = 'yield Item(one["id"], data=one)'
GIVEN = 'return {"answers": [Row(item.id, self.spec.model.label, reply.text == item.data["right"])]}'
SCORED = 'return {"scores": mean_interval(tables["answers"], "right", by="model")}'
BROKEN: dict[str, tuple[dict[str, str], str]] = {
    "a file that is read too late": (
        {GIVEN: 'return {"answers": [Row(self.inputs.text("other.txt"), "m", True)]}'},
        "'other.txt' is read for the first time while the run is under way; read it in `items` or `__init__`",
    ),
    "a stage that is not named": (
        {'ask("ask"': 'ask("aks"'},
        "quiz asks in a stage 'aks' that it does not name; did you mean ask?",
    ),
    "a table that is not declared": (
        {'{"answers": [': '{"answer": ['},
        "quiz gives rows of a table 'answer' that it does not declare",
    ),
    "rows of another class": (
        {GIVEN: "return {'answers': [{'id': item.id}]}"},
        "quiz gives dict as a row of answers; expected Row",
    ),
    "two rows of one key": (
        {GIVEN: 'return {"answers": [Row("a", "m", True)] * 2}'},
        "two rows of answers whose id, model is 'a', 'm'",
    ),
    "one id twice": ({ITEM: 'yield Item("same", data=one)'}, "two items have the id 'same'; an item is answered once"),
    "no items": ({"def items(self)": "def itmes(self)"}, "Quiz names no items; write `def items(self)`"),
    "items that raise": ({ITEM: 'yield Item(one["ids"])'}, "quiz: items raises KeyError: 'ids' (quiz_"),
    "no answer": ({"async def answer": "async def anwser"}, "Quiz answers nothing; write `async def answer(self, item, ask)`"),
    "an answer that is no coroutine": (
        {"async def answer": "def answer", 'await ask("ask", item.data["text"])': 'item.data["text"]'},
        "answer is a plain function; write `async def answer",
    ),
    "a method of the contract with other arguments": (
        {SCORED: f"{SCORED}\n    def explain(self, run, key): return {{}}"},
        "explain is a method of every benchmark, with other arguments; write `def explain(self, run: ",
    ),
    "one stage without a comma": ({'(Stage("ask"),)': 'Stage("ask")'}, "expected a tuple: stages = (Stage(...),)"),
    "a table that every run has": ({'Table("answers"': 'Table("items"'}, "a table is named 'items', as one that every run has"),
    "a class that cannot be made": (
        {"    own_models": "    def __init__(self, spec): pass\n    own_models"},
        "cannot be made (TypeError: Quiz.__init__() takes 2 positional arguments but 3 were given)",
    ),
    "a model that nobody has": ({'ModelSpec(model="offline/two")': 'ModelSpec(model="offline/three")'}, "named 'offline/three'"),
    "a score that raises": ({SCORED: "return tables['nothing']"}, "quiz: score raises KeyError: 'nothing' (quiz_"),
    "a report that is no section": (
        {SCORED: f"{SCORED}\n    def report(self, scores): return ['x']"},
        "report gives str; expected Sec",
    ),
    "figures without n": (
        {SCORED: f"{SCORED}\n    def report(self, s): return [Section('S', table=s['scores'].drop('n'))]"},
        "section 'S': right, right_low, right_high, right_floor: figures without a column `n`",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_benchmark_that_breaks_its_own_declarations_is_refused_in_a_line(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    changes, expected = BROKEN[case]
    code, line = complaint(*quiz(tmp_path, monkeypatch, changes), capsys)
    assert code == 2 and line.startswith("summhay: ") and expected in line, line


def test_what_is_wrong_with_one_item_is_its_row_and_stops_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = "return {'answers': [Row(item.id, 'm', reply.text == '2' if item.id == 'q0' else 3.5 if item.id == 'q1' else 1 / 0)]}"
    spec, store = quiz(tmp_path, monkeypatch, {GIVEN: wrong})
    result = summhay_ray.run(spec, store=store, executor="inline")
    assert (result.status, dict(result.cells)) == ("partial", {"total": 3, "done": 1, "failed": 2})
    failed = {row["item_id"]: (row["kind"], row["error"], row["message"]) for row in summhay_ray.failures(result.run, store)}
    assert failed["q1"] == (
        "malformed",
        "benchmark_error",
        "quiz gives a row of answers whose right is 3.5 (float); expected bool",
    )
    kind, error, message = failed["q2"]
    assert (kind, error) == ("failed", "benchmark_error") and message.startswith("ZeroDivisionError: division by zero (quiz_")


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("sumhay", "no kind of benchmark is named 'sumhay'; did you mean 'summhay'?; one of your own is module:Class"),
        (
            "nowhere:Quiz",
            "'nowhere:Quiz' cannot be imported (ModuleNotFoundError: No module named 'nowhere'); expected module:Class on",
        ),
        ("json:JSONDecoder", "'json:JSONDecoder' is not a benchmark; write a class of summhay_ray.benchmark.Benchmark"),
        ("json:Nothing", "'json:Nothing' cannot be imported (AttributeError"),
    ],
)
def test_a_kind_that_is_none_is_refused(kind: str, expected: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = tmp_path / "spec.yaml"
    spec.write_text(f"kind: {kind}\n")
    store = str(tmp_path / "store")
    code, line = complaint(spec, store, capsys)
    assert code == 2 and expected in line
    spec.write_text("haystacks: [sample/news]\nretrievers: [bm25]\nsummarizers: [offline/lead]\n")
    assert complaint(spec, store, capsys, "--set", f"kind={kind}") == (code, line)


def test_an_empty_benchmark_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    spec, store = quiz(tmp_path, monkeypatch, {"for line in self": "for line in () and self"})
    assert complaint(spec, store, capsys) == (0, "warning: quiz: items gives none; nothing was asked")


# --- how a benchmark is found ---------------------------------------------------------------------------------------------


def test_it_is_found_where_one_stands_and_by_its_installed_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`arithmetic:Quiz` in the current folder; then a package with an entry point, whose name works in any folder."""
    questions = tmp_path / "q.jsonl"
    questions.write_text('{"id": "one", "text": "1+1?", "right": "2"}\n')
    site, elsewhere = tmp_path / "site", tmp_path / "elsewhere"
    points = "[summhay_ray.benchmarks]\nsums = arithmetic:Quiz\nsummhay = arithmetic:Quiz\n"
    info = {"METADATA": "Metadata-Version: 2.1\nName: arithmetic\nVersion: 1.0\n", "entry_points.txt": points}
    for folder in (elsewhere, site / "arithmetic-1.0.dist-info"):
        folder.mkdir(parents=True)
    for name, text in info.items():
        (site / "arithmetic-1.0.dist-info" / name).write_text(text)

    def run(kind: str, folder: Path, code: str = QUIZ) -> summhay_ray.engine.RunResult:
        (folder / "arithmetic.py").write_text(code)
        sys.modules.pop("arithmetic", None)
        plugins.code_identity.cache_clear()
        importlib.invalidate_caches()
        fields = {"kind": kind, "questions": str(questions)}
        return summhay_ray.run(fields, store=str(tmp_path / "store"), executor="inline")

    monkeypatch.syspath_prepend(tmp_path / "nothing")  # Imports from the current folder are undone with the change of folder.
    with pytest.raises(plugins.UnknownName, match="no kind of benchmark is named 'sums'"):
        run("sums", elsewhere)
    stands = tmp_path / "stands"
    stands.mkdir()
    monkeypatch.chdir(stands)
    stood = run("arithmetic:Quiz", stands)
    assert (stood.status, stood.calls["made"]) == ("done", 1)
    (stands / "arithmetic.py").unlink()
    monkeypatch.chdir(elsewhere)
    (elsewhere / "arithmetic.py").unlink()
    monkeypatch.syspath_prepend(site)
    named = run("sums", site)
    # The same code under another name is the same run, and other code is another run; a built-in name cannot be taken.
    assert (named.run, named.calls["made"]) == (stood.run, 0)
    changed = run("sums", site, QUIZ + "\nCHANGED = True\n")
    assert changed.run != named.run and changed.calls["made"] == 0
    with pytest.raises(summhay_ray.engine.SpecError, match="questions: unknown field"):
        run("summhay", site)
    sys.modules.pop("arithmetic", None)
