"""What the simulated provider answers: as our models that need no key would. Part of the grid room, for cli."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from summhay_ray.grid.local import make_local_models
from summhay_ray.haystack import ReleasedFile
from summhay_ray.llm import Request, simulated
from summhay_ray.synth import Faults, faulty, task_of

JUDGE, SUMMARIZER, WRITER = "offline/judge", "offline/support", "offline/writer"
NOTHING_TO_SAY = "The simulated provider reads the prompts of summaries and judgments; it has nothing to say to this one."
SHORT_VERDICT = json.dumps({"coverage": "FULL_COVERAGE", "bullet_id": 1})
SHORT_BULLET = "- The documents say so. [1]"
NO_FAULTS = Faults()
_SWITCH_S = 0.0005


@dataclass(frozen=True, slots=True)
class Serving:
    """Where to serve, to whom, and what to keep."""

    host: str = "127.0.0.1"
    port: int = 8000
    keys: str | None = None
    """A file of API keys, one a line; any key where None."""
    record: str | None = None
    """A file that gets each call as a line of JSON."""
    short: bool = False
    """A fixed verdict or bullet in the place of an answer that is worked out."""
    faults: Faults = NO_FAULTS
    """Of what is answered to the prompts of a synthesis."""


def make_settings(fields: Mapping[str, Any], limits: list[str]) -> simulated.Settings:
    """Settings by field, and `MODEL:rpm=60,...` for single models. Raises SettingsError or UnknownName."""
    models: dict[str, dict[str, float]] = {}
    for limit in limits:
        model, changes = simulated.parse_limit(limit)
        models.setdefault(model, {}).update(changes)
    return simulated.Settings(**fields, models=models)


def simulate(settings: simulated.Settings, serving: Serving, announce: Callable[[str], None]) -> dict[str, Any]:
    """Serve until SIGTERM or SIGINT; `announce` gets the API's base. Returns the books. Raises OSError, SettingsError."""
    keys = simulated.read_keys(serving.keys) if serving.keys else None
    with ExitStack() as stack:
        # An answer that is being worked out must not hold the interpreter for five milliseconds at a time.
        stack.callback(sys.setswitchinterval, sys.getswitchinterval())
        sys.setswitchinterval(_SWITCH_S)
        record = stack.enter_context(Path(serving.record).open("a", encoding="ascii")) if serving.record else None
        provider = simulated.Provider(settings, make_answers(serving.short, serving.faults), keys, record)
        simulated.serve(provider, serving.host, serving.port, announce)
    return provider.books.to_json()


def make_faults(forget: float, extra: float, malformed: float, seed: int = 0) -> Faults:
    """The faults of what is written and said for a synthesis. Raises SettingsError for a share that is none."""
    try:
        return Faults(forget, extra, malformed, seed)
    except ValueError as error:
        raise simulated.SettingsError(str(error)) from error


def make_answers(short: bool = False, faults: Faults = NO_FAULTS) -> simulated.Answers:
    """What answers: the offline models, or fixed texts."""
    if short:
        return simulated.Answers(short_answer, quick=True)
    answer = offline_answer()
    return simulated.Answers(answer if faults == NO_FAULTS else faulty(answer, faults))


def _no_source(haystack_id: str) -> ReleasedFile:
    raise LookupError(f"a simulated provider has no haystack {haystack_id}: it answers from the prompt alone")


def offline_answer() -> simulated.Answer:
    """A synthesis's prompt is answered by `offline/writer`, a judge's by `offline/judge`, any other by `offline/support`."""
    models = make_local_models(_no_source)

    def answer(model: str, prompt: str) -> str:
        request = Request(model=model, prompt=prompt)
        if task_of(prompt) is not None:
            return models[WRITER].answer(request)
        try:
            return models[JUDGE].answer(request)
        except LookupError:
            return models[SUMMARIZER].answer(request) or NOTHING_TO_SAY

    return answer


def short_answer(model: str, prompt: str) -> str:
    """A fixed text that can be read as a verdict or as a summary."""
    return SHORT_VERDICT if "\nReference Insight:" in prompt else SHORT_BULLET
