"""The functions of the retrieve room: names, arguments, users' own classes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from summhay_ray import plugins, retrieve
from summhay_ray.records import Haystack

pytestmark = pytest.mark.core

NAMES = ["bm25", "full", "keywords", "longe", "none", "oracle", "random", "released", "rerank3", "vector"]
OWN = """
from summhay_ray.retrieve import Ranked

class Backwards:
    name = "backwards"
    whole = False

    def __init__(self, argument="", seed=0):
        self.argument, self.seed = argument, seed

    def rank(self, subtopic, haystack):
        return [Ranked(document.number, 0.0) for document in reversed(haystack.documents)]

class Rankless:
    whole = False

class Undecided:
    def rank(self, subtopic, haystack):
        return []
"""


def test_the_known_names() -> None:
    assert retrieve.known() == NAMES


@pytest.mark.parametrize(
    "name", ["bm25", "full", "keywords", "longe", "none", "oracle", "random", "released/vector", "rerank3", "vector"]
)
def test_every_name_makes_a_retriever_that_says_whether_it_is_the_whole_haystack(name: str) -> None:
    retriever = retrieve.make(name, seed=7)
    assert retriever.name == name.partition("/")[0]
    assert type(retriever).__dict__["whole"] is (name == "full")


def test_the_argument_is_everything_behind_the_first_slash() -> None:
    assert vars(retrieve.make("released/dwzhu/e5-base-4k", seed=0))["argument"] == "dwzhu/e5-base-4k"
    assert vars(retrieve.make("released/a:b", seed=0))["argument"] == "a:b"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("bm26", "did you mean 'bm25'"),
        ("relased/vector", "did you mean 'released'"),
        ("", "no retriever is named ''; known: bm25, full"),
        ("/vector", "no retriever is named ''"),
        ("released", "write released/NAME"),
        ("released/", "ends in a slash"),
        ("bm25/", "ends in a slash"),
        ("bm25/foo", "'bm25' takes nothing behind a slash; leave '/foo' out"),
        ("none/x", "'none' takes nothing"),
        ("words", "no retriever is named 'words'"),
        ("vector/x", "or write {embed: x}"),
        ("no_such_module:Retriever", "cannot be imported"),
        ("json:dumps", "is not a retriever"),
        ("own_retrievers:Rankless", "is not a retriever"),
        ("own_retrievers:Undecided", "is not a retriever"),
    ],
)
def test_a_wrong_name_is_refused_in_one_line(name: str, message: str, own: None) -> None:
    with pytest.raises(plugins.UnknownName, match=message) as caught:
        retrieve.make(name, seed=0)
    assert "\n" not in str(caught.value)


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_retrievers.py").write_text(OWN)
    monkeypatch.syspath_prepend(str(tmp_path))


def test_an_own_class_needs_no_file_in_the_room(own: None, make_haystack: Callable[..., Haystack]) -> None:
    haystack = make_haystack("a", "b", "c")
    retriever = retrieve.make("own_retrievers:Backwards/deep/er", seed=5)
    assert vars(retriever) == {"argument": "deep/er", "seed": 5}
    assert [found.number for found in retriever.rank(haystack.subtopics[0], haystack)] == [3, 2, 1]


def test_the_room_is_light_to_import() -> None:
    heavy = {"nltk", "rank_bm25", "numpy", "polars", "ray"}
    script = f"import sys, summhay_ray.retrieve as room; room.known(); assert not {heavy} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
