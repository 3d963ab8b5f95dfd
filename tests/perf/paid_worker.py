"""A whole paid run without Ray, in one process: a ledger and some gateways over a store, asking an endpoint for answers.

    PAID_WORKER_KEY=sk-... python tests/perf/paid_worker.py '{"store": "...", "base": "http://127.0.0.1:.../v1", "calls": 100}'

May be killed at any moment and started again over the same store. It says `{"ready": true}` before it asks, and one JSON line
at its end: what became of the calls, and what the ledger counted.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import time
import uuid
from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

KEY_ENV = "PAID_WORKER_KEY"
FILLER = "Which of these bullets says what the insight says, and does it say all of it or a part? " * 100
SIZES = (1500, 3000, 4500, 6000, 7500)
OUTPUT_TOKENS = 100
DRIVER_ASKS_EVERY_S = 0.25
PATIENCE_S = 600.0


@dataclass(frozen=True)
class Job:
    """What to do. `in_flight` is the model's limit of calls at once; twice as many are asked, as rows wait in a real run."""

    store: str
    base: str
    calls: int
    run: str = "run"
    model: str = "openai/gpt-fair"
    budget_micros: int | None = None
    gateways: int = 1
    in_flight: int = 64
    rpm: float | None = None
    input_tpm: float | None = None
    small: bool = False
    """Every prompt of 1.5 KB; else of 1.5 to 7.5 KB."""


def prompt_of(job: Job, number: int) -> str:
    """Each another one, in the number and in the run: the provider's faults are drawn from it. It asks for a verdict."""
    size = SIZES[0] if job.small else SIZES[number * 7919 % len(SIZES)]
    return f"{job.run} {number} {FILLER}"[: size - 25] + "\nReference Insight: it is."


def settings_of(job: Job) -> Any:
    """The model, at the simulated provider's prices."""
    from summhay_ray.llm import Limits, ModelSettings, Price

    limits = Limits(rpm=job.rpm, input_tpm=job.input_tpm, concurrency=job.in_flight)
    price = Price(2.5, 10.0, 1.25)
    return ModelSettings(
        job.model, price, api_base=job.base, api_key_env=KEY_ENV, timeout_s=30.0, limits=limits, transport="direct"
    )


def request_of(job: Job, number: int) -> Any:
    """The call of a number."""
    from summhay_ray.llm import Request

    return Request(job.model, prompt_of(job, number), {"max_tokens": OUTPUT_TOKENS, "temperature": 0})


async def work(job: Job) -> dict[str, Any]:
    """Ask for every answer; what became of it."""
    from summhay_ray.llm import Budgets, Gateway, Ledger, LedgerService, LocalPort
    from summhay_ray.outcome import Answer
    from summhay_ray.store import LogIndex, LogWriter, Store

    files, settings = Store(job.store).files, settings_of(job)
    ledger = Ledger(job.run, LogIndex(files), Budgets(job.budget_micros), {job.model: settings.limits})
    service, gateways = LedgerService(ledger), []
    for number in range(job.gateways):
        name = f"w{number}-{uuid.uuid4().hex[:12]}"
        port, log = LocalPort(service, name), LogWriter(files, name)
        gateways.append(Gateway({job.model: settings}, port, files, log, job.run))
    settings.prompt_tokens("the vocabulary is loaded", {})
    print(json.dumps({"ready": True}), flush=True)
    gate, ends = asyncio.Semaphore(2 * job.in_flight), Counter[str]()

    async def one(number: int) -> None:
        async with gate:
            outcome, _ = await gateways[number % job.gateways].complete(request_of(job, number), "judge")
            ends["answer" if isinstance(outcome, Answer) else outcome.error] += 1

    async def drive() -> None:
        while True:
            service.snapshot()
            await asyncio.sleep(DRIVER_ASKS_EVERY_S)

    driver, began = asyncio.create_task(drive()), time.monotonic()
    await asyncio.gather(*(one(number) for number in range(job.calls)))
    seconds = time.monotonic() - began
    for gateway in gateways:
        await gateway.close()
    driver.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await driver
    return {"ends": dict(ends), "seconds": seconds, **service.snapshot()}


def start(job: Job, key: str) -> subprocess.Popen[str]:
    """The job in a process of its own, which has begun to ask; raises RuntimeError where it has not."""
    command = [sys.executable, __file__, json.dumps(asdict(job))]
    process = subprocess.Popen(
        command, env={**os.environ, KEY_ENV: key}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    if not process.stdout.readline():
        raise RuntimeError(f"the worker did not start: {process.communicate()[1][-2000:]}")
    return process


def kill(process: subprocess.Popen[str]) -> bool:
    """SIGKILL; whether it came before the end."""
    process.kill()
    process.communicate()
    return process.returncode < 0


def finish(process: subprocess.Popen[str]) -> dict[str, Any]:
    """Wait for the end; what the worker says."""
    said, complaint = process.communicate(timeout=PATIENCE_S)
    if process.returncode or not said:
        raise RuntimeError(f"the worker ended with {process.returncode}: {complaint[-2000:]}")
    found: dict[str, Any] = json.loads(said.splitlines()[-1])
    return found


if __name__ == "__main__":
    print(json.dumps(asyncio.run(work(Job(**json.loads(sys.argv[1]))))))
