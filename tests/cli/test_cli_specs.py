"""Bad specs: one line with the place, the fault and the remedy, exit code 2, and an unchanged store."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from commands import Said, files_below, released, write_json, write_spec

pytestmark = pytest.mark.core

Cli = Callable[..., Said]
SMALL: dict[str, Any] = {"haystacks": ["sample/news"], "retrievers": ["bm25"], "summarizers": ["offline/lead"]}
KEY = "sk-abcdefghijklmnopqrstuvwxyz"


def model(**fields: Any) -> dict[str, Any]:
    return {"summarizers": [{"model": "offline/lead", **fields}]}


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"retriever": ["bm25"]}, "SPEC: retriever: unknown field; did you mean retrievers?"),
        (model(max_token=3), "SPEC: summarizers[0].max_token: unknown field; did you mean max_tokens?"),
        ({"limits": {"offline/lead": {"rpms": 3}}}, "SPEC: limits.offline/lead.rpms: unknown field; did you mean rpm?"),
        ({"token_budget": "15000"}, 'SPEC: token_budget: input should be a valid integer, found "15000"'),
        (model(price=1), "SPEC: summarizers[0].price: expected 0, or dollars per million tokens, such as"),
        ({"budget_usd": float("inf")}, "SPEC: budget_usd: input should be a finite number, found Infinity"),
        (model(temperature=float("inf")), "SPEC: summarizers[0].temperature: input should be a finite number"),
        ({"retrievers": ["bm52"]}, "SPEC: retrievers[0]: no retriever is named 'bm52'; did you mean 'bm25'?"),
        ({"retrievers": ["bm25", {"fuse": ["oracle", "bm52"]}]}, "SPEC: retrievers[1]: no retriever is named 'bm52'"),
        ({"retrievers": ["bm25", {"run": "nowhere.run"}]}, "SPEC: retrievers[1]: no file 'nowhere.run' in"),
        ({"retrievers": [":"]}, "SPEC: retrievers[0]: ':' cannot be imported"),
        ({"retrievers": ["released/vector"]}, "SPEC: retrievers[0]: news holds no scores of 'released/vector'; it holds: none"),
        ({"orderings": ["botom"]}, "SPEC: no ordering is named 'botom'; did you mean 'bottom'?"),
        (model(strategy="dircet"), "SPEC: no summarizing strategy is named 'dircet'; did you mean 'direct'?"),
        ({"judges": ["offline/jugde"]}, "SPEC: no offline model is named 'offline/jugde'; did you mean 'offline/judge'?"),
        (
            {"judges": [{"model": "offline/judge", "strategy": "per_insigth"}]},
            "SPEC: no judge strategy is named 'per_insigth'; did you mean 'per_insight'?",
        ),
        (
            {"summarizers": ["offline/suport"]},
            "SPEC: no offline model is named 'offline/suport'; did you mean 'offline/support'?",
        ),
        ({"haystacks": ["nowhere.json"]}, "SPEC: no file 'nowhere.json' in "),
        ({"haystacks": ["sample/nws"]}, "SPEC: haystacks: no sample haystack is named 'nws'; did you mean 'news'?"),
        (
            {"haystacks": ["one.json", "same.json"]},
            "SPEC: haystacks[1]: 'same.json' has the same content as 'one.json'; remove",
        ),
        ({"haystacks": ["broken.json"]}, "broken.json: subtopics: expected a list of at least one subtopic, found 3"),
        ({"summarizers": ["nobody/unheard-of"]}, "SPEC: model 'nobody/unheard-of' has no known price; add price: {input_per"),
        (
            {"limits": {"offline/led": {"rpm": 1}}},
            "SPEC: limits: nothing in the spec asks 'offline/led'; did you mean offline/lead?",
        ),
        (model(prompt="empty.txt"), "SPEC: prompt 'empty.txt': the prompt has no placeholder for the documents"),
        (model(prompt="nowhere.txt"), "SPEC: no file 'nowhere.txt' in "),
        (
            {"judges": [{"model": "offline/judge", "prompt": "empty.txt"}]},
            "SPEC: prompt 'empty.txt': the judge's prompt lacks [[INSIGHT]] and [[BULLETS]]",
        ),
        ({"haystacks": ["sample/news"] * 2}, "SPEC: haystacks: 'sample/news' is listed twice; remove one"),
        ({"retrievers": ["bm25"] * 2}, "SPEC: retrievers: 'bm25' is listed twice; remove one"),
        (
            {"summarizers": ["offline/lead"] * 2},
            "SPEC: summarizers[1]: 'offline/lead' is listed twice; give one of them",
        ),
        (
            {"summarizers": [{"model": "a/b", "name": name, "price": 0, "timeout_s": s} for name, s in (("x", 1.0), ("y", 2.0))]},
            "SPEC: 'a/b' is listed twice with different settings; give both entries the same price,",
        ),
    ],
)
def test_a_bad_spec(cli: Cli, tmp_path: Path, fields: dict[str, Any], line: str) -> None:
    write_json(tmp_path / "one.json", released())
    write_json(tmp_path / "same.json", released())
    write_json(tmp_path / "broken.json", {**released(), "subtopics": 3})
    (tmp_path / "empty.txt").write_text("Summarize.\n")
    spec, store = write_spec(tmp_path, {**SMALL, **fields}), tmp_path / "store"
    for command in ("plan", "run"):
        assert cli(command, spec, "--store", store, "--json").refusal.startswith(line.replace("SPEC", str(spec)))
    assert not store.exists()


@pytest.mark.parametrize(
    "fields",
    [
        model(extra={"api_key": KEY}),
        model(extra={"headers": {"Authorization": f"Bearer {KEY}"}}),
        model(extra={"metadata": [{"my_token": KEY}]}),
        model(api_key_env=KEY),
        model(api_key=KEY),
        model(api_base=f"http://me:{KEY}@127.0.0.1/v1"),
        model(api_base=f"http://127.0.0.1/v1?key={KEY}"),
    ],
)
def test_a_key_in_a_spec_is_refused_and_not_repeated(cli: Cli, tmp_path: Path, fields: dict[str, Any]) -> None:
    store = tmp_path / "store"
    line = cli("run", write_spec(tmp_path, {**SMALL, **fields}), "--store", store).refusal
    assert KEY not in line
    assert "api_key_env" in line or "keys do not belong in a spec" in line
    assert not store.exists()


@pytest.mark.parametrize("name", ["messages", "n", "max_completion_tokens"])
def test_extra_cannot_set_fields_that_are_decided_elsewhere(cli: Cli, tmp_path: Path, name: str) -> None:
    assert f"offline/lead: extra.{name}: " in cli("plan", write_spec(tmp_path, {**SMALL, **model(extra={name: 2})})).refusal


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("haystacks: [a\nretrievers: b: c\n", "line 2, column 11: not YAML: expected ',' or ']', but got ':'"),
        ("seed: 1\nname: x\nseed: 2\n", "line 3, column 1: not YAML: duplicate key 'seed'; remove one"),
        ("limits: {a: {rpm: 1}, a: {rpm: 2}}\n", "line 1, column 23: not YAML: duplicate key 'a'; remove one"),
        ('name: "\x01"\n', "not YAML: character '\\x01' is not allowed"),
        ('"\\e[31mred": 1\n', "\\x1b[31mred: unknown field; known: "),
        ("name: " + "[" * 3000 + "]" * 3000, "not YAML: nested too deeply"),
        (
            "haystacks: &a [*a]\n",
            "line 1, column 12: not YAML: more than 50,000 values or 100 levels",
        ),
        ("seed: " + "9" * 5000, "line 1, column 7: not YAML: a number of 5000 characters; make it shorter"),
        ("name: 2020-13-45\n", "not YAML: month must be in 1..12"),
        ("name: !!python/object/apply:os.system ['true']\n", "line 1, column 7: not YAML: could not determine a constructor"),
        ("", "expected a mapping of fields such as name: my-run, found an empty file"),
    ],
)
def test_text_that_is_no_spec(cli: Cli, tmp_path: Path, text: str, line: str) -> None:
    path = tmp_path / "spec.yaml"
    path.write_text(text, encoding="utf-8")
    store = tmp_path / "store"
    assert cli("run", path, "--store", store).refusal.startswith(f"{path}: {line}")
    assert not store.exists()


@pytest.mark.parametrize("extra", ["{a: 2020-01-01}", "{a: !!binary aGk=}", "{a: !!set {b, c}}", "{a: .nan}"])
def test_extra_holds_what_json_holds(cli: Cli, tmp_path: Path, extra: str) -> None:
    path = tmp_path / "spec.yaml"
    path.write_text(f"haystacks: [sample/news]\nretrievers: [bm25]\nsummarizers: [{{model: offline/lead, extra: {extra}}}]\n")
    assert cli("plan", path).refusal.startswith(f"{path}: offline/lead: extra: cannot be sent as JSON (")


@pytest.mark.parametrize(
    ("override", "line"),
    [
        ("seed", "--set seed: expected a.b=c, for example --set budget_usd=5"),
        ("seed=[", "--set seed=[: the value is not YAML"),
        ("retrievers.3=full", "--set retrievers.3=full: expected an index from 0 to 0 instead of '3'"),
        (
            "retrievers.0.x=full",
            "--set retrievers.0.x=full: retrievers.0 holds no fields, it is 'bm25'; set it whole, as in "
            "--set 'retrievers.0={x: full}'",
        ),
        ("seeed=3", "SPEC: seeed: unknown field; did you mean seed?"),
        ("retrievers.0=bm52", "SPEC: retrievers[0]: no retriever is named 'bm52'; did you mean 'bm25'?"),
    ],
)
def test_a_bad_override(cli: Cli, tmp_path: Path, override: str, line: str) -> None:
    spec = write_spec(tmp_path, SMALL)
    assert cli("plan", spec, "--set", override).refusal == line.replace("SPEC", str(spec))


def test_overrides_change_what_is_planned(cli: Cli, tmp_path: Path) -> None:
    spec = write_spec(tmp_path, {**SMALL, "limits": {"offline/lead": {"rpm": 5}}})
    plain = cli("plan", spec, "--json").document
    doubled = cli("plan", spec, "--json", "--set", "retrievers=[bm25, oracle]").document
    assert (plain["cells"], doubled["cells"]) == (4, 8)
    other = cli("plan", spec, "--json", "--set", "retrievers.0=oracle").document
    assert other["run"] != plain["run"]
    same = cli("plan", spec, "--json", "--set", 'limits."offline/lead".rpm=9', "--set", "budget_usd=1", "--set", "name=other")
    assert same.document["run"] == plain["run"]


def test_a_dot_in_a_name_is_quoted(cli: Cli, tmp_path: Path) -> None:
    priced = {"model": "a/b-1.5", "price": {"input_per_mtok": 1.0, "output_per_mtok": 1.0}}
    spec = write_spec(tmp_path, {**SMALL, "summarizers": [priced], "limits": {"a/b-1.5": {"rpm": 5}}})
    assert cli("plan", spec, "--set", 'limits."a/b-1.5".rpm=9').code == 0
    assert "unknown field" in cli("plan", spec, "--set", "limits.a/b-1.5.rpm=9").refusal


def test_the_store_is_not_touched_by_a_refusal_nor_by_a_plan(cli: Cli, tmp_path: Path) -> None:
    store = tmp_path / "store"
    cli("import", write_json(tmp_path / "x.json", released()), "--store", store)
    before = files_below(store)
    assert cli("run", write_spec(tmp_path, {**SMALL, "retrievers": ["x"]}), "--store", store).code == 2
    assert cli("plan", write_spec(tmp_path, SMALL), "--store", store).code == 0
    assert files_below(store) == before
