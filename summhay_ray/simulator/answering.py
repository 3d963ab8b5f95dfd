"""Computes the simulated provider's answers in threads, once per prompt, and caches them."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

Answer = Callable[[str, str], str]
"""(model, prompt) -> the text of the answer. Deterministic; called in threads."""

_KEPT_CHARACTERS = 64 * 2**20
_KEPT_ANSWERS = 200_000
_THREADS = 4


@dataclass(eq=False)
class Answers:
    """The cached answers of all models. `quick`: the function takes microseconds, so it runs in the event loop, uncached."""

    answer: Answer
    quick: bool = False
    _known: dict[tuple[str, str], str] = field(init=False, default_factory=dict)
    _coming: dict[tuple[str, str], asyncio.Future[str]] = field(init=False, default_factory=dict)
    _characters: int = field(init=False, default=0)
    _threads: ThreadPoolExecutor | None = field(init=False, default=None)

    def known(self, model: str, prompt: str, prompt_sha: str) -> str | None:
        """Return the answer if it is cached or quick; else None."""
        return self.answer(model, prompt) if self.quick else self._known.get((model, prompt_sha))

    async def find(self, model: str, prompt: str, prompt_sha: str) -> str:
        """Compute the answer in a thread. Concurrent requests for the same prompt share the computation."""
        key = (model, prompt_sha)
        coming = self._coming.get(key)
        if coming is None:
            self._threads = self._threads or ThreadPoolExecutor(_THREADS, thread_name_prefix="answer")
            coming = asyncio.get_running_loop().run_in_executor(self._threads, self.answer, model, prompt)
            self._coming[key] = coming
            coming.add_done_callback(lambda done: self._cache(key, done))
        return await asyncio.shield(coming)

    def _cache(self, key: tuple[str, str], done: asyncio.Future[str]) -> None:
        del self._coming[key]
        if done.cancelled() or done.exception():
            return
        self._known[key] = done.result()
        self._characters += len(done.result())
        while self._characters > _KEPT_CHARACTERS or len(self._known) > _KEPT_ANSWERS:
            self._characters -= len(self._known.pop(next(iter(self._known))))

    def close(self) -> None:
        """Start no more answers."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
