"""Inputs that no command can use: each is refused quickly, in one line."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from summhay_ray import api, inputs, yaml_text
from summhay_ray.errors import UserError
from summhay_ray.haystack import load_sample, read_released
from summhay_ray.simulator import read_keys
from summhay_ray.synth import load_domain

pytestmark = pytest.mark.core

SPEC: dict[str, Any] = {"haystacks": ["sample/news"], "retrievers": ["bm25"], "summarizers": ["offline/lead"]}
RANKED = {name: SPEC[name] for name in ("haystacks", "retrievers")}
LETTERS = "abcdefghi"


def repeated(first: str, item: str) -> str:
    """Nine lines of YAML that expand to a billion values."""
    lines = [f"a: &a {first}"]
    for before, name in zip(LETTERS, LETTERS[1:], strict=False):
        lines.append(f"{name}: &{name} {item.format(', '.join([f'*{before}'] * 10))}")
    return "\n".join(lines)


BOMBS = {
    "sequences": repeated("[x, x]", "[{}]"),
    "merges": repeated("{x: 1}", "{{<<: [{}]}}"),
    "chain": "a0: &a0 [x]\n" + "\n".join(f"a{n + 1}: &a{n + 1} [*a{n}]" for n in range(500)),
    "itself": "a: &a [*a]",
    "deep": "a: " + "[" * 5_000,
    "wide": "a: [" + "{}," * (yaml_text.MAX_VALUES + 1) + "]",
    "base 60": "a: " + ":".join(["1"] * 20_000),
    "tag": "a: !!bool x",
}


def refusal(call: Callable[[], object]) -> str:
    with pytest.raises(UserError) as refused:
        call()
    line = str(refused.value)
    assert "\n" not in line
    return line


@pytest.fixture
def special(tmp_path: Path) -> Iterator[dict[str, Path]]:
    """Files that never end, or that are no regular files."""
    pipe, folder = tmp_path / "pipe", tmp_path / "folder"
    os.mkfifo(pipe)
    folder.mkdir()
    with socket.socket(socket.AF_UNIX) as listening:
        before = Path.cwd()
        # A socket's path is short.
        os.chdir(tmp_path)
        listening.bind("socket")
        os.chdir(before)
        yield {"a pipe": pipe, "a folder": folder, "a socket": tmp_path / "socket"}


@pytest.fixture
def readers(tmp_path: Path) -> dict[str, Callable[[Path], object]]:
    """Every command that reads a user's file, by the kind of file."""
    store = str(tmp_path / "store")
    run = api.import_released(write(tmp_path / "news.json", load_sample("news")), store).run

    def as_part(**fields: Any) -> object:
        return api.load({**SPEC, **fields})

    synth = {"topics": ["a ferry"], "models": {"write": "offline/writer"}}
    return {
        "spec": lambda path: api.plan(path, store),
        "haystack": lambda path: as_part(haystacks=[str(path)]),
        "prompt": lambda path: as_part(summarizers=[{"model": "offline/lead", "prompt": str(path)}]),
        "import": lambda path: api.import_released(path, store),
        "verify": lambda path: api.verify(path),
        "annotations": lambda path: api.judge_bench(path, ["offline"], store),
        "biases": lambda path: api.score(run, store, bias=path),
        "labels": lambda path: api.audited(run, path, store),
        "domain": lambda path: load_domain(str(path)),
        "domain of a spec": lambda path: api.plan({**synth, "domain": str(path)}, store),
        "context": lambda path: api.plan({**synth, "topics": [{"topic": "a ferry", "context": [str(path)]}]}, store),
        "rejudge": lambda path: api.rejudge(run, (), store, spec=str(path)),
        "answers": lambda path: as_part(summarizers=[{"answers": str(path), "name": "mine"}]),
        "rankings": lambda path: as_part(retrievers=[{"run": str(path)}]),
        "relevance": lambda path: api.load({"kind": "retrieval", **RANKED, "qrels": str(path)}),
        "pairs": lambda path: api.load({"kind": "extract_evaluate", "pairs": [str(path)], "raters": ["offline/rater"]}),
        "records": lambda path: api.load({"kind": "ethic", "data": [str(path)], "models": ["offline/order"]}).run_id,
        "coverage": lambda path: api.coverage(path, (), store),
        "review": lambda path: api.accept(path, store=store),
        "cited answers": lambda path: api.support(path, store=store, documents=tmp_path),
        "simulator's keys": lambda path: read_keys(path),
    }


def write(path: Path, content: Any) -> Path:
    path.write_text(json.dumps(content), encoding="ascii")
    return path


@pytest.mark.timeout(60)
def test_what_is_no_regular_file_is_never_waited_for(special: dict[str, Path], readers: dict[str, Any], tmp_path: Path) -> None:
    for kind, path in special.items():
        for name, read in readers.items():
            target = path
            if name.startswith("domain"):
                target = tmp_path / f"{path.name}.yaml"
                if not target.is_symlink():
                    target.symlink_to(path)
            line = refusal(lambda read=read, target=target: read(target))
            mends = ("regular file", "name the JSON files in it", "give the path of a spec")
            assert kind in line and any(mend in line for mend in mends), (name, line)


@pytest.mark.parametrize("named", ["/proc/self/environ", "/dev/zero", "/sys/kernel/uevent_seqnum", "/proc/self/cwd/news.json"])
@pytest.mark.parametrize("linked", [False, True])
def test_what_tells_of_the_machine_is_no_data(
    named: str, linked: bool, readers: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, read in readers.items():
        path = tmp_path / f"link-{len(name)}.yaml"
        if linked:
            if "cwd" in named:
                return
            path.unlink(missing_ok=True)
            path.symlink_to(named)
        elif name.startswith("domain"):
            # A domain's file ends in .yaml.
            continue
        target = path if linked else Path(named)
        line = refusal(lambda read=read, target=target: read(target))
        assert str(target) in line and "is not data" in line, (name, line)


@pytest.mark.parametrize("item", ["{}", "[]", '"ab"', "0"])
def test_a_file_of_too_many_values_is_refused_before_they_take_memory(
    item: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(inputs.LIMIT, "2")
    most = 2 * inputs.VALUES_A_MB
    path = tmp_path / "many.json"
    path.write_text(f'{{"documents": [{", ".join([item] * (4 * most))}]}}')
    assert f"holds more than {most:,} values" in (line := refusal(lambda: api.verify(path))) and inputs.LIMIT in line
    monkeypatch.setenv(inputs.LIMIT, "64")
    assert "topic: expected this field" in refusal(lambda: api.verify(path))


def test_what_stands_in_a_string_is_no_value(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(inputs.LIMIT, "2")
    text = json.dumps({"text": ',[{"\\' * 100_000, "empty": [{}, [], {" ": [" "]}]})
    path = tmp_path / "text.json"
    path.write_text(text)
    assert inputs.read_json(path) == text.encode()


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "large.json"
    with path.open("wb") as stream:
        stream.truncate(100 * 2**30)
    line = refusal(lambda: api.verify(path))
    assert str(path) in line and f"{inputs.MAX_MB} MB" in line and inputs.LIMIT in line
    assert f"larger than {inputs.MAX_MB} MB" in refusal(lambda: api.load(path))
    monkeypatch.setenv(inputs.LIMIT, "many")
    assert f"{inputs.LIMIT} is 'many'; expected a number of MB" in refusal(lambda: api.verify(path))


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.soak if name in ("sequences", "wide") else []) for name in BOMBS]
)
def test_yaml_that_grows_is_refused_where_it_is_read(name: str, tmp_path: Path) -> None:
    path = tmp_path / "bomb.yaml"
    text = "\n".join(f"  {line}" for line in BOMBS[name].splitlines())
    spec = {**SPEC, "summarizers": [{"model": "offline/lead"}]}
    path.write_text(f"{yaml.safe_dump(spec)}limits:\n{text}\n")
    assert "not YAML" in refusal(lambda: api.load(path))
    # One reader reads both files; their many values take it seconds.
    if name != "wide":
        assert "not YAML" in refusal(lambda: load_domain(str(path)))


def test_aliases_of_a_common_size_are_read() -> None:
    assert yaml_text.load("a: &a {x: [1, 2]}\nb: *a\nc: {<<: *a, y: 3}") == {
        "a": {"x": [1, 2]},
        "b": {"x": [1, 2]},
        "c": {"x": [1, 2], "y": 3},
    }


# From here on: for any bytes, the result is an answer or a UserError.

PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
DATA = st.recursive(PLAIN, lambda one: st.lists(one, max_size=4) | st.dictionaries(st.text(max_size=8), one, max_size=4))
ANY = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


def changed(whole: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    """The mapping with some of its fields removed, or replaced by random values."""
    names = st.sampled_from(sorted(whole))
    values = st.dictionaries(names, DATA, max_size=3)
    return st.tuples(values, st.sets(names, max_size=2)).map(
        lambda drawn: {name: value for name, value in {**whole, **drawn[0]}.items() if name not in drawn[1]}
    )


def succeeds_or_tells(call: Callable[[], object]) -> None:
    try:
        call()
    except UserError as problem:
        assert str(problem)


@ANY
@given(st.binary(max_size=60) | st.text(alphabet="[]{}&*!<>:,-? \n\t'\"#|%@`a1.0x", max_size=80).map(str.encode))
def test_any_bytes_as_a_spec_a_domain_and_a_haystack(tmp_path: Path, content: bytes) -> None:
    for name in ("any.yaml", "any.json"):
        (tmp_path / name).write_bytes(content)
    succeeds_or_tells(lambda: api.load(tmp_path / "any.yaml"))
    succeeds_or_tells(lambda: load_domain(str(tmp_path / "any.yaml")))
    succeeds_or_tells(lambda: read_released(content, "any.json"))
    succeeds_or_tells(lambda: api.verify(tmp_path / "any.json"))
    succeeds_or_tells(lambda: api.judge_bench(tmp_path / "any.json", ["offline"], str(tmp_path / "store")))


@ANY
@given(changed({**SPEC, "orderings": ["given"], "judges": ["offline/judge"], "limits": {}, "seed": 1, "budget_usd": 1}))
def test_any_fields_as_a_spec(tmp_path: Path, fields: dict[str, Any]) -> None:
    path = tmp_path / "spec.yaml"
    path.write_text(yaml.safe_dump(fields, allow_unicode=False), encoding="utf-8")
    succeeds_or_tells(lambda: api.load(path))


@ANY
@given(changed(load_sample("news")))
def test_any_fields_as_a_haystack(fields: dict[str, Any]) -> None:
    succeeds_or_tells(lambda: read_released(json.dumps(fields), "any.json"))
