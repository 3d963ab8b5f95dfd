"""An OpenAI-compatible provider on loopback that bills its calls, to rehearse paid runs and test the gateway.

It uses `llm` and the local models. The web server is imported only when it starts.
"""

from summhay_ray.simulator.answering import Answer, Answers
from summhay_ray.simulator.bills import Call
from summhay_ray.simulator.provider import Provider
from summhay_ray.simulator.quality import Quality
from summhay_ray.simulator.start import (
    NOTHING_TO_SAY,
    Serving,
    make_answers,
    make_faults,
    make_settings,
    offline_answer,
    simulate,
)
from summhay_ray.simulator_settings import Settings, parse_limit, read_keys

__all__ = [
    "NOTHING_TO_SAY",
    "Answer",
    "Answers",
    "Call",
    "Provider",
    "Quality",
    "Serving",
    "Settings",
    "make_answers",
    "make_faults",
    "make_settings",
    "offline_answer",
    "parse_limit",
    "read_keys",
    "simulate",
]
