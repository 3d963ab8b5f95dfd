"""A separate process that asks a hostile server through a gateway: the results of the answers, and their memory."""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import tempfile
from pathlib import Path
from typing import Any

from gateway_room import Room, request, settings_of

HONEST = "openai/honest"


def main(base: str, transport: str, words: list[str]) -> None:
    """Print {"grown_mb": ..., word: {prompt: [class, error, message, attempts, micro-dollars]}} as JSON."""
    models = [settings_of(base, model=model, transport=transport, timeout_s=60.0) for model in ("openai/fake", HONEST)]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        loop = asyncio.new_event_loop()
        room = Room(Path(folder), models, loop)
        room.ask("honest first", model=HONEST)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        told: dict[str, Any] = {word: asked(room, word) for word in words}
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024
        loop.run_until_complete(room.gateway.close())
        print(json.dumps({"grown_mb": grown, "spent": room.ledger.account.spent["", ""], **told}))


def asked(room: Room, word: str) -> dict[str, Any]:
    """Two of these answers at once, with honest answers of another model."""
    hostile = [request(f"{word} {n}") for n in range(2)]
    honest = [request(f"honest {n} beside {word}", model=HONEST) for n in range(3)]

    async def all_at_once() -> list[Any]:
        return list(await asyncio.gather(*map(room.gateway.complete, [*hostile, *honest])))

    ended = zip([*hostile, *honest], room.run(all_at_once()), strict=True)
    return {
        one.prompt: [type(end).__name__, getattr(end, "error", ""), getattr(end, "message", ""), end.attempts, end.usd_micros]
        for one, (end, _) in ended
    }


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
