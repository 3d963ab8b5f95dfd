"""Names of judges: one spelling each, what a run asks for them, and one line that mends a wrong one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from summhay_ray.errors import UserError
from summhay_ray.judge import Named, default_strategy, make_judge, parse_name, parse_strategy, partners, planned, strategy_of
from summhay_ray.judge.blend import Blend
from summhay_ray.judge.cascade import Cascade
from summhay_ray.judge.strategies import Strategy
from summhay_ray.plugins import UnknownName

pytestmark = pytest.mark.core

GPT = Named("openai/gpt-4o", "model")
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
        ("per_summary( openai/gpt-4o )", Named("per_summary(openai/gpt-4o)", "per_summary", (GPT,))),
        ("few_shot(openai/gpt-4o)", Named("few_shot(openai/gpt-4o)", "few_shot", (GPT,))),
        ("per_summary(offline)", Named("per_summary(offline)", "per_summary", (FREE,))),
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
        ("blend(m/x,offline)", "blend(m/x,offline)", ("m/x", "blend")),
        ("blend(per_summary(m/x),offline)", "blend(per_summary(m/x),offline)", ("m/x", "blend+per_summary")),
        ("cascade(offline,m/x,0.2)", "cascade(offline,m/x,0.2)", ("m/x", "cascade(0.2)")),
        ("cascade(offline,m/x)", "cascade(offline,m/x)", ("m/x", "cascade(0.1)")),
        ("cascade(offline,blend(m/x,offline),1)", "cascade(offline,blend(m/x,offline),1)", ("m/x", "cascade(1)+blend")),
        ("my.module:Own", "my.module:Own", ("offline/judge", "my.module:Own")),
        ("blend(my.module:Own,offline)", "blend(my.module:Own,offline)", ("offline/judge", "blend+my.module:Own")),
    ],
)
def test_what_a_run_asks_for_a_name(text: str, canonical: str, asked: tuple[str, str]) -> None:
    named = parse_name(text)
    assert named.text == canonical
    assert strategy_of(named) == asked
    assert parse_strategy(asked[1]).text == asked[1]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "is empty"),
        ("blend", "blend(openai/gpt-4o,offline)"),
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
def test_a_wrong_name_is_told_in_one_line_with_the_right_form(text: str, told: str) -> None:
    with pytest.raises(UserError, match=".") as caught:
        parse_name(text)
    assert told in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["stored/x", "blend(stored/x,offline)", "cascade(offline,stored/x,0.1)", "blend(m/x,m/y)"])
def test_no_run_can_ask_what_is_only_stored(text: str) -> None:
    with pytest.raises(UserError, match="judge-bench|offline alone"):
        strategy_of(parse_name(text))


names = st.recursive(
    st.sampled_from(["offline", "m/x", "gpt-4o", "stored/k", "a.b:C", "0.1", ""]),
    lambda inner: st.builds(
        lambda form, parts: f"{form}({','.join(parts)})",
        st.sampled_from(["per_summary", "few_shot", "blend", "cascade", "other"]),
        st.lists(inner, max_size=3),
    ),
    max_leaves=6,
)


@given(st.one_of(names, st.text(max_size=40), st.text(alphabet="ofblendcas(),./: 01", max_size=40)))
def test_any_text_is_a_name_that_round_trips_or_one_line(text: str) -> None:
    try:
        named = parse_name(text)
    except UserError as error:
        # What a person wrote is shown as Python shows it: no line of it breaks the message.
        assert len(str(error).splitlines()) == 1
    else:
        assert parse_name(named.text) == named


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("per_insight", Strategy()),
        ("blend", Strategy(blend=True)),
        ("blend+per_insight", Strategy(blend=True)),
        ("cascade", Strategy(share=0.1)),
        ("cascade(0.10)", Strategy(share=0.1)),
        (" cascade( 0.25 ) + blend + few_shot+per_summary ", Strategy("few_shot+per_summary", True, 0.25)),
        ("blend+my.module:Own", Strategy("my.module:Own", True)),
    ],
)
def test_a_strategy_is_taken_apart_and_has_one_spelling(text: str, parsed: Strategy) -> None:
    assert parse_strategy(text) == parsed
    assert parse_strategy(parsed.text) == parsed


@pytest.mark.parametrize(
    "text", ["", "+", "blend+", "blend+blend", "blend+cascade(0.1)", "per_summary+blend", "cascade()", "cascade(2)"]
)
def test_a_strategy_without_meaning_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="cascade|share"):
        make_judge(text)


def test_strategies_say_whom_they_ask_beside_their_model_and_how_often() -> None:
    assert partners("per_insight") == partners("few_shot+per_summary") == ()
    assert partners("blend") == partners("cascade(0.1)+per_summary") == ("offline/judge",)
    assert planned("cascade(0.3)+blend+per_summary") == ("blend+per_summary", 0.3)
    assert planned("per_summary") == ("per_summary", 1.0)
    assert (default_strategy("offline/judge"), default_strategy("openai/gpt-4o")) == ("per_summary", "per_insight")


def test_a_strategy_is_made_of_its_steps() -> None:
    assert isinstance(make_judge("blend+per_summary"), Blend)
    assert isinstance(make_judge("cascade(0.2)+blend"), Cascade)
    with pytest.raises(UnknownName, match="did you mean 'per_summary'"):
        make_judge("blend+per_sumary")
