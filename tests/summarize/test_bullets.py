"""Bullets: the non-empty lines of an answer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from summhay_ray.summarize import bullets_of

pytestmark = pytest.mark.core


@pytest.mark.parametrize(
    ("text", "bullets"),
    [
        ("", ()),
        (" \n\t\n\r\n", ()),
        ("- one [1]\n- two [2]", ("- one [1]", "- two [2]")),
        ("Here they are:\r\n\r\n  * one [1]  \r\n", ("Here they are:", "* one [1]")),
        # Only the line feed ends a line, as in the release: other breaks stay inside a bullet.
        ("- one\u2028still one\x0bstill one", ("- one\u2028still one\x0bstill one",)),
        ("- one\rstill one", ("- one\rstill one",)),
        ("no bullet mark", ("no bullet mark",)),
    ],
)
def test_lines(text: str, bullets: tuple[str, ...]) -> None:
    assert bullets_of(text) == bullets


@given(st.text())
def test_every_bullet_is_a_stripped_line_in_order(text: str) -> None:
    bullets = bullets_of(text)
    assert all(bullet and bullet == bullet.strip() and "\n" not in bullet for bullet in bullets)
    assert bullets_of("\n".join(bullets)) == bullets
    assert len(bullets) == sum(1 for line in text.split("\n") if line.strip())
