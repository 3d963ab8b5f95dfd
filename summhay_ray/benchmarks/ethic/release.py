"""ETHIC's metrics as the authors' scripts compute them (dmis-lab/ETHIC, f1a30fe), mistakes included. Part of the ethic folder.

What raises there raises here, by the same name: an answer that the scripts cannot score is told apart from one that scores 0.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

FAILED = "FAILED"
"""What the scripts write where a model refuses."""
DOMAINS = {
    "Recalling": ("Books", "Debates", "Medicine", "Law"),
    "Summarizing": ("Books", "Debates", "Medicine", "Law"),
    "Organizing": ("Books", "Debates"),
    "Attributing": ("Medicine", "Law"),
}
"""Task -> the domains that it is there for (paper, Table 2)."""
CRITERIA = ("con", "faith", "rel")
"""Consistency, faithfulness, relevance, in the order in which sections are judged."""
SCALE = (1, 2, 3, 4, 5)

_SEPARATOR = re.compile(r"[;,]\s*")
_NUMBER = re.compile(r"\d+")
_CORE = re.compile(r"(?:Related Segments|Core IDs):\s*(.+)")
_SOURCE = re.compile(r"### Context:\n(.+?)\n\nNow, respond to the instruction", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Overlap:
    """Precision, recall and F1 of two sets, 0 where a denominator is."""

    precision: float
    recall: float
    f1: float

    @classmethod
    def of(cls, hits: int, predicted: int, gold: int) -> Overlap:
        """From counts."""
        precision, recall = (hits / n if n else 0 for n in (predicted, gold))
        both = precision + recall
        return cls(precision, recall, 2 * precision * recall / both if both else 0)


def recalling(prediction: str, answer: Sequence[str]) -> Overlap:
    """Items between commas and semicolons against the labels. A label that stands twice must be found twice, which nobody can."""
    return Overlap(0, 0, 0) if prediction == FAILED else _items_overlap(prediction, answer)


def _items_overlap(prediction: str, answer: Sequence[str]) -> Overlap:
    predicted = {_plain(item) for item in _SEPARATOR.split(prediction)}
    gold = [_plain(label) for label in answer]
    return Overlap.of(len(predicted.intersection(gold)), len(predicted), len(gold))


def _plain(item: str) -> str:
    return item.lower().strip(".").strip()


def lcs(prediction: Sequence[str], answer: Sequence[str]) -> tuple[list[str], float]:
    """The longest common subsequence and its share of the answer. Raises ZeroDivisionError for an empty answer.

    Which of several it is follows from where the way back goes on a tie: left, unless up is longer.
    """
    lengths = [[0] * (len(answer) + 1)]
    for mine in prediction:
        above, row = lengths[-1], [0]
        for place, other in enumerate(answer):
            row.append(above[place] + 1 if mine == other else max(above[place + 1], row[place]))
        lengths.append(row)
    found: list[str] = []
    i, j = len(prediction), len(answer)
    while i and j:
        if prediction[i - 1] == answer[j - 1]:
            found.append(prediction[i - 1])
            i, j = i - 1, j - 1
        elif lengths[i - 1][j] > lengths[i][j - 1]:
            i -= 1
        else:
            j -= 1
    return found[::-1], len(found) / len(answer)


def organizing(prediction: str, answer: str) -> tuple[list[str], float]:
    """`lcs` of all numbers of both texts. Raises TypeError for FAILED, as the scripts do."""
    if prediction == FAILED:
        raise TypeError("the scripts unpack a score of 0 into a subsequence and a score")
    return lcs(_NUMBER.findall(prediction), _NUMBER.findall(answer))


def attributing(prediction: str, answer: Sequence[str]) -> Overlap:
    """Numbers behind the first core header, or of the whole text without one, against the first number of each label.

    An answer without a number is the item "", so that the label "None" is never matched.
    """
    if prediction == FAILED:
        return Overlap(0, 0, 0)
    header = _CORE.search(prediction)
    numbers = _NUMBER.findall(header.group(1) if header else prediction)
    gold = [found.group() if (found := _NUMBER.search(label)) else "None" for label in answer]
    return _items_overlap(", ".join(numbers), gold)


def source_of(user_msg: str) -> str:
    """The context of a prompt. Raises AttributeError where its frame is not there."""
    found = _SOURCE.search(user_msg)
    if found is None:
        raise AttributeError("'NoneType' object has no attribute 'group'")
    return found.group(1)


@dataclass(frozen=True, slots=True)
class JudgeRequest:
    """What the judge is asked about one section by one criterion."""

    custom_id: str
    content: str
    role: str = "system"


def requests(domain: str, id: str, source: str, prediction: str, templates: Mapping[str, str]) -> list[JudgeRequest]:
    """What the judge is asked: criterion by criterion, the source's sections that the answer has, too; others are left out."""
    texts = [templates[criterion] for criterion in CRITERIA]
    # The scripts look criteria up by their templates: of equal ones the last gives its name to all.
    named = dict(zip(texts, CRITERIA, strict=True))
    name = id.replace(".json", "")
    return [
        JudgeRequest(
            f"{domain}_{name}_{section}_{named[text]}",
            text.replace("{{Document}}", body).replace("{{Summary}}", summary),
        )
        for text in texts
        for section, (body, summary) in pairs(domain, source, prediction).items()
    ]


def pairs(domain: str, source: str, prediction: str) -> dict[str, tuple[str, str]]:
    """Header -> (section, summary) of the source's sections that the answer has, too."""
    of_answer = bodies(prediction, domain)
    return {header: (body, of_answer[header]) for header, body in bodies(source, domain).items() if header in of_answer}


def bodies(text: str, domain: str) -> dict[str, str]:
    """Header -> what stands below it; of equal headers the last."""
    parts = re.split(rf"(<{'Segment' if domain == 'Law' else 'Section'} \d+>)", text)
    return {header: body.strip() for header, body in zip(parts[1::2], parts[2::2], strict=True)}


def judged(outputs: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """Sample -> its figures, from the first token of each of the judge's answers and that token's alternatives.

    Sums are divided by a third of all answers, so that a lost answer shifts every criterion. Raises KeyError for a criterion
    that is none of the three.
    """
    import numpy as np

    samples: dict[str, dict[str, float]] = {}
    n: dict[str, int] = {}
    for output in outputs:
        sample, criterion = _place(output["custom_id"])
        figures = samples.setdefault(sample, {f"{kind}_{one}": 0 for kind in ("weighted", "top") for one in CRITERIA})
        if f"top_{criterion}" not in figures:
            raise KeyError(f"top_{criterion}")
        figures[f"top_{criterion}"] += _number(output["token"])
        mass = dict.fromkeys(SCALE, 0.0)
        for other in output["top_logprobs"]:
            score = whole(other["token"])
            if score in mass:
                with np.errstate(over="ignore"):
                    mass[score] += float(np.exp(_finite_or_not(other.get("logprob", "-Infinity"))))
        for score, probability in mass.items():
            figures[f"weighted_{criterion}"] += score * probability
        n[sample] = n.get(sample, 0) + 1
    for sample, figures in samples.items():
        count = n[sample] / 3
        for name in figures:
            figures[name] /= count
        for kind in ("weighted", "top"):
            figures[kind] = sum(figures[f"{kind}_{one}"] for one in CRITERIA) / 3
        # They divide their count by itself, too.
        figures["count"] = 1.0
    return samples


def _place(custom_id: str) -> tuple[str, str]:
    """(sample, criterion) of an id such as `Law_id_<Segment 1>_con`. An id without its marker loses its last letter instead."""
    domain = custom_id.split("_")[0]
    end = custom_id.find("_<Segment" if domain == "Law" else "_<Section")
    return f"{domain}_{custom_id[custom_id.find('_') + 1 : end]}", custom_id[custom_id.rfind("_") + 1 :]


def _number(token: str) -> float:
    try:
        return float(token)
    except ValueError:
        return 0.0


def whole(token: str) -> int | None:
    """A score as the scripts read a token."""
    try:
        return int(token)
    except ValueError:
        return None


def _finite_or_not(value: Any) -> Any:
    """JSON has no infinite numbers: cases write them as texts."""
    return float(value) if value in ("NaN", "Infinity", "-Infinity") else value


def aggregated(task: str, scores: Mapping[str, Sequence[float | None]]) -> tuple[float, dict[str, float]]:
    """(mean of all samples, domain -> mean of its samples). Domains that the task is not there for do not count.

    Raises KeyError for a sample without a score, ZeroDivisionError for a domain without samples, and UnboundLocalError for
    another task.
    """
    if task not in DOMAINS:
        raise UnboundLocalError("the scripts name no domains for other tasks")
    found: dict[str, list[float]] = {}
    for domain in DOMAINS[task]:
        found[domain] = []
        for score in scores.get(domain, ()):
            if score is None:
                raise KeyError("score")
            found[domain].append(_finite_or_not(score))
    every = [score for listed in found.values() for score in listed]
    final = sum(every) / len(every)
    return final, {domain: sum(listed) / len(listed) for domain, listed in found.items()}
