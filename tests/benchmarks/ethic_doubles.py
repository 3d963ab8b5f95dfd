"""Test doubles of models for ETHIC, on the sample's records: perfect, empty, shuffled and echoing. `kind:
ethic_doubles:Doubles`."""

from __future__ import annotations

import functools
import random
import re
from collections.abc import Mapping
from importlib import resources
from typing import ClassVar

from summhay_ray.benchmark import Request
from summhay_ray.benchmarks.ethic import Ethic, EthicBuild
from summhay_ray.benchmarks.ethic.lenient_metrics import sections
from summhay_ray.benchmarks.ethic.records import Record, read_records


@functools.cache
def known() -> Mapping[str, Record]:
    """Prompt -> the sample's record."""
    sample = resources.files("summhay_ray.benchmarks.ethic").joinpath("sample/ethic.jsonl").read_bytes()
    return {record.user: record for record in read_records(sample, "sample/ethic")}


def asked(request: Request) -> Record:
    return known()[request.messages[-1].content]


def gold(record: Record) -> list[str]:
    """The names in the gold answer, as single items."""
    return re.findall(r"\[\d+\]", record.answer[0]) if record.task == "Organizing" else list(record.answer)


def written(record: Record, items: list[str]) -> str:
    """An answer with the items in the requested form."""
    if record.task == "Attributing":
        others = [one for one in labeled(record) if one not in items]
        core, other = ("Related Segments", "Supporting Segments") if record.domain == "Law" else ("Core IDs", "Supplementary IDs")
        return f"- {core}: {', '.join(items)}\n- {other}: {', '.join(others)}"
    return ("; " if record.domain in ("Medicine", "Law") else ", ").join(items)


def labeled(record: Record) -> list[str]:
    """All labels in attributing."""
    return re.findall(r"<(Segment \d+)>" if record.domain == "Law" else r"^\[\d+\]", record.context, re.MULTILINE)


def word(record: Record) -> str:
    return "Segment" if record.domain == "Law" else "Section"


class Perfect:
    """Answers with the gold answer, or with the first two sentences of a section."""

    name: ClassVar[str] = "offline/perfect"
    revision: ClassVar[str] = "1"

    def answer(self, request: Request) -> str:
        record = asked(request)
        if record.task == "Summarizing":
            parts = ((number, ". ".join(text.split(". ")[:2])) for number, text in sections(record.context).items())
            return "\n\n".join(f"<{word(record)} {number}>\n{text}" for number, text in parts)
        return written(record, gold(record))


class Empty:
    """Answers with an empty text."""

    name: ClassVar[str] = "offline/empty"
    revision: ClassVar[str] = "1"

    def answer(self, request: Request) -> str:
        return ""


class Shuffled:
    """Shuffles the right answer. Attributing gets as many other ids, Summarizing gets the summaries of other sections."""

    name: ClassVar[str] = "offline/shuffled"
    revision: ClassVar[str] = "1"

    def answer(self, request: Request) -> str:
        record, draws = asked(request), random.Random(request.prompt)
        if record.task == "Summarizing":
            texts = re.split(r"<\w+ \d+>\n", Perfect().answer(request))[1:]
            return "\n\n".join(
                f"<{word(record)} {place}>\n{text.strip()}" for place, text in enumerate(texts[1:] + texts[:1], start=1)
            )
        items = gold(record)
        if record.task == "Attributing":
            items = draws.sample(labeled(record), len(items))
        draws.shuffle(items)
        return written(record, items)


class Echo:
    """Repeats the prompt."""

    name: ClassVar[str] = "offline/echo"
    revision: ClassVar[str] = "1"

    def answer(self, request: Request) -> str:
        return request.messages[-1].content


class Doubles(Ethic):
    """ETHIC with these models in addition to ours."""

    kind = "ethic_doubles"
    own_models = (Perfect, Empty, Shuffled, Echo)


SAY = "Say exactly:\n"


class Obedient:
    """Answers with the end of the prompt."""

    name: ClassVar[str] = "offline/obedient"
    revision: ClassVar[str] = "1"

    def answer(self, request: Request) -> str:
        said = request.messages[-1].content.partition(SAY)[2]
        if said == "nothing to say":
            raise LookupError("nothing to say")
        return said


class Choosy:
    """Rates every text, except texts about a fire."""

    name: ClassVar[str] = "offline/choosy"
    revision: ClassVar[str] = "1"

    def answer(self, request: Request) -> str:
        return "I would rather not say." if "burned" in request.prompt else "4"


class Obeying(Ethic):
    """ETHIC with a model that gives each record's answer, and a judge that skips some."""

    kind = "ethic_obeying"
    own_models = (Obedient, Choosy)


class Writer:
    """Writes a question about the second word of a text, and lists the citations after `the rule of`."""

    name: ClassVar[str] = "offline/asker"
    revision: ClassVar[str] = "3"

    def answer(self, request: Request) -> str:
        context = request.messages[-1].content.partition("### Context:\n")[2].partition("\n\nNow, respond")[0]
        if "### Target Case:" in request.messages[-1].content:
            return "\n".join(re.findall(r"the rule of ([A-Z]\w+)", context)) or "None"
        return f"**Question:** Who stands second?\n**Answer:** {context.split()[1]}"


class Asking(EthicBuild):
    """A build with a model that writes."""

    kind = "ethic_asking"
    own_models = (Writer,)
