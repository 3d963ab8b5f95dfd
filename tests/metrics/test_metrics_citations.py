"""The citation parser: examples of each spelling, and properties of arbitrary text."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from summhay_ray.metrics import by_number, extract_citations, read_citations
from summhay_ray.metrics.citation_parsing import MAX_RANGE

pytestmark = pytest.mark.core

CITING_TEXT = st.text(alphabet=st.sampled_from(list("[]【】［］(),;&#-–—  \t19024７٣andoc.ArticlesxE:\n")), max_size=60)
NUMBERS = st.lists(st.integers(1, 300), min_size=1, max_size=8)


@pytest.mark.parametrize(
    ("bullet", "cited"),
    [
        ("Breaks help [79,11,46,53,54].", (11, 46, 53, 54, 79)),
        ("Breaks help [11, 8, 11], again [8].", (8, 11)),
        ("Breaks help [ 8 , 11 ,].", (8, 11)),
        ("A document that no haystack has [0][2023][007].", (0, 7, 2023)),
        ("A thousand in brackets [1,025].", (1, 25)),
        ("Digits of another script [７,٣].", (3, 7)),
    ],
)
def test_both_modes_read_plain_brackets(bullet: str, cited: tuple[int, ...]) -> None:
    assert extract_citations(bullet, "release") == cited
    assert extract_citations(bullet, "default") == cited


@pytest.mark.parametrize(
    ("bullet", "cited"),
    [
        ("[1-3]", (1, 2, 3)),
        ("[1—3, 7]", (1, 2, 3, 7)),
        ("[1 - 3]", (1, 2, 3)),
        ("[1; 2]", (1, 2)),
        ("[1 & 2]", (1, 2)),
        ("[Article 3]", (3,)),
        ("[Articles 3, 5 and 7]", (3, 5, 7)),
        ("[Article 3 – Article 5]", (3, 4, 5)),
        ("[Doc. 4]", (4,)),
        ("[DOCS 4 AND 6]", (4, 6)),
        ("[References: 1, 2]", (1, 2)),
        ("[Document #4, #6]", (4, 6)),
        ("［１，２］", (1, 2)),
        ("【Article 3、5】", (3, 5)),
        ("nested [[4]] and [see [5]]", (4, 5)),
        ("[[5]](https://example.org/7)", (5,)),
        ("May.【1†source】【3†L3-L9】", (1, 3)),
        ("[1] – [3], [7]", (1, 2, 3, 7)),
        ("[1 to 3]", (1, 2, 3)),
        ("(see Documents 1 and 3)", (1, 3)),
        ("（文書 3）", (3,)),
        ("[Document 1: The end; Document 4: The beginning]", (1, 4)),
        ("[Source 2, pages 4-6; 3, §7]", (2, 3)),
        ("\\[1, 3\\]", (1, 3)),
        ("a river of 5 km² in May.¹ ³", (1, 3)),
        ("in May<sup>1, 3</sup>", (1, 3)),
        ("([1], [3])", (1, 3)),
        ("[Dokumente 1 und 3]", (1, 3)),
        ("[документы 1 и 3]", (1, 3)),
        ("[1, S. 3]", (1,)),
        ("[Doc 1 | Doc 2]", (1, 2)),
        ("[cite: 1, 3]", (1, 3)),
        ("[Article 2 (2020)]", (2,)),
        ("in May.^{1,3}", (1, 3)),
        ("〖1〗⟦3⟧", (1, 3)),
        *[(f"It opened in May {one}.", (1, 3)) for one in ("(1, 3)", "(1)(3)", "(1; 3)", "{1}{3}", "<1><3>", "<doc 1>, <doc 3>")],
        *[(f"It opened in May {one}", (1, 3)) for one in ("(see 1 and 3).", "{1, 3}.", "<1, 3>", '<doc id="1"/><ref name="3"/>')],
        *[("五月（1、3）。", (1, 3)), ("in May^1^ ^3^", (1, 3)), ("[doc_1, doc_3]", (1, 3)), ("**(1)**. And ⟨3⟩", (3,))],
    ],
)
def test_spellings_of_the_default_mode(bullet: str, cited: tuple[int, ...]) -> None:
    assert extract_citations(bullet) == cited
    if "[4]" not in bullet and not re.search(r"\[[\d, ]+\]", bullet):
        assert extract_citations(bullet, "release") == ()


@pytest.mark.parametrize(
    "bullet",
    [
        "[sic]", "[E85]", "[900 hp]", "[Word count: 12]", "[12 words]", "[1.5]", "[3%]", "[2024-05-01]", "[1-]", "[-3]", "[1--3]",
        "[,]", "[ ]", "[]", "[and]", "[Article]", "[Articles]", "[Article E85]", "[1-,3]",
        "It opened in 2020 (2021).",
        "He said f(1) = 2.", "It sold (1,025).", "(3 times)", r"\\frac{1}{2} x_{1}", "<h1> <b>x</b>", '{"a": 1}',
        "(3)", "Article 3", "[3", "3]", "[documentary 3]", "[3rd]", "(March 3)", "[March 5, 2021]", "5 m²", "(e.g., 3)", "10³",
    ],
)  # fmt: skip
def test_other_brackets_are_no_citations(bullet: str) -> None:
    assert extract_citations(bullet) == ()


IDS = {"a.txt": 1, "b.txt": 2, "c, d.txt": 3, "a": 1, "b": 2}


@pytest.mark.parametrize(
    ("bullet", "numbered"),
    [
        ("May [a, b.txt; 7]", "May [1, 2, 7]"),
        ('May ["a.txt"][`b.txt`]', "May [1][2]"),
        ("May [Source: a.txt, b.txt]", "May [1, 2]"),
        ("May (a.txt, b.txt)", "May [1, 2]"),
        ("May [c, d.txt]", "May [3]"),
        ("May [the minutes](a.txt)", "May [1]"),
        ("May [a.txt, gone.txt]", "May [1, gone.txt]"),
        ("May [a.txt:3; b.txt (p. 4)]", "May [1, 2]"),
        ("May <a.txt> {b.txt} (a.txt, gone.txt)", "May [1] [2] [1, gone.txt]"),
        ("[3] stays, and (a note) does", "[3] stays, and (a note) does"),
    ],
)
def test_citations_by_ids_are_citations_by_numbers(bullet: str, numbered: str) -> None:
    assert by_number(bullet, IDS) == numbered


def test_an_unknown_member_voids_no_bracket_and_counts_as_wrong() -> None:
    found = read_citations("[b.txt, gone.txt, 9]", IDS)
    assert (found.numbers, found.unknown, found.unread) == ((2, 9), ("gone.txt",), ())
    assert len(extract_citations("[2, gone.txt]")) == 2
    assert read_citations("[doc-99] [Word count: 20] [sic]").unread == ("[doc-99]", "[Word count: 20]")
    assert read_citations("They won (3–1). (2) Joe (9), a boy; (gone.txt) (doc-9)").unread == (
        "(3–1)",
        "(2)",
        "(9)",
        "(gone.txt)",
        "(doc-9)",
    )
    assert read_citations("Joe (9), a boy (7). [3] (gone.txt)").unread == ("(gone.txt)",), "numbers, where brackets cite"
    assert read_citations("In (2021) <b>it</b> opened (U.S.).").unread == ()
    assert len(extract_citations("[1, ibid.]")) == 2 and extract_citations("[Smith, 2020]") == ()


def test_ranges_without_a_certain_meaning_count_their_ends() -> None:
    assert extract_citations("[7-3]") == (3, 7)
    assert extract_citations("[1-99999999]") == (1, 99999999)
    assert len(extract_citations(f"[1-{MAX_RANGE}]")) == MAX_RANGE
    assert len(extract_citations(f"[1-{MAX_RANGE}] [50001-50002]")) == MAX_RANGE + 2
    assert extract_citations(f"[1-{MAX_RANGE - 1}, 20001-20009]")[-2:] == (20001, 20009)


def test_numbers_that_no_integer_column_holds_are_counted_one_by_one() -> None:
    huge = "9" * 5000
    for compat in ("default", "release"):
        found = extract_citations(f"[{huge}, 1{huge[1:]}8, {huge}, 3, {'0' * 5000}4]", compat)  # type: ignore[arg-type]
        assert found == (3, 4, 10**18 + 10**18 - 2, 10**18 + 10**18 - 1)
        assert max(found) < 2**63


@pytest.mark.soak
@pytest.mark.parametrize("filler", ["[1 ", "[" * 3, " ", "1", "-", "1-", "[1-2000]", "and ", "[1,", "(1", "<doc 1,"])
def test_long_bullets_cost_one_pass(filler: str) -> None:
    bullet = "[" + filler * (300_000 // len(filler)) + "x]"
    start = time.perf_counter()
    extract_citations(bullet)
    extract_citations(bullet, "release")
    assert time.perf_counter() - start < 30


@given(CITING_TEXT)
@example("[1 2,,3 ,]")
@example("[1【2]】")
def test_default_reads_all_that_release_reads(bullet: str) -> None:
    assert set(extract_citations(bullet, "release")) <= set(extract_citations(bullet))


@given(st.text(alphabet="[]0123456789, x", max_size=60))
def test_release_is_the_script_wherever_the_script_has_an_answer(bullet: str) -> None:
    pieces = [piece.strip() for inside in re.findall(r"\[([0-9, ]+)\]", bullet) for piece in inside.split(",")]
    if not any(" " in piece or len(piece) > 18 for piece in pieces):
        assert extract_citations(bullet, "release") == tuple(sorted({int(piece) for piece in pieces if piece}))


@given(st.one_of(CITING_TEXT, st.text()), st.sampled_from(["default", "release"]))
def test_any_text_gives_sorted_distinct_numbers(bullet: str, compat: str) -> None:
    found = extract_citations(bullet, compat)  # type: ignore[arg-type]
    assert list(found) == sorted(set(found))
    assert all(0 <= number < 2**63 for number in found)


@given(NUMBERS, st.sampled_from([", ", ",", "; ", " and ", "][", "], [", " & ", "】【", ", Article ", " #"]))
def test_no_citation_is_dropped_whatever_parts_them(numbers: list[int], separator: str) -> None:
    assert extract_citations(f"So it is [{separator.join(map(str, numbers))}].") == tuple(sorted(set(numbers)))


@given(st.integers(0, 500), st.integers(0, 200), st.sampled_from(["-", "–", "—", " - ", "－"]))
def test_a_range_is_all_its_numbers(first: int, more: int, dash: str) -> None:
    assert extract_citations(f"[{first}{dash}{first + more}]") == tuple(range(first, first + more + 1))
