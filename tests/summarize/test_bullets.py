"""Bullets: the non-empty lines of an answer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from summhay_ray.summarize import bullets_of, refuses

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
        ("- one [1]\n\nReferences:\n[1] a.txt\n[2] b.txt", ("- one [1]",)),
        ("- one [1]\n## Sources\n1. The minutes of May\n2. http://example.org/a", ("- one [1]",)),
        ("one [1]\nSources: [1], [2]", ("one [1]",)),
        ("one[^1]\n[^1]: The minutes of May", ("one[^1]",)),
        ("1. a.txt\n2. two [2]", ("2. two [2]",)),
        ("Sources:\n- a.txt\nAt last [2].", ("At last [2].",)),
        *[
            (f"- one [1]\n---\n{heading}\n[Doc 1] The minutes\n- Document 2: The report", ("- one [1]",))
            for heading in ("**Quellen:**", "Références :", "参考文献：", "Sources used (2):", "Источники:", "List of sources:")
        ],
        ("- one [1]\nSource: Document 1; Doc 3", ("- one [1]",)),
        ("Sources: The ministry says one [1]\n- two", ("Sources: The ministry says one [1]", "- two")),
        ("References to one [1]", ("References to one [1]",)),
    ],
)
def test_lines(text: str, bullets: tuple[str, ...]) -> None:
    assert bullets_of(text) == bullets


@given(st.text())
def test_every_bullet_is_a_stripped_line_in_order(text: str) -> None:
    bullets = bullets_of(text)
    assert all(bullet and bullet == bullet.strip() and "\n" not in bullet for bullet in bullets)
    assert bullets_of("\n".join(bullets)) == bullets
    assert set(bullets) <= {line.strip() for line in text.split("\n")}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I'm sorry, but I can't help with that.", True),
        ("I cannot provide a summary of these documents.", True),
        ("Unfortunately, I am unable to assist with this request.", True),
        ("- I cannot help but notice that the tram reopened in May. [3]", False),
        ("- The council will not provide new trams. [1][2]", False),
        ("- Sorry states of repair were found on 12 bridges.", False),
        ("- The tram reopened in May.\n" * 60, False),
    ],
)
def test_a_refusal_in_words_is_distinguished_from_a_summary(text: str, expected: bool) -> None:
    assert refuses(text) is expected
