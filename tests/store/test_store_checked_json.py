"""JSON with its own hash: if any byte changes, readers get the written value or nothing."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from summhay_ray.store import read_checked, with_hash

pytestmark = pytest.mark.core

TEXTS = st.text(max_size=8)
BODIES = st.dictionaries(
    TEXTS.filter(lambda name: name != "sha256"),
    st.one_of(TEXTS, st.integers(), st.booleans(), st.none(), st.lists(TEXTS, max_size=3)),
    max_size=4,
)


@given(BODIES, st.sampled_from([None, 1]))
def test_what_is_written_is_read(body: dict[str, Any], indent: int | None) -> None:
    assert read_checked(with_hash(body, indent), dict) == body


@given(BODIES, st.sampled_from([None, 1]), st.data())
def test_a_changed_or_lost_byte_is_seen_or_changes_nothing(body: dict[str, Any], indent: int | None, data: st.DataObject) -> None:
    content = with_hash(body, indent)
    place = data.draw(st.integers(0, len(content) - 1))
    changed = bytes([content[place] ^ data.draw(st.integers(1, 255))])
    for damaged in (content[:place], content[:place] + content[place + 1 :], content[:place] + changed + content[place + 1 :]):
        found = read_checked(damaged, dict)
        # A blank may change, and the name of the hash itself, which is then an unknown field.
        assert found is None or body.items() <= found.items()


def test_what_has_no_hash_that_fits_is_nothing() -> None:
    for none in (b"", b"[]", b"1", b"{", b"{}", b'{"kind": "grid"}', b'{"kind": "grid", "sha256": "0"}', b"\xff"):
        assert read_checked(none, dict) is None
