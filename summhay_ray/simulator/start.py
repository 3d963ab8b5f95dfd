"""Starts the simulated provider, whose answers come from the offline models."""

import contextlib
import ipaddress
import json
import socket
import sys
import zlib
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from summhay_ray.errors import UserError
from summhay_ray.llm import Request
from summhay_ray.local_models import LocalModels
from summhay_ray.loops import run_loop
from summhay_ray.simulator.answering import Answer, Answers
from summhay_ray.simulator.provider import Provider
from summhay_ray.simulator.quality import Quality
from summhay_ray.simulator_settings import Settings, parse_limit, read_keys
from summhay_ray.synth import Faults, faulty, task_of

JUDGE, RATER, SUMMARIZER, WRITER = "offline/judge", "offline/rater", "offline/support", "offline/writer"
READERS, NAMER = ("offline/order", "offline/match"), "offline/names"
INSTRUCTION, SUMMARY, FINAL_SCORE = "\n### Instruction:\n", "summar", "\n# Final Score\n"
"""Phrases that identify ETHIC's prompts, and the prompts of information coverage."""
SHORT_SCORE = "# Final Score\n1"
NOTHING_TO_SAY = "The simulated provider reads the prompts of summaries and judgments; it has nothing to say to this one."
SHORT_VERDICT = json.dumps({"coverage": "FULL_COVERAGE", "bullet_id": 1})
SHORT_BULLET = "- The documents say so, as {model} found in text {text:08x}. [1]"
SHORT_RATING = "4"
NO_FAULTS = Faults()
BEST = Quality()
_SWITCH_S = 0.0005


@dataclass(frozen=True, slots=True)
class Serving:
    """The address on which to serve, the accepted keys, the record, and the kind of answers."""

    host: str = "127.0.0.1"
    port: int = 8000
    keys: str | None = None
    """A file of accepted API keys, one per line; None: any key is accepted."""
    record: str | None = None
    """A file to which calls are appended, as lines of JSON."""
    short: bool = False
    """Whether fixed verdicts and bullets replace computed answers."""
    faults: Faults = NO_FAULTS
    """Faults in the answers to prompts of a synthesis."""
    quality: Quality = BEST
    """The share of a summary that each model gives."""

    @property
    def beyond_this_machine(self) -> bool:
        """Whether other machines can reach it. False if the host has no address; then listening raises the error."""
        try:
            found = socket.getaddrinfo(self.host or None, self.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        except OSError:
            return False
        return any(not ipaddress.ip_address(where[0]).is_loopback for *_, where in found)


def make_settings(fields: Mapping[str, Any], limits: list[str]) -> Settings:
    """Return settings from fields, with `limits` such as `MODEL:rpm=60,...` for single models. Raise UserError or UnknownName."""
    models: dict[str, dict[str, float]] = {}
    for limit in limits:
        model, changes = parse_limit(limit)
        models.setdefault(model, {}).update(changes)
    return Settings(**fields, models=models)


def simulate(settings: Settings, serving: Serving, announce: Callable[[str], None]) -> dict[str, Any]:
    """Serve until SIGTERM or SIGINT. Return the books as JSON. Raise OSError, UserError.

    `announce`: called with the API's base URL when the provider listens.
    """
    from summhay_ray.simulator.server import serve

    keys = read_keys(serving.keys) if serving.keys else None
    with ExitStack() as stack:
        # Threads that compute answers must not hold the interpreter for the default five milliseconds.
        stack.callback(sys.setswitchinterval, sys.getswitchinterval())
        sys.setswitchinterval(_SWITCH_S)
        record = stack.enter_context(Path(serving.record).open("a", encoding="ascii")) if serving.record else None
        provider = Provider(settings, make_answers(serving.short, serving.faults, serving.quality), keys, record)
        run_loop(lambda: serve(provider, serving.host, serving.port, announce))
    return provider.books.to_json()


def make_faults(forget: float, extra: float, malformed: float, seed: int = 0) -> Faults:
    """Return the faults in answers to prompts of a synthesis. Raise UserError for a share outside 0 to 1."""
    try:
        return Faults(forget, extra, malformed, seed)
    except ValueError as error:
        raise UserError(str(error)) from error


def make_answers(short: bool = False, faults: Faults = NO_FAULTS, quality: Quality = BEST) -> Answers:
    """Return the answers of the offline models or, if `short`, short texts that cost nothing to make. Raise UserError if short
    texts have a quality."""
    if short:
        if quality is not BEST:
            raise UserError("--quality needs --answers offline; short answers are the same for every model")
        return Answers(short_answer, quick=True)
    answer = offline_answer(quality)
    return Answers(answer if faults == NO_FAULTS else faulty(answer, faults))


def offline_answer(quality: Quality = BEST) -> Answer:
    """Return a function that answers each prompt with the local model for it.

    `offline/writer` answers the prompts of a synthesis, `offline/judge` those of a judge, and `offline/rater` those of a rater
    (with the rating alone). Each task of ETHIC has its own model. `offline/support`, reduced to the model's `quality`, answers
    all others. The question whether a passage is needed is always answered with yes.
    """
    models = LocalModels()

    def answer(model: str, prompt: str) -> str:
        request = Request(model, prompt)
        if task_of(prompt) is not None:
            return models[WRITER].answer(request)
        if FINAL_SCORE in prompt:
            return SHORT_SCORE
        with contextlib.suppress(LookupError):
            return models[JUDGE].answer(request)
        with contextlib.suppress(LookupError):
            return str(json.loads(models[RATER].answer(request))["rating"])
        _, mark, instruction = prompt.rpartition(INSTRUCTION)
        for reader in (*READERS, *(() if SUMMARY in instruction.lower() else (NAMER,))) if mark else ():
            with contextlib.suppress(LookupError):
                return models[reader].answer(request)
        return quality.reduce(model, models[SUMMARIZER].answer(request)) or NOTHING_TO_SAY

    return answer


def short_answer(model: str, prompt: str) -> str:
    """Return a fixed verdict or rating, or a bullet that differs by model and prompt, as in summaries of real models."""
    if "\nReference Insight:" in prompt:
        return SHORT_VERDICT
    if "\n</summary>\n" in prompt:
        return SHORT_RATING
    return SHORT_BULLET.format(model=model, text=zlib.crc32(prompt.encode()))
