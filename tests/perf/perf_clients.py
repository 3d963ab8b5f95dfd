"""Clients of one endpoint, each a process of its own: bare loops, and our workers with log, limits and budget on.

    python tests/perf/perf_clients.py KIND BASE CALLS IN_FLIGHT

prints one JSON line: calls a second from the first request to the last answer, and CPU milliseconds a call. For our workers
the CPU is theirs and the ledger's together.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "engine"))
from runs import descendants

MODEL = "simulated"
KEY = "sk-perf-0123456789abcdef"
FILLER = "Which of these bullets says what the insight says, and does it say all of it or a part? " * 20
Call = Callable[[int], Awaitable[Any]]


def prompt(number: int) -> str:
    """1.5 KB, each another one."""
    return f"{number} {FILLER}"[:1500]


async def measured(call: Call, n: int, in_flight: int, first: int = 0) -> dict[str, float]:
    """Call n times, so many at once; one call before warms connections and imports up."""
    await call(-1 - first)
    gate = asyncio.Semaphore(in_flight)

    async def one(number: int) -> None:
        async with gate:
            await call(number)

    began, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(one(number) for number in range(first, first + n)))
    return {"seconds": time.perf_counter() - began, "cpu": time.process_time() - cpu}


def chat(model: str, number: int) -> dict[str, Any]:
    return {"model": model, "messages": [{"role": "user", "content": prompt(number)}], "max_tokens": 100, "temperature": 0}


async def bare_aiohttp(base: str, n: int, in_flight: int) -> dict[str, float]:
    import aiohttp

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def call(number: int) -> None:
            async with session.post(
                f"{base}/chat/completions", json=chat(MODEL, number), headers={"Authorization": f"Bearer {KEY}"}
            ) as answer:
                await answer.json()

        return await measured(call, n, in_flight)


async def bare_openai(base: str, n: int, in_flight: int) -> dict[str, float]:
    import openai

    client = openai.AsyncOpenAI(base_url=base, api_key=KEY, max_retries=0)

    async def call(number: int) -> None:
        await client.chat.completions.create(**chat(MODEL, number))

    return await measured(call, n, in_flight)


async def bare_litellm(base: str, n: int, in_flight: int) -> dict[str, float]:
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    import litellm

    litellm.suppress_debug_info = True

    async def call(number: int) -> None:
        request = chat(f"hosted_vllm/{MODEL}", number)
        await litellm.acompletion(**request, api_base=base, api_key=KEY, max_retries=0, timeout=600)

    return await measured(call, n, in_flight)


def settings_of(base: str, transport: str, in_flight: int) -> Any:
    from summhay_ray.llm import Limits, ModelSettings, Price

    limits = Limits(rpm=1e6, input_tpm=1e9, output_tpm=1e9, concurrency=in_flight)
    return ModelSettings(
        f"hosted_vllm/{MODEL}", Price(2.5, 10.0), api_base=base, api_key_env="PERF_KEY", transport=transport, limits=limits
    )


async def ask_all(gateway: Any, model: str, n: int, in_flight: int, first: int) -> dict[str, float]:
    """Our own: a few more are asked at once than are in flight, as in a run, where rows wait for their turn."""
    from summhay_ray.llm import Request
    from summhay_ray.outcome import Answer

    async def call(number: int) -> None:
        outcome, _ = await gateway.complete(Request(model, prompt(number), {"max_tokens": 100, "temperature": 0}), "judge")
        if not isinstance(outcome, Answer):
            raise RuntimeError(str(outcome))

    return await measured(call, n, in_flight + min(in_flight, 300), first)


def cpu_of(title: str) -> float:
    """CPU seconds of this machine's processes of ours with that in their title."""
    ticks = 0
    for pid, found in descendants(os.getpid()):
        if title in found:
            fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def ours(base: str, n: int, in_flight: int, transport: str, n_workers: int) -> dict[str, float]:
    """Worker actors and the ledger actor of a run, on a Ray of their own."""
    import ray

    from summhay_ray.engine.ledger_actor import LedgerActor, RemoteLedger
    from summhay_ray.llm import Budgets, Gateway
    from summhay_ray.store import LogWriter, Store

    class Worker:
        def __init__(self, store: str, ledger: Any, number: int) -> None:
            self._files = Store(store).files
            self._log = LogWriter(self._files, f"w{number}")
            self._ledger, self._name = ledger, f"w{number}"

        async def work(self, n: int, first: int) -> dict[str, float]:
            settings = settings_of(base, transport, in_flight)
            port = RemoteLedger(self._ledger, f"{self._name}-{first}")
            gateway = Gateway({settings.model: settings}, port, self._files, self._log, "perf")
            found = await ask_all(gateway, settings.model, n, in_flight, first)
            await gateway.close()
            return found

    with tempfile.TemporaryDirectory(prefix="perf-", dir=os.environ.get("PERF_DIR")) as folder:
        options = {
            "include_dashboard": False,
            "log_to_driver": bool(os.environ.get("PERF_TELL")),
            "logging_level": "ERROR",
            "num_cpus": 2,
        }
        environment = {"env_vars": {"PERF_KEY": KEY, "PYTHONPATH": os.pathsep.join(sys.path)}}
        ray.init(address="local", runtime_env=environment, _temp_dir=folder, **options)
        settings = settings_of(base, transport, in_flight)
        store = str(Path(folder) / "store")
        Store(store).create_run("perf", {"kind": "perf"}, ())
        limits = {settings.model: settings.limits}
        ledger = LedgerActor.remote((store, "perf"), (1, "here"), Budgets(10**12), limits)  # type: ignore[attr-defined]
        ray.get(ledger.begin.remote())
        workers = [ray.remote(num_cpus=0.25)(Worker).remote(store, ledger, number) for number in range(n_workers)]
        each = n // n_workers
        ray.get([worker.work.remote(8, 10**6 * (number + 1)) for number, worker in enumerate(workers)])
        before = cpu_of("LedgerActor")
        began = time.perf_counter()
        found = ray.get([worker.work.remote(each, each * number) for number, worker in enumerate(workers)])
        seconds = time.perf_counter() - began if n_workers > 1 else found[0]["seconds"]
        cpu = sum(one["cpu"] for one in found) + cpu_of("LedgerActor") - before
        ray.shutdown()
    return {"seconds": seconds, "cpu": cpu}


KINDS: dict[str, Callable[[str, int, int], dict[str, float]]] = {
    "bare aiohttp": lambda base, n, k: asyncio.run(bare_aiohttp(base, n, k)),
    "bare openai SDK": lambda base, n, k: asyncio.run(bare_openai(base, n, k)),
    "bare litellm": lambda base, n, k: asyncio.run(bare_litellm(base, n, k)),
    "direct, one worker": lambda base, n, k: ours(base, n, k, "direct", 1),
    "litellm, one worker": lambda base, n, k: ours(base, n, k, "litellm", 1),
    "litellm, two workers": lambda base, n, k: ours(base, n, k, "litellm", 2),
}


def main() -> None:
    kind, base, calls, in_flight = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    found = KINDS[kind](base, calls, in_flight)
    print(json.dumps({"kind": kind, "calls_per_s": calls / found["seconds"], "cpu_ms": found["cpu"] / calls * 1000}))


if __name__ == "__main__":
    main()
