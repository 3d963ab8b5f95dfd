"""A spec from somebody else runs no code of its own, reads nothing outside its folder, and sends no key elsewhere."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from summhay_ray import api
from summhay_ray.engine import JobOrder, SpecError, package
from summhay_ray.errors import UserError
from summhay_ray.haystack import load_sample

pytestmark = pytest.mark.core

SPEC: Mapping[str, Any] = {"haystacks": ["sample/news"], "retrievers": ["full"], "summarizers": ["offline/lead"]}
RATED = {"kind": "extract_evaluate", "pairs": ["sample/pairs"], "raters": ["offline/rater"]}
SYNTH = {"kind": "synth", "topics": ["a ferry"], "models": {"write": "offline/writer"}}
ETHIC = {"kind": "ethic", "models": ["offline/order"]}
PAID = {"price": {"input_per_mtok": 1, "output_per_mtok": 1}}
MODULE = """
from pathlib import Path
Path(__file__).with_name("imported").touch()
class Own:
    name, whole = "own", False
    def __init__(self, *told): pass
    def rank(self, *told): return []
    def score(self, texts): return []
    async def judge(self, *told): return []
    async def summarize(self, *told): return None
"""
CODE: list[dict[str, Any]] = [
    {"kind": "hostile:Own"},
    {"retrievers": ["hostile:Own/argument"]},
    {"retrievers": [{"fuse": ["bm25", {"fuse": ["bm25", "hostile:Own"]}]}]},
    {"orderings": ["hostile:Own"]},
    {"strategies": ["hostile:Own"]},
    {"summarizers": [{"model": "offline/lead", "strategy": {"strategy": "hostile:Own"}}]},
    {"judges": ["hostile:Own"]},
    {"judges": [{"model": "offline/judge", "strategy": "cascade(offline,hostile:Own,0.1)"}]},
    {"judges": [{"model": "offline/judge", "strategy": "per_insight", "extract": {"method": "hostile:Own"}}]},
    {
        "judges": [
            {"model": "offline/judge", "strategy": "per_insight", "extract": {"method": "hostile:Own", "content": "0" * 64}}
        ]
    },
    {**RATED, "methods": ["hostile:Own"]},
    {**RATED, "metrics": ["hostile:Own"]},
    {**RATED, "raters": [{"model": "offline/rater", "extract": {"method": "hostile:Own"}}]},
    {"kind": "coverage", "of": "inner.yaml"},
]


def load(folder: Path, untrusted: bool = True, **fields: Any) -> Any:
    """The workload of a spec in a folder."""
    whole = fields if "kind" in fields else {**SPEC, **fields}
    (folder / "spec.yaml").write_text(yaml.safe_dump(whole), encoding="utf-8")
    return api.load(folder / "spec.yaml", store=str(folder / "store"), untrusted=untrusted)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A spec's folder as the current folder, with code in it, and a haystack, prompt, ... outside it."""
    here = tmp_path / "got"
    (here / "links").mkdir(parents=True)
    (here / "hostile.py").write_text(MODULE, encoding="ascii")
    (here / "inner.yaml").write_text(yaml.safe_dump({**SPEC, "retrievers": ["hostile:Own"]}), encoding="ascii")
    for place in (tmp_path, here):
        (place / "news.json").write_text(json.dumps(load_sample("news")), encoding="utf-8")
        (place / "prompt.txt").write_text("[ARTICLES] say what about [QUERY]? [N_insights] bullets.\n", encoding="utf-8")
        (place / "synth.yaml").write_text(yaml.safe_dump(SYNTH), encoding="utf-8")
        (place / "model").mkdir()
        (place / "model" / "config.json").write_text("{}", encoding="utf-8")
        (place / "texts" / "documents").mkdir(parents=True)
        (place / "texts" / "documents" / "a.txt").write_text("A ferry.", encoding="utf-8")
        (place / "texts" / "queries.jsonl").write_text('{"query_id": "q", "text": "ferry"}\n', encoding="utf-8")
    for name in ("news.json", "prompt.txt", "synth.yaml", "model", "texts"):
        (here / "links" / name).symlink_to(tmp_path / name)
    monkeypatch.chdir(here)
    monkeypatch.delitem(sys.modules, "hostile", raising=False)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return here


@pytest.mark.parametrize("fields", CODE)
def test_its_code_is_not_imported(fields: dict[str, Any], folder: Path) -> None:
    with pytest.raises(UserError, match=r"'hostile:Own.*--untrusted"):
        load(folder, **fields)
    assert not (folder / "imported").exists() and str(folder) not in sys.path


def test_own_code_is_imported_from_the_current_folder_only_if_it_is_named(folder: Path) -> None:
    load(folder, untrusted=False)
    assert str(folder) not in sys.path
    load(folder, untrusted=False, retrievers=["hostile:Own"])
    assert (folder / "imported").exists()


def named(place: str) -> list[tuple[dict[str, Any], str]]:
    """Specs that name something in a place, and the kind of the thing."""
    return [
        ({"haystacks": [f"{place}news.json"]}, "news.json"),
        ({"haystacks": [f"{place}synth.yaml"]}, "synth.yaml"),
        ({"summarizers": [{"model": "offline/lead", "prompt": f"{place}prompt.txt"}]}, "prompt.txt"),
        ({"summarizers": [{"answers": f"{place}prompt.txt", "name": "given"}]}, "prompt.txt"),
        ({"retrievers": [{"run": f"{place}prompt.txt"}]}, "prompt.txt"),
        ({"retrievers": [{"embed": f"{place}model"}]}, "model"),
        ({"summarizers": [f"transformers/{place}model"]}, "model"),
        ({**RATED, "methods": ["nli"], "models": {"nli": f"{place}model"}}, "model"),
        ({"kind": "support", "of": "r1", "judge": f"cascade(offline,panel(nli/{place}model,offline),0.1)"}, "model"),
        ({**RATED, "metrics": [{"bartscore": f"{place}model"}]}, "model"),
        ({"kind": "odsum", "corpus": f"{place}texts", "retrievers": ["bm25"]}, "texts"),
        ({"kind": "retrieval", "corpora": [f"{place}texts"], "retrievers": ["bm25"]}, "texts"),
        ({"kind": "coverage", "of": f"{place}synth.yaml"}, "synth.yaml"),
        ({"kind": "coverage", "of": "nested.yaml", "overrides": [f"haystacks=[{place}news.json]"]}, "news.json"),
        ({**SYNTH, "domain": f"{place}synth.yaml"}, "synth.yaml"),
        ({**ETHIC, "data": [f"{place}prompt.txt"]}, "prompt.txt"),
    ]


@pytest.mark.parametrize("how", ["..", "absolute", "a link", "from home"])
def test_nothing_outside_its_folder_is_read(how: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(folder.parent))
    (folder / "nested.yaml").write_text(yaml.safe_dump(dict(SPEC)), encoding="utf-8")
    place = {"..": "../", "absolute": f"{folder.parent}/", "a link": "links/", "from home": "~/"}[how]
    for fields, name in named(place):
        with pytest.raises(UserError) as refused:
            load(folder, **fields)
        line = str(refused.value)
        # A home's ~ is expanded for model folders only; elsewhere there is no file of this name.
        assert name in line and ("is outside" in line or "no f" in line), (fields, line)
        assert "is outside" in line or how == "from home", (fields, line)


def test_no_file_of_its_model_leads_out(folder: Path) -> None:
    (folder / "model" / "vocab.txt").symlink_to("/etc/passwd")
    for fields in ({"retrievers": [{"embed": "model"}]}, {"summarizers": ["transformers/./model"]}):
        with pytest.raises(SpecError, match=r"vocab\.txt: is outside"):
            load(folder, **fields)


def test_what_lies_in_its_folder_is_the_same_run_as_for_a_trusted_spec(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fields = {
        "haystacks": ["news.json"],
        "summarizers": [{"model": "offline/lead", "prompt": "prompt.txt"}],
        "executor": "inline",
    }
    trusted = load(folder, untrusted=False, **fields)
    (tmp_path / "linked").symlink_to(folder)
    monkeypatch.chdir(tmp_path)
    for place in (folder, tmp_path / "linked"):
        assert load(place, **fields).run_id == trusted.run_id
    done = api.run(folder / "spec.yaml", str(tmp_path / "store"), untrusted=True)
    assert (done.run, done.status) == (trusted.run_id, "done")
    # A file of the current folder is not the spec's.
    (tmp_path / "only-here.json").write_text(json.dumps(load_sample("news")), encoding="utf-8")
    assert load(folder, untrusted=False, haystacks=["only-here.json"])
    with pytest.raises(SpecError, match="no file 'only-here.json'"):
        load(folder, haystacks=["only-here.json"])


FAR = "https://models.example.org/v1"


@pytest.mark.parametrize(
    ("entry", "refused"),
    [
        ({"model": "openai/m", "api_key_env": "AWS_SECRET_ACCESS_KEY"}, "api_key_env"),
        ({"model": "openai/m", "api_key_env": "ANTHROPIC_API_KEY", "api_base": FAR}, "api_key_env"),
        ({"model": "openai/m", "api_key_env": "OPENAI_API_KEY", "api_base": FAR}, "api_base"),
        ({"model": "unheard/m", "api_key_env": "UNHEARD_API_KEY", "api_base": "http://127.0.0.1:1/v1"}, "api_key_env"),
        ({"model": "litellm_proxy/m", "api_base": FAR}, "api_base"),
        ({"model": "openai/m", "api_key_env": "OPENAI_API_KEY"}, ""),
        ({"model": "openai/m", "api_key_env": "OPENAI_API_KEY", "api_base": "https://api.openai.com/v1"}, ""),
        ({"model": "openai/m", "api_base": FAR}, ""),
        ({"model": "hosted_vllm/m", "api_base": "http://127.0.0.1:8000/v1"}, ""),
    ],
)
def test_a_key_stays_with_its_provider(entry: dict[str, Any], refused: str, folder: Path) -> None:
    for fields in ({"summarizers": [{**entry, **PAID}]}, {"judges": [{**entry, **PAID}]}, {"retrievers": [embedder(entry)]}):
        if refused:
            with pytest.raises(SpecError, match=f"{refused}.*--untrusted"):
                load(folder, **fields)
        load(folder, untrusted=bool(not refused), **fields)


def embedder(entry: Mapping[str, Any]) -> dict[str, Any]:
    """The entry as an embedding model."""
    return {
        "embed": entry["model"],
        **{name: value for name, value in entry.items() if name != "model"},
        "price": {"input_per_mtok": 1},
    }


def test_the_stores_credentials_go_to_no_service_that_it_names(folder: Path) -> None:
    with pytest.raises(SpecError, match="endpoint_url"):
        load(folder, endpoint_url="https://s3.example.org")


def test_a_job_is_as_untrusted_as_its_spec(folder: Path) -> None:
    assert JobOrder("s3://bucket/store", untrusted=True).entrypoint().endswith(" --untrusted")
    # On the cluster, Python looks for modules first among the job's files.
    prompt = (folder / "prompt.txt").read_text(encoding="utf-8")
    (folder / "json.py").write_text(prompt, encoding="utf-8")
    fields = {"summarizers": [{"model": "offline/lead", "prompt": "json.py"}]}
    with pytest.raises(package.UserError, match=r"json\.py"):
        package.pack(load(folder, **fields))
    package.pack(load(folder, untrusted=False, **fields))
