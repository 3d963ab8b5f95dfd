"""An OpenAI-compatible provider on loopback that bills what it serves: to rehearse a paid run, and to test the gateway with.

Uses `llm` and the models that need no key. Importing it loads no web server: serving does.
"""

from summhay_ray.simulator.answering import Answer, Answers
from summhay_ray.simulator.bills import Call
from summhay_ray.simulator.provider import Provider
from summhay_ray.simulator.serve import (
    NOTHING_TO_SAY,
    Serving,
    make_answers,
    make_faults,
    make_settings,
    offline_answer,
    simulate,
)
from summhay_ray.simulator.settings import Settings, SettingsError, parse_limit, read_keys

__all__ = [
    "NOTHING_TO_SAY",
    "Answer",
    "Answers",
    "Call",
    "Provider",
    "Serving",
    "Settings",
    "SettingsError",
    "make_answers",
    "make_faults",
    "make_settings",
    "offline_answer",
    "parse_limit",
    "read_keys",
    "simulate",
]
