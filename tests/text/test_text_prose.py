"""The prose of documents: which lines are statements, which are left out, and why."""

from __future__ import annotations

import textwrap
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from summhay_ray.text import boilerplate, page_text, read_prose, sentences

pytestmark = pytest.mark.core


def kept(text: str, kind: str = "sentence") -> list[str]:
    return [one.text for one in read_prose(text).statements if one.kind == kind]


def left(text: str) -> dict[str, str]:
    """Left-out text -> the reason."""
    return {one.text: one.reason for one in read_prose(text).left_out}


STOPPED = "The pump in hall 3 stopped at noon."


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("# Incident of the pump", "heading"),
        ("**Root cause**", "heading"),
        ("## Present\n\n* Ann Example @annex (Guest - CPC rep)\n* Bo Example (voting member)", "attendance"),
        ("Attendees: Ann Example, Bo Example", "attendance"),
        ("EC RF SD MN SC AN AF SP", "attendance"),
        ("## Agenda\n\n* lib,src: add experimental storage [#52435](https://example.org/52435)", "agenda"),
        ("Valves and pumps ........ 17", "agenda"),
        ("* [The manual](https://example.org/manual)\n* https://example.org/pumps", "links"),
        ("[manual]: https://example.org/manual", "links"),
        ("Recording: https://example.org/watch", "links"),
        ("```\nif (pump.stopped) { return; }\n```", "code"),
        ("    if (pump.stopped) { return; }", "code"),
        ("<!-- Please fill in what happened. -->", "code"),
        ("> > We had that last year, too.", "quote in a quote"),
        ("Best regards,\nAnn Example\nHead of Operations", "signature"),
        ("Signed-off-by: Ann Example <ann@example.org>", "signature"),
        ("Date: 22 July 2021", "metadata"),
        ("Page 3 of 12", "no sentence"),
    ],
)
def test_what_is_no_prose_is_left_out_with_its_reason(line: str, reason: str) -> None:
    text = f"{STOPPED}\n\n{line}\n\n## Notes\n\n* We replaced it the same day.\n"
    assert kept(text) == [STOPPED, "We replaced it the same day."]
    assert reason in left(text).values()
    assert line.count("\n\n") or set(left(text).values()) == {reason, "heading"}


@pytest.mark.parametrize(
    ("text", "statements"),
    [
        # List items that go on with an indented line are one statement; those that state something need no full stop.
        (
            "# T\n\n* Paolo, we should support variables because people from other\n  sites expect it.\n* fix crash on no input",
            [
                "Paolo, we should support variables because people from other sites expect it.",
                "fix crash on no input",
            ],
        ),
        (
            "Present: Ann, Bo\n\n* The pump stopped.\n* Thanks to Ann, it works again.",
            ["The pump stopped.", "Thanks to Ann, it works again."],
        ),
        (
            "## Agenda\n\n* Pumps [#12](https://example.org)\n  * Ann: waiting for parts, see #13",
            ["Ann: waiting for parts, see #13"],
        ),
        # Emphasis and links leave their words.
        (
            "# T\n\nThe **pump** in [hall 3][1] stopped, `db-3` too.\n\n[1]: https://example.org",
            ["The pump in hall 3 stopped, db-3 too."],
        ),
        # Turns of conversations are prose with their speaker.
        (
            "[10:02] alice: did you see it\n[10:03] bob: yes\n<carol> who pays",
            ["[10:02] alice: did you see it", "[10:03] bob: yes", "<carol> who pays"],
        ),
        (
            "Speaker 1: Okay so let us begin\nSpeaker 2: It failed at 3 pm.",
            ["Speaker 1: Okay so let us begin", "Speaker 2: It failed at 3 pm."],
        ),
        # An unclosed fence, a drawn line and an indentation hide no prose.
        (f"# T\n\n```\n{STOPPED}", [STOPPED]),
        (f"{STOPPED}\n-----\n\n{STOPPED}", [STOPPED, STOPPED]),
        (f"    {STOPPED}\n", [STOPPED]),
        (f"---\n{STOPPED}\n---\n", [STOPPED]),
        ("## The deploy of 3 May failed because of a full disk.", ["The deploy of 3 May failed because of a full disk."]),
        (f"> {STOPPED}", [STOPPED]),
        (f"<details><summary>More</summary>\n\n{STOPPED}\n\n</details>", [STOPPED]),
        # PDF files: divided words, words with a hyphen, spaced letters, bullets, ligatures.
        (
            "About half of all pay-\nments failed after a well-\nknown bug. It is well known\nto us all that the disk was full.",
            ["About half of all payments failed after a well-known bug.", "It is well known to us all that the disk was full."],
        ),
        (
            "• The work\ufb02ow of the pump\nwas stopped.\n• We replaced it.",
            ["The workflow of the pump was stopped.", "We replaced it."],
        ),
        # Other scripts have their own sentence ends.
        (
            "# 会议\n\n支付服务中断了两个小时。原因是磁盘已满！\n\n- 我们更换了磁盘",
            ["支付服务中断了两个小时。", "原因是磁盘已满！", "我们更换了磁盘"],
        ),
        ("توقفت المضخة ظهرا. تم استبدالها.", ["توقفت المضخة ظهرا.", "تم استبدالها."]),
        ("पंप दोपहर में रुक गया। हमने उसे बदल दिया।", ["पंप दोपहर में रुक गया।", "हमने उसे बदल दिया।"]),
    ],
)
def test_prose_is_kept_whole(text: str, statements: list[str]) -> None:
    assert kept(text) == statements


def test_front_matter_gives_title_and_date() -> None:
    for mark, equals in (("---", ": "), ("+++", " = ")):
        text = f"{mark}\nuuid{equals}00b7\ntitle{equals}'A full disk'\nend_time{equals}2012-01-01T14:10:00Z\n{mark}\n{STOPPED}\n"
        read = read_prose(text)
        assert (read.title, read.date) == ("A full disk", "2012-01-01T14:10:00Z")
        assert [(one.text, one.line) for one in read.statements] == [(STOPPED, 6)]
        assert {one.reason for one in read.left_out} == {"front matter"}


def test_rows_are_records_with_their_header() -> None:
    table = "| Region | Failed payments |\n|---|---|\n| Frankfurt | 58 % |\n| Dublin | |\n"
    assert kept(table, "row") == ["Region: Frankfurt; Failed payments: 58 %"]
    page = page_text("<table><tr><th>Region</th><th>Failed payments</th></tr><tr><td>Frankfurt<td>58 %</table>")
    assert kept(page, "row") == ["Region: Frankfurt; Failed payments: 58 %"]


def test_unmarked_titles_are_lines_that_state_nothing() -> None:
    text = f"Outage of a pump\n\n{STOPPED}\n"
    assert kept(text) == [STOPPED] and kept(text, "line") == ["Outage of a pump"]


def test_a_page_keeps_its_form() -> None:
    listed = "<ul><li><a href='/x'>Manual</a><li>It stopped.<ul><li>Twice</ul></ul>"
    page = f"<nav>Home</nav><h1>Pumps</h1>{listed}<pre>a\n b</pre><p>A &amp; B.</p>"
    assert page_text(page) == "# Pumps\n\n- [Manual](/x)\n- It stopped.\n  - Twice\n\n```\na\n b\n```\n\nA & B."
    layout = page_text(f"<table><tr><td><p>{STOPPED}</p><p>We replaced it.</p></td><td>x</td></tr></table>")
    assert kept(layout) == [STOPPED, "We replaced it."]


def test_running_heads_of_pages_are_left_out() -> None:
    pages = [f"Pumps Ltd - confidential   {page}\n\nIn hall {page} the pump stopped at noon.\n" for page in range(1, 6)]
    text = "\f".join(pages)
    assert kept(text) == [f"In hall {page} the pump stopped at noon." for page in range(1, 6)]
    assert set(left(text).values()) == {"boilerplate"}


def test_boilerplate_is_in_many_documents_word_for_word() -> None:
    documents = [["This mail is confidential.", f"Pump {number} stopped."] for number in range(8)]
    assert boilerplate(documents) == {"This mail is confidential."}
    assert boilerplate(documents[:7]) == set()
    assert boilerplate([*documents, *[[f"x{number}"] for number in range(8)]]) == {"This mail is confidential."}
    assert boilerplate([*documents, *[[f"x{number}"] for number in range(24)]]) == set()


def test_a_form_with_another_time_or_end_is_boilerplate() -> None:
    closing = [f"The meeting was closed at {10 + number}:0{number}am." for number in range(8)]
    begins = "The board looked at the open questions of the depot and of the"
    rest = "and asked the owners of all these things for a new report about them"
    reviewed = [f"{begins} {'pump ' * (number + 1)}{rest}" for number in range(8)]
    documents = [[*pair, f"Pump {number} stopped."] for number, pair in enumerate(zip(closing, reviewed, strict=True))]
    assert boilerplate(documents) == {*closing, *reviewed}


words = st.sampled_from(["pump", "valve", "hall", "water", "engineer", "disk", "storage", "payment", "region", "outage"])
sentence = st.lists(words, min_size=4, max_size=30).map(lambda found: f"The {' '.join(found)} stopped.")


@st.composite
def laid_out(draw: st.DrawFn) -> tuple[str, list[str]]:
    """A document of sentences in paragraphs, lists and quotations, wrapped or not, and its sentences."""
    blocks, said = [], []
    for _ in range(draw(st.integers(1, 6))):
        some = draw(st.lists(sentence, min_size=1, max_size=4))
        width = draw(st.sampled_from([60, 72, 80, 10_000]))
        form = draw(st.sampled_from(["paragraph", "bullet", "number", "quote", "heading"]))
        wrapped = textwrap.wrap(" ".join(some), width)
        first, later = {"bullet": ("* ", "  "), "number": ("1. ", "   "), "quote": ("> ", "> ")}.get(form, ("", ""))
        lines = [f"{later if place else first}{line}" for place, line in enumerate(wrapped)]
        blocks.append("\n".join(["## Notes\n" * (form == "heading"), *lines]).strip())
        said += some
    return "\n\n".join(blocks), said


@given(laid_out())
def test_no_sentence_is_lost_however_it_is_laid_out(document: tuple[str, list[str]]) -> None:
    text, said = document
    assert [one for one in kept(text) if one != "Notes"] == said


@given(st.lists(st.lists(sentence, min_size=1, max_size=5).map(" ".join), min_size=1, max_size=5))
def test_a_text_without_markup_is_read_as_it_was(paragraphs: list[str]) -> None:
    text = "\n\n".join([*paragraphs, "***", "**An aside** about *pumps* <br> 5 < 6 & [sic]", "The Title of a Part"])
    assert [one.text for one in read_prose(text).statements] == sentences(text)
    assert not read_prose(text).left_out


@pytest.mark.soak
@pytest.mark.parametrize(
    "shape",
    [
        "Start here\n{}",
        "* x\n{}",
        "[a]: b/c\n",
        "> ",
        "<blockquote>a",
        "| a | b |\n|---|---|\n| c | d |\n\n",
        "[*_`<b ",
        "word\n",
    ],
)
def test_time_grows_with_the_length_alone(shape: str) -> None:
    def seconds(n: int) -> float:
        text = shape.format("word\n" * n) if "{}" in shape else shape * (5 * n // len(shape))
        began = time.process_time()
        read_prose(page_text(text) if "blockquote" in shape else text)
        return time.process_time() - began

    assert seconds(20_000) < 12 * seconds(4_000) + 0.2


TAGS = st.sampled_from(["<div>", "</div>", "<p", "&lt;p&gt;", "&lt;table", "<!--", "-->", "<pre>", "\n\n", "> ", f"{STOPPED} "])


@given(st.lists(TAGS, max_size=12).map("".join))
@example(f"<div>&lt;table {STOPPED}")
@example(f"<p>\n&lt;!x {STOPPED}")
def test_pages_with_open_and_escaped_tags_are_read(text: str) -> None:
    said = "".join([*kept(text), *left(text)])
    assert "<!--" in text or "<p" in text or said.count("pump") >= (STOPPED in text)
