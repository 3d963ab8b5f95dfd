"""Calls that share a long prefix: the first goes alone, the others when the prefix is cached; short prompts never wait."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
import still_time
from hypothesis import given
from hypothesis import strategies as st

from summhay_ray.llm.prefix import SHORTEST, PrefixGate, prefixes_of

pytestmark = pytest.mark.core


class Calls:
    """Calls through one gate, with the order of sending; each ends when the test decides."""

    def __init__(self, gate: PrefixGate) -> None:
        self.gate = gate
        self.sent: list[str] = []
        self.ended: dict[str, asyncio.Event] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}

    async def start(
        self, *names: str, prefix: str = "p", answered: bool = True, fails: bool = False, in_vain: bool = False
    ) -> None:
        for name in names:
            self.ended[name] = asyncio.Event()
            self.tasks[name] = asyncio.create_task(self._call(name, prefix, answered, fails, in_vain))
        await self.settle()

    async def end(self, *names: str) -> None:
        for name in names:
            self.ended[name].set()
        await self.settle()

    async def settle(self) -> None:
        """Everything that can happen now has happened."""
        for _ in range(20):
            await asyncio.sleep(0)

    async def _call(self, name: str, prefix: str, answered: bool, fails: bool, in_vain: bool) -> None:
        async with self.gate.turn(tuple(prefix)) as turn:
            self.sent.append(name)
            await self.ended[name].wait()
            if fails:
                raise ConnectionError(name)
            if answered or in_vain:
                turn.answered = answered


def play(scene: Callable[[Calls], Awaitable[None]], gate: PrefixGate | None = None) -> None:
    async def whole() -> None:
        calls = Calls(gate or PrefixGate())
        await asyncio.wait_for(scene(calls), 60)
        for task in calls.tasks.values():
            task.cancel()
        await asyncio.gather(*calls.tasks.values(), return_exceptions=True)

    still_time.run(whole())


def test_the_first_goes_alone_and_the_others_together_once_it_is_answered() -> None:
    async def scene(calls: Calls) -> None:
        await calls.start("a", "b", "c", "d")
        assert calls.sent == ["a"]
        await calls.end("a")
        assert calls.sent == ["a", "b", "c", "d"]
        await calls.start("e")
        assert calls.sent[-1] == "e"

    play(scene)


def test_who_leads_and_is_not_answered_hands_over_to_one() -> None:
    async def scene(calls: Calls) -> None:
        await calls.start("a", answered=False)
        await calls.start("b", fails=True)
        await calls.start("c", "d")
        assert calls.sent == ["a"]
        await calls.end("a")
        assert calls.sent == ["a", "b"]
        await calls.end("b")
        assert calls.sent == ["a", "b", "c"] and isinstance(calls.tasks["b"].exception(), ConnectionError)
        await calls.end("c")
        assert calls.sent == ["a", "b", "c", "d"]

    play(scene)


def test_who_leads_and_is_sent_in_vain_lets_all_go() -> None:
    async def scene(calls: Calls) -> None:
        await calls.start("a", answered=False, in_vain=True)
        await calls.start("b", "c", "d")
        assert calls.sent == ["a"]
        await calls.end("a")
        assert calls.sent == ["a", "b", "c", "d"]

    play(scene)


def test_who_leads_or_waits_and_is_cancelled_holds_nobody_back() -> None:
    async def scene(calls: Calls) -> None:
        await calls.start("a", "b", "c", "d")
        calls.tasks["b"].cancel()
        await calls.settle()
        assert calls.sent == ["a"]
        calls.tasks["a"].cancel()
        await calls.settle()
        assert calls.sent == ["a", "c"]
        await calls.end("c")
        assert calls.sent == ["a", "c", "d"]

    play(scene)


def test_other_prefixes_and_short_prompts_do_not_wait() -> None:
    async def scene(calls: Calls) -> None:
        await calls.start("a", "b", prefix="p")
        await calls.start("c", "d", prefix="q")
        await calls.start("e", "f", prefix="")
        assert calls.sent == ["a", "c", "e", "f"]
        await calls.end("e", "f")
        assert calls.sent == ["a", "c", "e", "f"]
        await calls.end("c")
        assert calls.sent == ["a", "c", "e", "f", "d"]

    play(scene)


def test_a_prefix_that_is_cached_no_more_is_led_again() -> None:
    async def scene(calls: Calls) -> None:
        await calls.start("a", "b", "c")
        await calls.end("a")
        assert calls.sent == ["a", "b"]
        await calls.end("b")
        assert calls.sent == ["a", "b", "c"]

    # The prefix was cached until a minute ago: the next call finds no cache.
    play(scene, PrefixGate(lifetime_s=-60.0))


def test_who_shares_a_part_waits_for_that_part_alone() -> None:
    async def scene(calls: Calls) -> None:
        # p: the first document; pq: all documents in one order; pr: in another order.
        await calls.start("a", prefix="pq")
        await calls.start("b", "c", prefix="pr")
        await calls.start("d", prefix="pq")
        assert calls.sent == ["a"]
        await calls.end("a")
        assert calls.sent == ["a", "b", "d"], "c shares its whole prompt with b"
        await calls.end("b")
        assert calls.sent == ["a", "b", "d", "c"]

    play(scene)


def test_what_two_prompts_share() -> None:
    documents = "x" * (3 * SHORTEST)
    one, other = prefixes_of("m", documents + "one question"), prefixes_of("m", documents + "another")
    assert len(one) == len(other) == 3 and one[:2] == other[:2] and one[2] != other[2]
    assert prefixes_of("m", documents + "one question") == one
    assert not set(prefixes_of("n", documents)) & set(prefixes_of("m", documents))
    assert prefixes_of("m", "x" * (SHORTEST - 1)) == prefixes_of("m", "") == ()


@given(st.text(alphabet=st.characters(), max_size=3), st.text(alphabet=st.characters(), max_size=3), st.integers(0, 3))
def test_prefixes_are_equal_as_far_as_their_texts_are(one: str, other: str, doublings: int) -> None:
    documents = "x" * (SHORTEST << doublings)
    mine, theirs = prefixes_of("m", one + documents), prefixes_of("m", other + documents)
    for level in range(doublings + 1):
        end = SHORTEST << level
        assert (mine[level] == theirs[level]) == ((one + documents)[:end] == (other + documents)[:end])
