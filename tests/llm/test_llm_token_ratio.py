"""How a provider counts is learned from its answers, and used for those that do not say."""

from __future__ import annotations

import pytest

from summhay_ray.llm import ModelSettings, Price
from summhay_ray.llm.calls.read_reply import Asked, answer_of
from summhay_ray.llm.calls.reply import Reply, Usage
from summhay_ray.llm.limits.token_ratio import ENOUGH, TokenRatio

pytestmark = pytest.mark.core

STRANGE = ModelSettings("openai/mine", Price(2.0, 10.0))


def test_until_enough_is_known_the_margin_is_that_of_a_strange_tokenizer() -> None:
    learned = TokenRatio()
    for _ in range(ENOUGH - 1):
        learned.note(1000, 1100)
    assert learned.most_tokens(STRANGE, 1000) == STRANGE.most_tokens(1000) == 1516
    learned.note(1000, 900)
    assert learned.most_tokens(STRANGE, 1000) == 1000 * 1.1 * 1.02 + 4


def test_short_texts_teach_nothing() -> None:
    learned = TokenRatio()
    for _ in range(100):
        learned.note(5, 9)
    assert (learned.seen, learned.largest) == (0, 0.0)


def test_what_is_learned_is_never_above_the_strange_margin() -> None:
    learned = TokenRatio()
    for _ in range(100):
        learned.note(1000, 3000)
    assert learned.most_tokens(STRANGE, 1000) == 1516


def test_an_answer_that_is_not_credible_teaches_nothing() -> None:
    learned, asked = TokenRatio(), Asked(1000, 200, STRANGE.worst_micros(1000, 200))
    answer_of(Reply("one two", "stop", Usage(10**7, 10**7)), STRANGE, asked, [], learned)
    assert learned == TokenRatio()


def test_an_answer_without_usage_is_charged_as_the_others_were() -> None:
    learned, asked = TokenRatio(), Asked(1000, 200, STRANGE.worst_micros(1000, 200))
    text = "one two three four five six seven eight nine ten"
    for _ in range(ENOUGH):
        told = answer_of(Reply(text, "stop", Usage(1050, 11)), STRANGE, asked, [], learned)
        assert told["usd_micros"] == 1050 * 2 + 11 * 10
    silent = answer_of(Reply(text, "stop", None), STRANGE, asked, [], learned)
    # 1,050 of 1,000 at most, and 2 % on it, and 4; of the ten words 11 and 4.
    assert silent["usd_micros"] == (1071 + 4) * 2 + (11 + 4) * 10
    # What was cut has all that it may have.
    assert answer_of(Reply(text, "length", None), STRANGE, asked, [], learned)["usd_micros"] == (1071 + 4) * 2 + 200 * 10
