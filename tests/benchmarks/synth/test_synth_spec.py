"""A synth spec: valid fields, errors in one line, and the parts of its run's id."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from synth_runs import SMALL, small, write_files

from summhay_ray import api
from summhay_ray.benchmarks.summhay import SummHay
from summhay_ray.benchmarks.synth import Synth
from summhay_ray.benchmarks.synth.topics import made_up
from summhay_ray.engine import SpecError
from summhay_ray.errors import UserError

pytestmark = pytest.mark.core

PRICE = {"input_per_mtok": 2.5, "output_per_mtok": 10}
LEAD = {"summarizers": ["offline/lead"]}
LEAST_1 = {"difficulty": {**SMALL["difficulty"], "least": 1}}
HOSTED = {"model": "openai/writer", "api_base": "http://127.0.0.1:9/v1", "price": PRICE}


def refusal(**fields: Any) -> str:
    with pytest.raises(UserError) as caught:
        small(**fields)
    said = str(caught.value)
    assert "\n" not in said
    return said


def write(folder: Path, fields: Any, name: str = "synth.yaml") -> Path:
    write_files(folder, {name: yaml.safe_dump(fields)})
    return folder / name


def test_a_topic_and_nothing_else_is_enough() -> None:
    grid = api.load({"topics": ["the new tram line"]})
    assert isinstance(grid, Synth)
    shape = grid.recipe.shape
    assert (grid.recipe.domain.name, grid.n_items(), shape.documents, shape.words) == ("news", 1, 100, 750)
    assert {stage: model.model for stage, model in grid.spec.models.by_stage().items()} == {
        "outline": "offline/writer",
        "write": "offline/writer",
    }
    assert grid.spec.license == "unspecified" and sorted(grid.models.settings()) == ["offline/writer"]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"topcis": []}, "topcis: unknown field; did you mean topics?"),
        ({"topics": []}, "topics: list should have at least 1 item"),
        ({"topics": [{"topic": "a", "nmae": "b"}]}, "topics[0].nmae: unknown field; did you mean name?"),
        ({"topics": [{"name": "b"}]}, "topics[0]: expected a topic, or made_up: a number of topics"),
        ({"topics": {"made_up": 3, "name": "b"}}, "topics[0]: made_up topics have no name"),
        ({"topics": [{"topic": "a", "name": "a/b"}]}, "name 'a/b': expected at most 60 letters, digits, - and _"),
        ({"topics": [{"topic": "a", "name": "x"}, {"topic": "b", "name": "x"}]}, "the name 'x' is used twice"),
        ({"topics": [{"topic": "a", "name": "x"}, {"topic": "b", "name": "X"}]}, "the name 'x' is used twice"),
        ({"topics": ["A ferry", {"topic": " A  ferry "}]}, "'A ferry' is listed twice and would give the same insights"),
        ({"topics": [{"topic": "a", "context": ["gone.txt"]}]}, "no file 'gone.txt'"),
        ({"domain": "nwes"}, "no domain is named 'nwes'; did you mean 'news'?"),
        ({"domain": "gone.yaml"}, "no file 'gone.yaml'"),
        ({"difficulty": {"paraphrase": 4}}, "difficulty.paraphrase: input should be less than or equal to 3, found 4"),
        ({"difficulty": {"spraed": 0.2}}, "difficulty.spraed: unknown field; did you mean spread?"),
        ({"models": {"writer": "offline/writer"}}, "models.writer: unknown field; did you mean write?"),
        (
            {"models": {"write": {"model": "offline/writer", "prompt": "p.txt"}}},
            "models.write.prompt: prompts belong to the domain's YAML",
        ),
        (
            {"models": {"check": {"model": "offline/writer", "prompt": None}}},
            "models.check.prompt: prompts belong to the domain's",
        ),
        ({"models": {"write": "offline/support"}}, "models.write: 'offline/support' makes no haystacks"),
        ({"models": {"write": "openai/nobody-knows-it"}}, "price"),
        ({"models": {"write": {"model": "offline/writer", "max_tokens": 100}}}, "100 tokens are too few for documents of 120"),
        ({"limits": {"openai/gpt-4o": {"rpm": 5}}}, "limits: nothing in the spec asks 'openai/gpt-4o'; known: offline/writer"),
        ({"stage_budgets_usd": {"judge": 1}}, "stage_budgets_usd: no stage is named 'judge'"),
        (
            {"stage_budgets_usd": {"check": 5, "write": 1}},
            "stage_budgets_usd.check: no model is asked to check; name one as models.check, or leave the budget out",
        ),
        ({"words": 0}, "words: input should be greater than or equal to 20"),
    ],
)
def test_what_is_wrong_is_one_line(fields: dict[str, Any], said: str) -> None:
    assert said in refusal(**fields)


def test_a_spec_without_a_kind_is_known_by_its_topics(tmp_path: Path) -> None:
    path = write(tmp_path, {**SMALL, "seed": 3})
    found = api.load(path, ["seed=4", "difficulty.least=1"])
    assert isinstance(found, Synth) and found.spec.seed == 4 and found.run_id == api.load({**SMALL, "seed": 4, **LEAST_1}).run_id
    assert isinstance(api.load({"haystacks": ["sample/news"], "retrievers": ["full"], **LEAD}), SummHay)
    with pytest.raises(SpecError, match="spec: topics: unknown field"):
        api.load({"haystacks": ["sample/news"], "retrievers": ["full"], "topics": ["a"], **LEAD})
    with pytest.raises(SpecError, match="spec: haystacks: unknown field"):
        api.load({**SMALL, "kind": "synth", "haystacks": ["sample/news"]})


def test_topics_are_named_and_bring_their_files(tmp_path: Path) -> None:
    write_files(tmp_path, {"seed.txt": "What a newspaper wrote.", "mine.yaml": "genre: a letter\nname: letters\nwords: 90"})
    fields = {
        **SMALL,
        "domain": "mine.yaml",
        "words": None,
        "topics": [
            "A new ferry!",
            "Fähren nach Überlingen, Straße und Weg",
            {"topic": "old bridges", "name": "bridges", "participants": ["Ann"], "context": ["seed.txt"]},
        ],
    }
    grid = api.load(write(tmp_path, fields))
    assert [topic.name for topic in grid.recipe.topics] == [
        "a_new_ferry",
        "fahren_nach_uberlingen_strasse_und_weg",
        "bridges",
    ]
    assert grid.recipe.topics[2].context == ("What a newspaper wrote.",) and grid.recipe.topics[2].participants == ("Ann",)
    assert (grid.recipe.domain.name, grid.recipe.shape.words) == ("letters", 90)


PAID = {"model": "openai/gpt-4o", "api_key_env": "NO_SUCH_KEY"}


def test_another_language_needs_models_that_know_it(tmp_path: Path) -> None:
    write_files(tmp_path, {"rat.yaml": "genre: ein Protokoll\nname: rat\nlanguage: German"})
    fields = {**SMALL, "domain": str(tmp_path / "rat.yaml")}
    assert "models.outline: offline/writer writes English, and the domain is in German" in refusal(**fields)
    written = {"outline": PAID, "write": PAID}
    assert "models.check: offline checks read English" in refusal(**{**fields, "models": written})
    offline = {**written, "check": "offline/writer"}
    assert "models.check: offline/writer reads English, and the domain is in German" in refusal(**{**fields, "models": offline})
    assert api.load({**fields, "models": {**written, "check": PAID}}).recipe.domain.language == "German"


def test_a_context_beyond_the_window_is_refused(tmp_path: Path) -> None:
    write_files(tmp_path, {"long.txt": "word " * 130_000})
    topics = [{"topic": "a", "context": [str(tmp_path / "long.txt")]}]
    said = refusal(**{**SMALL, "topics": topics, "models": {"outline": PAID}})
    assert "the context of 'a' has 130," in said and "openai/gpt-4o has room for 120,000" in said
    assert small(topics=topics, models={"outline": {**PAID, "context_window": 200_000}}).n_items() == 1


def test_where_a_model_is_reached_is_no_part_of_what_is_made() -> None:
    here, there = (small(models={"write": {**PAID, "api_base": f"http://10.0.0.7:{port}/v1"}}) for port in (8000, 9000))
    assert here.run_id == there.run_id and here.recipe.of(here.recipe.topics[0]) == there.recipe.of(there.recipe.topics[0])
    models = here.recipe.of(here.recipe.topics[0]).metadata["models"]
    assert models["write"]["model"] == "openai/gpt-4o" and "check" not in models


@given(seed=st.integers(0, 50), few=st.integers(1, 20), more=st.integers(0, 40))
def test_made_up_topics_differ_and_a_longer_list_begins_with_the_shorter(seed: int, few: int, more: int) -> None:
    long = list(made_up(seed, few + more))
    assert len(set(long)) == few + more and list(made_up(seed, few)) == long[:few]


def test_the_id_is_of_what_is_made() -> None:
    first = small().run_id
    assert first.startswith("y") and len(first) == 13
    same = [
        {"name": "another"},
        {"kind": "synth"},
        {"executor": "inline"},
        {"budget_usd": 1.5, "stage_budgets_usd": {"write": 1.0}, "model_budgets_usd": {"offline/writer": 2.0}},
        {"workers": 3, "limits": {"offline/writer": {"concurrency": 3}}, "endpoint_url": "http://127.0.0.1:9"},
        {"models": dict.fromkeys(("outline", "write"), {"model": "offline/writer", "price": 0, "timeout_s": 5.0})},
    ]
    assert {small(**fields).run_id for fields in same} == {first}
    other = [
        {"topics": ["the new tram line in Calaford", "a ferry"]},
        {"topics": [{"topic": "the new tram line in Calaford", "participants": ["Ann"]}]},
        {"domain": "conversation"},
        {"subtopics": 3},
        {"insights": 3},
        {"documents": 7},
        {"words": 130},
        {"difficulty": {**SMALL["difficulty"], "spread": 0.5}},
        {"models": {"write": HOSTED}},
        {"models": {"check": HOSTED}},
        {"models": {"write": {"model": "offline/writer", "max_tokens": 900}}},
        {"license": "CC0"},
        {"seed": 1},
    ]
    assert len({small(**fields).run_id for fields in other} | {first}) == len(other) + 1


def test_the_order_of_topics_is_none_and_a_topic_keeps_its_cell() -> None:
    one, two = small(topics=["a ferry", "a tram"]), small(topics=["a tram", "a ferry"])
    assert one.run_id == two.run_id != small(topics=["a tram"]).run_id
    assert {item.id for item in small(topics=["a tram"]).items()} < {item.id for item in one.items()}


def test_a_changed_prompt_is_another_run(tmp_path: Path) -> None:
    ids = set()
    for genre, prompt in (("a letter", "Write."), ("a letter", "Write well."), ("a note", "Write.")):
        domain = {"name": "letters", "genre": genre, "prompts": {"document": f"{prompt}\n\nInput:\n[[INPUT]]"}}
        write_files(tmp_path, {"letters.yaml": yaml.safe_dump(domain)})
        ids.add(api.load(write(tmp_path, {**SMALL, "domain": "letters.yaml"})).run_id)
    assert len(ids) == 3
