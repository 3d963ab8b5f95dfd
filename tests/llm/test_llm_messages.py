"""The messages between workers and the ledger are restored completely from the plain tuples that carry them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from summhay_ray.llm import News, WorkerMessage
from summhay_ray.llm.ledger_messages import Claim, Grant, Settlement
from summhay_ray.store import Excess, Location

pytestmark = pytest.mark.core

NAMES, WHOLE, SECONDS = st.text(max_size=4), st.integers(0, 2**40), st.floats(0, 1e6)
LOCATIONS = st.none() | st.builds(Location, NAMES, WHOLE, WHOLE)
PAIRS = st.none() | st.tuples(NAMES, NAMES)
EXCESSES = st.none() | st.builds(Excess, NAMES, WHOLE, WHOLE, WHOLE, WHOLE, SECONDS)
CLAIMS = st.builds(Claim, NAMES, NAMES, NAMES, WHOLE, WHOLE, WHOLE, WHOLE, st.booleans())
GRANTS = st.builds(
    Grant, st.sampled_from(["answered", "go", "budget", "stopped"]), LOCATIONS, SECONDS, st.booleans(), NAMES, NAMES
)
SETTLEMENTS = st.builds(
    Settlement,
    *(NAMES, NAMES, WHOLE, LOCATIONS, WHOLE, WHOLE, PAIRS, PAIRS),
    *(st.booleans(), st.booleans(), st.booleans(), st.none() | SECONDS, EXCESSES, st.booleans()),
)
MESSAGES = st.builds(
    WorkerMessage,
    st.lists(CLAIMS, max_size=2),
    st.lists(SETTLEMENTS, max_size=2),
    st.lists(NAMES, max_size=2),
)
NEWS = st.builds(
    News,
    st.lists(st.tuples(WHOLE, GRANTS), max_size=2).map(tuple),
    st.dictionaries(NAMES, SECONDS, max_size=2),
    st.lists(NAMES, max_size=2).map(tuple),
    st.booleans(),
    SECONDS,
    st.booleans(),
)


@given(MESSAGES)
def test_a_workers_message_comes_back(message: WorkerMessage) -> None:
    back = WorkerMessage.unpacked(message.packed())
    assert back == message
    assert all(isinstance(claim, Claim) for claim in back.claims)
    assert all(isinstance(done, Settlement) and isinstance(done.location, Location | None) for done in back.settlements)


@given(NEWS)
def test_the_ledgers_news_come_back(news: News) -> None:
    back = News.unpacked(news.packed())
    assert back == news
    assert all(isinstance(grant, Grant) and isinstance(grant.location, Location | None) for _, grant in back.grants)
