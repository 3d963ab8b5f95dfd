"""The release's keys for systems, read and written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from summhay_ray.haystack import RELEASED_RETRIEVERS, parse_system, system_key
from summhay_ray.haystack.identity import PREFIX, System

pytestmark = pytest.mark.core


@pytest.mark.parametrize(
    ("key", "retriever", "ordering", "model"),
    [
        ("summary_subtopic_dwzhu/e5-base-4k_gemini-1.5-pro", "dwzhu/e5-base-4k", "given", "gemini-1.5-pro"),
        ("summary_subtopic_keywords_command-r-plus", "keywords", "given", "command-r-plus"),
        ("summary_subtopic_oracle_my_own_model", "oracle", "given", "my_own_model"),
        ("summary_subtopic_gpt-4o", "full", "given", "gpt-4o"),
        ("summary_subtopic_fl-ctxt-sort_claude3-opus", "full", "top", "claude3-opus"),
        ("summary_subtopic_fl-ctxt-rev-sort_claude3-opus", "full", "bottom", "claude3-opus"),
        ("summary_subtopic_fl-ctxt-middle_gpt-4o", "full", "middle", "gpt-4o"),
        ("summary_subtopic_fl-ctxt-random_gpt_4o", "full", "random", "gpt_4o"),
        ("summary_subtopic_unheard_gpt-4o", "full", "given", "unheard_gpt-4o"),
        ("keywords_gpt-4o", "keywords", "given", "gpt-4o"),
        ("summary_subtopic_keywords_", "full", "given", "keywords_"),
        ("summary_subtopic_keywords", "full", "given", "keywords"),
        ("summary_subtopic_", "full", "given", ""),
    ],
)
def test_keys_of_the_release(key: str, retriever: str, ordering: str, model: str) -> None:
    system = key.removeprefix(PREFIX)
    assert parse_system(key) == System(system, retriever, ordering, model)
    assert system_key(retriever, ordering, model) == system


def test_the_longest_retriever_name_wins() -> None:
    retrievers = ["my", "my_own", "my_own/deep_one"]
    assert parse_system("my_own/deep_one_m_1", retrievers).model == "m_1"
    assert parse_system("my_own_m", retrievers).retriever == "my_own"
    assert parse_system("my_m", retrievers).retriever == "my"
    assert parse_system("my_m", []).model == "my_m"
    assert parse_system("full_m", ["full"]).model == "full_m"


def test_names_of_a_spec_lose_where_they_come_from() -> None:
    assert system_key("released/dwzhu/e5-base-4k", "given", "replay/gpt-4o") == "dwzhu/e5-base-4k_gpt-4o"
    assert system_key("full", "given", "replay/gpt-4o") == "gpt-4o"
    assert system_key("full", "top", "openai/gpt-4o") == "fl-ctxt-sort_openai/gpt-4o"
    assert system_key("none", "given", "offline/support") == "none_offline/support"


def test_repeats() -> None:
    assert parse_system("summary_subtopic_keywords_m#12") == System("keywords_m", "keywords", "given", "m", 12)
    assert parse_system("m#0") == System("m#0", "full", "given", "m#0")
    assert parse_system("m#x") == System("m#x", "full", "given", "m#x")


NAMES = st.text(alphabet="abs_/-.1#", max_size=8)


KNOWN = st.builds("{}_{}".format, st.sampled_from([*RELEASED_RETRIEVERS, "fl-ctxt-sort", "fl-ctxt-other"]), NAMES)


@given(NAMES | KNOWN, st.lists(NAMES))
def test_a_key_read_and_written_is_the_same_key(key: str, retrievers: list[str]) -> None:
    system = parse_system(PREFIX + key, retrievers)
    repeat = f"#{system.repeat}" if system.repeat else ""
    assert system_key(system.retriever, system.ordering, system.model) + repeat == system.system + repeat == key
