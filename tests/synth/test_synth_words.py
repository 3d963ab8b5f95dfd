"""Numbers, dates, names and words are read as the same value in every form, from any text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from summhay_ray.synth.checking.words import quoted, read

pytestmark = pytest.mark.core

SMALL_NAMES = """
    zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen
    nineteen
"""
TEN_NAMES = "zero ten twenty thirty forty fifty sixty seventy eighty ninety"
SMALL, TENS = SMALL_NAMES.split(), TEN_NAMES.split()


def in_words(number: int) -> str:
    """English, below a million."""
    if number < 20:
        return SMALL[number]
    if number < 100:
        return TENS[number // 10] + (f"-{SMALL[number % 10]}" if number % 10 else "")
    if number < 1000:
        return f"{SMALL[number // 100]} hundred" + (f" and {in_words(number % 100)}" if number % 100 else "")
    rest = number % 1000
    return f"{in_words(number // 1000)} thousand" + (f" {in_words(rest)}" if rest else "")


@given(st.integers(2, 999_999))
def test_a_number_has_the_same_value_in_digits_and_in_words(number: int) -> None:
    ways = [str(number), f"{number:,}", f"{number:,}".replace(",", "\u202f"), f"{number:,}".replace(",", "'"), in_words(number)]
    for way in ways:
        assert read(f"They counted {way} of them.").numbers == {str(number)}, way


@given(st.integers(2, 99), st.sampled_from([("thousand", 3), ("million", 6), ("billion", 9)]))
def test_scales_multiply(number: int, scale: tuple[str, int]) -> None:
    expected = {str(number * 10 ** scale[1])}
    assert read(f"{number} {scale[0]} euros").numbers == expected
    assert read(f"{in_words(number)} {scale[0]} euros").numbers == expected


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("1.5 million", {"1500000"}),
        ("$15bn", {"15000000000"}),
        ("$5m", {"5000000"}),
        ("15k", {"15000"}),
        ("1.234,5 litres", {"1234.5"}),
        ("1,5 litres", {"1.5"}),
        ("the 25-5 technique", {"25", "5"}),
        ("the 3rd of 12", {"3", "12"}),
        ("in May 2023 300 units", {"month:5", "2023", "300"}),
        ("one of the best", set()),
    ],
)
def test_numbers(text: str, numbers: set[str]) -> None:
    assert read(text).numbers == numbers


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("two hours", "120 minutes"),
        ("a 1.66-second 0-60 mph time", "from 0 to 60 mph in 1.66 seconds"),
        ("about 3 days", "at least 72 hours"),
        ("a quarter of the people", "25 % of the people"),
    ],
)
def test_numbers_in_other_units_match(one: str, other: str) -> None:
    left, right = read(one), read(other)
    assert left.numbers <= right.numbers and right.numbers <= left.numbers | left.loose


def test_round_numbers_match_in_words() -> None:
    assert read("A hundred people came.").loose == {"100"}


@pytest.mark.parametrize(
    "text", ["on 30 September 2023", "on September 30, 2023", "on September 30th, 2023", "2023-09-30", "30 Sept. 2023"]
)
def test_a_date_has_the_same_value_in_every_form(text: str) -> None:
    assert read(text).numbers == {"30", "month:9", "2023"}


@pytest.mark.parametrize(
    ("text", "month"), [("They may march.", False), ("May was wet.", False), ("in May", True), ("5 May", True)]
)
def test_months_that_are_words(text: str, month: bool) -> None:
    assert ("month:5" in read(text).numbers) == month


def test_times_match_in_another_form() -> None:
    assert read("at 9:30").numbers == {"9:30"}
    assert "8:15" in read("at 20:15").loose
    assert read("at 8:00").numbers == read("at eight").numbers == {"8"}


def test_units_of_money_and_share_are_words() -> None:
    assert read("$28").roots == read("28 dollars").roots == read("28 USD").roots
    assert read("25%").roots == read("25 per cent").roots == read("25 percent").roots


def test_loose_numbers_match_but_need_no_match() -> None:
    both = read("Both sides signed in the third round.")
    assert both.loose == {"2", "3"} and not both.numbers


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("The talk by Amara Quill of Kelda begins.", [("amara", "quil"), ("kelda",)]),
        ("Amara Quill speaks.", [("amara", "quil")]),
        ("Banks may demand more.", []),
        ("They run on E85 fuel.", [("e85",)]),
        ("Two EVs and an EV.", [("ev",), ("ev",)]),
        ("On Saturday in June I go.", []),
        ("Imke: Yes. He said: Go on.", []),
    ],
)
def test_names(text: str, names: list[tuple[str, ...]]) -> None:
    assert list(read(text).names) == names


def test_words_of_the_same_root_are_equal() -> None:
    assert len(set(read("prescribe prescribes prescribed Prescription").roots)) == 1
    assert len(set(read("policies policy").roots)) == len(set(read("rose risen").roots)) == 1
    assert read("Dodge's").roots == read("Dodge").roots


def test_a_script_without_blanks_is_cut_into_characters() -> None:
    reading = read("人口は25万人")
    assert reading.roots == ("人", "口", "は", "万", "人") and reading.numbers == {"25"}


@given(st.text(max_size=200))
def test_any_text_is_read(text: str) -> None:
    reading = read(text)
    assert all(reading.roots) and all(reading.names)
    assert read(text) == reading


DOCUMENT = "They'll be replaced by November, she said. Her group, the Friends of the Quay, collected 4,800 signatures in 2021."


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("collected 4,800 signatures in 2021", True),
        ("**Her group**, the Friends ... 4,800 signatures", True),
        ('The text says: "the Friends of the Quay, collected 4,800 signatures"', True),
        ("Her group (the Friends of the Quay) collected 4,800 signatures", True),
        ("“They’ll be replaced by November” / 4,800 signatures in 2021", True),
        ("Her group gathered some thousand names last year", False),
        ("lorem ipsum dolor sit amet", False),
        ("signatures of the group were counted by November in Paris", False),
        ("", False),
        ("...", False),
    ],
)
def test_a_quotation_may_differ_in_punctuation_and_by_a_slip(words: str, found: bool) -> None:
    assert quoted(words, DOCUMENT) == found
