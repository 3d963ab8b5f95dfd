"""On Ray, a pool answers the items that ask no provider, while workers make calls: the tables are those of one process."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from paid_runs import KEY_ENV, Office, logged
from simulated_provider import KEY, in_thread

from summhay_ray.engine.items import Item
from summhay_ray.engine.ray.pools import blocks_of
from summhay_ray.simulator import offline_answer


@pytest.mark.core
@given(st.lists(st.tuples(st.integers(1, 9), st.sampled_from("abc")), max_size=40), st.integers(1, 20))
def test_a_block_is_whole_sources_that_read_the_same(sizes: Sequence[tuple[int, str]], most: int) -> None:
    sources = [
        [Item(f"{place}/{n}", source=str(place), reads=reads) for n in range(size)] for place, (size, reads) in enumerate(sizes)
    ]
    found = list(blocks_of(sources, most))
    assert sorted(item.id for block in found for item in block) == sorted(item.id for items in sources for item in items)
    for block in found:
        assert len({item.reads for item in block}) == 1
        assert len(block) <= most or len({item.source for item in block}) == 1
    assert sum(len({item.source for item in block}) for block in found) == len(sources)


COUNTED = """
import os
from pathlib import Path

from summhay_ray.retrieve.base import Ranked


class Counted:
    name = "counted"
    whole = False

    def __init__(self, argument="", seed=0):
        pass

    def rank(self, subtopic, haystack):
        (Path(__file__).parent / "searched" / f"{os.getppid()}-{os.urandom(8).hex()}").write_text(subtopic.subtopic_id)
        return [Ranked(number, 1.0) for number in range(1, 9)]
"""


@pytest.mark.ray
def test_a_grid_of_free_and_called_models_prepares_a_source_once_and_has_the_tables_of_one_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY_ENV, KEY)
    (own := tmp_path / "own" / "searched").mkdir(parents=True)
    (own.parent / "counted.py").write_text(COUNTED)
    monkeypatch.syspath_prepend(own.parent)
    monkeypatch.setenv("PYTHONPATH", str(own.parent), prepend=os.pathsep)
    with in_thread(offline_answer(), cache_lifetime=0.0) as simulated:
        provider = Office(simulated, tmp_path / "specs", {}, 0, 0.0)
        models = [{"model": "openai/writer", "api_base": simulated.base, "api_key_env": KEY_ENV, "price": 0}]
        changes = {
            "retrievers": ["counted:Counted", "full"],
            "summarizers": [*models, "offline/lead"],
            "judges": ["offline/judge"],
            "limits": {},
            "workers": {"min": 1, "max": 2},
        }
        alone, pooled = tmp_path / "alone", tmp_path / "pooled"
        one = provider.again(provider.spec(**changes), alone)
        before = provider.served()
        found = provider.again(provider.spec(**changes), pooled, "ray")
        assert provider.tables_of(found, pooled) == provider.tables_of(one, alone)
        assert provider.served() - before == 8 and set(logged(pooled).values()) == {1}
        # The command is a child of this process and has the plan; actors are children of Ray.
        actors = [path for path in own.iterdir() if int(path.name.partition("-")[0]) not in (os.getpid(), os.getppid())]
        assert len(actors) == 4 == len({path.read_text() for path in actors})
        again = provider.again(provider.spec(**changes), pooled)
        assert again["calls"]["made"] == 0
