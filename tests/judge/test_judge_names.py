"""Names of judges: one spelling each, the questions of a run for them, and a one-line error with the right form."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from summhay_ray.errors import UserError
from summhay_ray.judge import Named, default_strategy, make_judge, name_of, parse_name, strategy_of
from summhay_ray.plugins import UnknownName

pytestmark = pytest.mark.core

GPT = Named("openai/gpt-4o", "model")
X = Named("m/x", "model")
HALF = "cascade(offline,openai/gpt-4o,0.5)"
FREE = Named("offline/judge", "offline")
STORED = Named("stored/predictions_prompted_gpt-4o", "stored")


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("openai/gpt-4o", GPT),
        ("offline", FREE),
        (" offline/judge ", FREE),
        ("gpt-4o", Named("gpt-4o", "model")),
        ("ollama/llama3:8b", Named("ollama/llama3:8b", "model")),
        ("bedrock/anthropic.claude-v1:0", Named("bedrock/anthropic.claude-v1:0", "model")),
        ("offline/support", Named("offline/support", "model")),
        ("replay/gpt-4o", Named("replay/gpt-4o", "model")),
        ("stored/predictions_prompted_gpt-4o", STORED),
        ("my_package.judges:Strict", Named("my_package.judges:Strict", "code")),
        ("my-judges:Strict", Named("my-judges:Strict", "code")),
        ("per_summary( openai/gpt-4o )", Named("per_summary(openai/gpt-4o)", "per_summary", (GPT,))),
        ("few_shot(openai/gpt-4o)", Named("few_shot(openai/gpt-4o)", "few_shot", (GPT,))),
        ("per_summary(offline)", FREE),
        ("per_insight(openai/gpt-4o)", GPT),
        ("per_insight(offline)", Named("per_insight(offline)", "per_insight", (FREE,))),
        ("panel(openai/gpt-4o, m/x, offline/judge)", Named("panel(openai/gpt-4o,m/x,offline)", "panel", (GPT, X, FREE))),
        (
            "panel(m/x,cascade(offline,openai/gpt-4o,0.5))",
            Named("panel(m/x,cascade(offline,openai/gpt-4o,0.5))", "panel", (X, Named(HALF, "cascade", (FREE, GPT), 0.5))),
        ),
        ("blend(openai/gpt-4o, offline/judge)", Named("blend(openai/gpt-4o,offline)", "blend", (GPT, FREE))),
        (f"blend({STORED.text},offline)", Named(f"blend({STORED.text},offline)", "blend", (STORED, FREE))),
        ("cascade(offline,openai/gpt-4o,0.10)", Named("cascade(offline,openai/gpt-4o,0.1)", "cascade", (FREE, GPT), 0.1)),
        ("cascade(offline,openai/gpt-4o, share=.5)", Named("cascade(offline,openai/gpt-4o,0.5)", "cascade", (FREE, GPT), 0.5)),
        ("cascade(offline,openai/gpt-4o)", Named("cascade(offline,openai/gpt-4o)", "cascade", (FREE, GPT))),
    ],
)
def test_a_name_is_taken_apart_and_has_one_spelling(text: str, named: Named) -> None:
    assert parse_name(text) == named
    assert parse_name(named.text) == named


@pytest.mark.parametrize(
    ("text", "canonical", "asked"),
    [
        ("openai/gpt-4o", "openai/gpt-4o", ("openai/gpt-4o", "per_insight")),
        ("offline", "offline/judge", ("offline/judge", "per_summary")),
        ("per_summary(m/x)", "per_summary(m/x)", ("m/x", "per_summary")),
        ("few_shot(m/x)", "few_shot(m/x)", ("m/x", "few_shot")),
        ("per_summary(few_shot(m/x))", "few_shot(per_summary(m/x))", ("m/x", "few_shot+per_summary")),
        ("blend(m/x,offline)", "blend(m/x,offline)", ("m/x", "blend(m/x,offline)")),
        ("blend(per_summary(m/x),offline)", "blend(per_summary(m/x),offline)", ("m/x", "blend(per_summary(m/x),offline)")),
        ("cascade(offline,m/x,0.2)", "cascade(offline,m/x,0.2)", ("m/x", "cascade(offline,m/x,0.2)")),
        ("cascade(offline,m/x)", "cascade(offline,m/x)", ("m/x", "cascade(offline,m/x)")),
        (
            "cascade(offline,blend(m/x,offline),1)",
            "cascade(offline,blend(m/x,offline),1)",
            ("m/x", "cascade(offline,blend(m/x,offline),1)"),
        ),
        ("my.module:Own", "my.module:Own", ("offline/judge", "my.module:Own")),
        ("blend(my.module:Own,offline)", "blend(my.module:Own,offline)", ("offline/judge", "blend(my.module:Own,offline)")),
        ("panel(offline,m/x,m/y)", "panel(offline,m/x,m/y)", ("m/x", "panel(offline,m/x,m/y)")),
        ("per_insight(offline)", "per_insight(offline)", ("offline/judge", "per_insight")),
    ],
)
def test_what_a_run_asks_for_a_name(text: str, canonical: str, asked: tuple[str, str]) -> None:
    named = parse_name(text)
    assert named.text == canonical
    assert strategy_of(named) == asked
    assert name_of(*asked) == named


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "is empty"),
        ("blend", "blend(openai/gpt-5.4,offline)"),
        ("per_summary()", "is empty"),
        ("per_sumary(m/x)", "did you mean 'per_summary'?"),
        ("ofline", "did you mean 'offline'?"),
        ("ofline/judge", "did you mean 'offline/judge'?"),
        ("stord/x", "did you mean 'stored/x'?"),
        ("stored/", "did you mean 'stored/KEY'?"),
        ("two words", "neither a model nor a form"),
        ("blend(m/x,offline", "matching brackets"),
        ("blend(m/x))", "brackets do not match"),
        ("blend((m/x,offline)", "brackets do not match"),
        ("blend(m/x)", "two judges"),
        ("blend(m/x,m/y,0.5)", "two judges"),
        ("blend(offline,m/x)", "write blend(m/x,offline)"),
        ("blend(offline,offline)", "mixes a judge with another"),
        ("blend(blend(m/x,offline),offline)", "mixes a judge with another"),
        ("panel(m/x)", "two members or more"),
        ("panel(m/x,m/y,m/x)", "m/x sits on the panel twice"),
        ("panel(offline,offline/judge)", "offline sits on the panel twice"),
        ("few_shot(offline)", "write offline"),
        ("few_shot(my.module:Own)", "expected a model"),
        ("per_summary(stored/x)", "expected a model"),
        ("per_summary(m/x,m/y)", "takes one judge"),
        ("cascade(m/x,offline,0.1)", "write cascade(offline,m/x,0.1)"),
        ("cascade(m/x,m/y)", "write cascade(offline,m/y)"),
        ("cascade(offline,offline,0.1)", "neither free nor a cascade"),
        ("cascade(offline,cascade(offline,m/x,0.1),0.1)", "neither free nor a cascade"),
        ("cascade(offline)", "and a share"),
        ("cascade(offline,m/x,0)", "above 0 and at most 1"),
        ("cascade(offline,m/x,1.5)", "above 0 and at most 1"),
        ("cascade(offline,m/x,ten)", "such as 0.1"),
        ("cascade(offline,m/x,nan)", "such as 0.1"),
        ("per_summary(" * 9_000 + "m" + ")" * 9_000, "expected at most 1000"),
    ],
)
def test_a_wrong_name_is_refused_in_one_line_with_the_right_form(text: str, told: str) -> None:
    with pytest.raises(UserError, match=".") as caught:
        parse_name(text)
    assert told in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text", ["stored/x", "blend(stored/x,offline)", "cascade(offline,stored/x,0.1)", "panel(m/x,stored/x)", "blend(m/x,m/y)"]
)
def test_no_run_can_ask_what_is_only_stored(text: str) -> None:
    with pytest.raises(UserError, match=r"judge-bench|offline alone; write panel\(m/x,m/y\)"):
        strategy_of(parse_name(text))


names = st.recursive(
    st.sampled_from(["offline", "m/x", "gpt-4o", "stored/k", "a.b:C", "0.1", ""]),
    lambda inner: st.builds(
        lambda form, parts: f"{form}({','.join(parts)})",
        st.sampled_from(["per_insight", "per_summary", "few_shot", "blend", "cascade", "panel", "other"]),
        st.lists(inner, max_size=3),
    ),
    max_leaves=6,
)


@given(st.one_of(names, st.text(max_size=40), st.text(alphabet="ofblendcas(),./: 01", max_size=40)))
def test_any_text_is_a_name_that_round_trips_or_one_line(text: str) -> None:
    try:
        named = parse_name(text)
    except UserError as error:
        # The user's text is shown as Python's repr, so that no line break in it breaks the message.
        assert len(str(error).splitlines()) == 1
    else:
        assert parse_name(named.text) == named


def test_the_free_judge_may_be_another_one() -> None:
    named = parse_name("panel(cascade(offline,m/x,0.5),offline/other,offline/judge)", free="offline/other")
    assert [leaf.text for leaf in named.leaves()] == ["offline/other", "m/x", "offline/other", "offline/judge"]
    assert named.text == "panel(cascade(offline,m/x,0.5),offline,offline/judge)"
    assert [cascade.share for cascade in named.inner("cascade")] == [0.5]


def test_how_a_judge_is_asked_where_nobody_says_it() -> None:
    assert (default_strategy("offline/judge"), default_strategy("openai/gpt-4o")) == ("per_summary", "per_insight")
    with pytest.raises(UnknownName, match="did you mean 'per_summary'"):
        make_judge("per_sumary")
