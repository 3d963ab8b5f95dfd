"""Reads a domain of documents from one YAML file. Imported from `summhay_ray.synth`.

To add a domain: write a YAML file with the fields of `Domain` (those with a default may be left out) and name its path in the
spec. `prompts` replaces the prompt of any task; each text ends with the lines `Input:` and `[[INPUT]]`.
"""

import difflib
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from datetime import date
from functools import cache
from importlib import resources
from typing import Any, get_args

from summhay_ray.errors import UserError
from summhay_ray.inputs import read_file
from summhay_ray.plugins import unknown
from summhay_ray.synth.making.kinds import Task
from summhay_ray.text import text_hash
from summhay_ray.yaml_text import MAX_MB, YamlError, load

TASKS: tuple[Task, ...] = get_args(Task)
METHODS = ("chapters", "whole")
INPUT = "[[INPUT]]"
_ENDINGS = (".yaml", ".yml")


@dataclass(frozen=True)
class Domain:
    """A kind of documents, and how they are written (paper, section 3.2 and appendix A.1)."""

    name: str
    genre: str
    """The kind of document, in words for a writer, such as "a news article"."""
    tone: str = "plain"
    language: str = "English"
    words: int = 750
    """Number of words of a document, unless the spec sets a length."""
    method: str = "whole"
    """chapters: one insight after the other, each checked; whole: all at once, then fixed by editing."""
    participants: tuple[str, ...] = ()
    """The speakers, if the topic names none."""
    insights_per_document: int = 6
    """Number of insights in a document of `words` words, unless the spec's difficulty sets it."""
    tries: int = 10
    """Maximum rewrites of a chapter (A.1.3)."""
    rounds: int = 5
    """Maximum rounds of editing a document (A.1.3)."""
    outline_rounds: int = 3
    """Maximum number of repeated requests for subtopics, insights and queries that fail a check."""
    prompts: Mapping[Task, str] = field(default_factory=dict, repr=False)
    """The template of every task."""

    def hashes(self) -> dict[str, str]:
        """Task -> sha256 (hex) of its template."""
        return {task: text_hash(self.prompts[task]) for task in TASKS}


LEAST: Mapping[str, int] = {"words": 20, "insights_per_document": 1, "tries": 0, "rounds": 0, "outline_rounds": 0}
"""Minimum of each numeric field."""
_MOST = 100_000


def domain_names() -> tuple[str, ...]:
    """Return the names of the shipped domains, sorted."""
    names = (entry.name for entry in resources.files("summhay_ray.synth").joinpath("domains").iterdir())
    return tuple(sorted(name.removesuffix(".yaml") for name in names if name.endswith(".yaml")))


def load_domain(name_or_path: str) -> Domain:
    """Return a shipped domain by its name, or the domain in a user's YAML file (a path ending in .yaml or .yml).

    Raises UnknownName or UserError.
    """
    if name_or_path.endswith(_ENDINGS):
        try:
            text = read_file(name_or_path, MAX_MB).decode("utf-8-sig")
        except UserError as error:
            raise UserError(str(error)) from error
        except (OSError, UnicodeDecodeError) as error:
            why = getattr(error, "strerror", None) or "it is not UTF-8 text"
            raise UserError(f"{name_or_path}: cannot be read as a domain ({why}); expected a YAML file") from error
        return parse_domain(text, name_or_path)
    if name_or_path not in domain_names():
        raise unknown("domain", name_or_path, domain_names())
    return _shipped(name_or_path)


def parse_domain(text: str, file: str) -> Domain:
    """Parse the domain in the text of `file`. Raise UserError."""
    try:
        return domain_from(load(text), file)
    except YamlError as error:
        raise UserError(f"{file}:{error}") from error


def domain_from(raw: Any, file: str) -> Domain:
    """Return the domain in the parsed YAML of `file`. Raise UserError."""
    if not isinstance(raw, dict):
        raise UserError(f"{file}: expected lines such as 'genre: a news article' (field: value), found {_kind(raw)}")
    known = {each.name: each for each in fields(Domain)}
    for name in raw:
        if name not in known:
            raise UserError(f"{file}: no field is named {name!r}; {_nearest(str(name), list(known))}")
    for each in known.values():
        if each.name not in raw and each.default is MISSING and each.default_factory is MISSING:
            raise UserError(f"{file}: field {each.name!r} is missing; write it as text")
    values = {name: _value(name, value, file) for name, value in raw.items()}
    values["prompts"] = {**_templates(), **values.get("prompts", {})}
    return Domain(**values)


def _value(name: str, value: Any, file: str) -> Any:
    """Return the value of a field of `Domain`. Raise UserError for an invalid one."""
    if name in LEAST:
        if not isinstance(value, int) or isinstance(value, bool) or not LEAST[name] <= value <= _MOST:
            raise UserError(f"{file}: {name}: expected a whole number from {LEAST[name]} to {_MOST}, found {value!r}")
        return value
    if name == "participants":
        expected = f"{file}: participants: expected a list of texts such as [Ann, Bo], found"
        if not isinstance(value, list):
            raise UserError(f"{expected} {_kind(value)}")
        for place, speaker in enumerate(value):
            if not isinstance(speaker, str) or not speaker.strip():
                quotes = "; put it in quotes" if isinstance(speaker, int | float | date) else ""
                raise UserError(f"{expected} {_kind(speaker)} at place {place}{quotes}")
        return tuple(speaker.strip() for speaker in value)
    if name == "prompts":
        if not isinstance(value, dict):
            raise UserError(f"{file}: prompts: expected entries such as 'document: |', found {_kind(value)}")
        for task, text in value.items():
            if task not in TASKS:
                raise UserError(f"{file}: prompts: no task is named {task!r}; {_nearest(str(task), TASKS)}")
            if not isinstance(text, str) or not text.rstrip().endswith(f"\nInput:\n{INPUT}") or text.count(INPUT) > 1:
                raise UserError(f"{file}: prompts.{task}: its last two lines must be 'Input:' and '{INPUT}', once")
        return {task: f"{text.rstrip()}\n" for task, text in value.items()}
    if not isinstance(value, str) or not value.strip():
        raise UserError(f"{file}: {name}: expected text, found {_kind(value)}")
    if name == "method" and value not in METHODS:
        raise UserError(f"{file}: method: expected chapters or whole, found {value!r}; {_nearest(value, METHODS)}")
    return value.strip()


@cache
def _shipped(name: str) -> Domain:
    entry = resources.files("summhay_ray.synth").joinpath("domains", f"{name}.yaml")
    return parse_domain(entry.read_text(encoding="utf-8"), f"{name}.yaml")


@cache
def _templates() -> dict[Task, str]:
    folder = resources.files("summhay_ray.synth").joinpath("prompts")
    return {task: folder.joinpath(f"{task}.txt").read_text(encoding="utf-8") for task in TASKS}


def _nearest(name: str, known: Any) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {near[0]!r}?" if near else "known: " + ", ".join(known)


def _kind(value: Any) -> str:
    """Describe the value's kind, in words for people."""
    return {dict: "entries", list: "a list", str: "text" if value else "empty text", type(None): "nothing"}.get(
        type(value), repr(value)
    )
