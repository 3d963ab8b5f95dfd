"""Sample, from a benchmark's items, the questions whose coverage is measured.

Any benchmark works unchanged: the first request of an item is built but not sent, and its prompt is split into context and
query. The split follows ETHIC's frame, or document headers such as `Article 3:` with an end mark after the last document. In
any other prompt, the last paragraph is the query.
"""

import json
import random
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from summhay_ray.benchmark import Benchmark, Item
from summhay_ray.errors import SpecError
from summhay_ray.loops import run_loop

_FRAMED = re.compile(r"\A(.*?)### Context:\n(.*)\n\n(Now, respond to the instruction.*)\Z", re.DOTALL)
_HEADER = re.compile(r"^(?:Article|Conversation|Document) \d{1,9}:$", re.MULTILINE | re.ASCII)
_MARK = re.compile(r"^=== End of [\w ]+ ===$", re.MULTILINE)
_GROUP = ("task", "domain")
_TRIES = 3
"""Items to try, as a multiple of the sample size: some items yield no question."""


@dataclass(frozen=True, slots=True)
class Question:
    """A context, a query about it, and the contents of a correct answer if the benchmark has them."""

    item: str
    group: str
    document: str
    """The source document. It is the cluster of the intervals, because questions about one document are similar."""
    context: str = field(repr=False)
    query: str = field(repr=False)
    references: tuple[str, ...] = field(default=(), repr=False)


def sample_questions(workload: Benchmark[Any], a_group: int, seed: int) -> list[Question]:
    """Draw at most `a_group` questions from each group of items (task and domain). An item that several models answer counts
    once. Raises SpecError if no item asks about a text."""
    groups: dict[str, list[Item]] = {}
    first = next((item.queue for item in workload.items()), "")
    queues = {item.queue for item in workload.items()}
    tasks: dict[str, str] = {}
    for item in workload.items():
        group = "/".join(str(item.data[name]) for name in _GROUP if isinstance(item.data.get(name), str))
        # Models may have different tasks, so each group takes the items of one model.
        if item.queue == first or len(queues) > 1 and tasks.setdefault(group, item.queue) == item.queue != first:
            groups.setdefault(group, []).append(item)
    questions: list[Question] = []
    for group, items in groups.items():
        drawn = random.Random(json.dumps([seed, group])).sample(items, min(len(items), a_group * _TRIES))
        seen: set[tuple[str, str]] = set()
        for item in drawn:
            request = workload.first_request(item) if len(seen) < a_group else None
            parts = split(request.messages[-1].content) if request is not None else None
            if parts is None or parts in seen:
                continue
            seen.add(parts)
            references = tuple(run_loop(lambda item=item: workload.references(item)))  # type: ignore[misc]
            questions.append(Question(item.id, group, str(item.data.get("document") or item.id), *parts, references))
    if not questions:
        raise SpecError(f"spec: no item of this {workload.kind} asks about a text that can be cut into chunks")
    return sorted(questions, key=lambda question: (question.group, question.item))


def split(prompt: str) -> tuple[str, str] | None:
    """Split a prompt into (context, query). None if it has fewer than two paragraphs, or if the context would be empty."""
    if framed := _FRAMED.match(prompt):
        return framed[2].strip(), f"{framed[1].strip()}\n{framed[3]}".strip()
    headers = list(_HEADER.finditer(prompt))
    paragraphs = [match.start() for match in re.finditer(r"\n\s*\n(?=\S)", prompt.rstrip())]
    if not paragraphs:
        return None
    begin = headers[0].start() if headers else 0
    # The query begins at the end mark after the last document. Without a mark, it is the last paragraph.
    mark = _MARK.search(prompt, begin)
    end = mark.start() if mark else paragraphs[-1]
    if end <= begin:
        return None
    return prompt[begin:end].strip(), f"{prompt[:begin].strip()}\n{prompt[end:].strip()}".strip()


def to_json_lines(questions: Iterable[Question]) -> bytes:
    """Return the questions as JSON lines (ASCII)."""
    return "".join(json.dumps(asdict(question), ensure_ascii=True) + "\n" for question in questions).encode("ascii")


def read(content: bytes) -> list[Question]:
    rows = [json.loads(line) for line in content.decode("ascii").splitlines()]
    return [Question(**{**row, "references": tuple(row["references"])}) for row in rows]
