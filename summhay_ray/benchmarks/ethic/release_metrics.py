"""ETHIC's metrics as the authors' scripts compute them (dmis-lab/ETHIC, f1a30fe), mistakes included.

Where the scripts raise, this module raises the same exception: an answer that they cannot score is not an answer that scores 0.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

FAILED = "FAILED"
"""The scripts' placeholder for a refusal."""
DOMAINS = {
    "Recalling": ("Books", "Debates", "Medicine", "Law"),
    "Summarizing": ("Books", "Debates", "Medicine", "Law"),
    "Organizing": ("Books", "Debates"),
    "Attributing": ("Medicine", "Law"),
}
"""Task -> its domains (paper, Table 2)."""
CRITERIA = ("con", "faith", "rel")
"""Consistency, faithfulness, relevance, in the order in which sections are judged."""
SCALE = (1, 2, 3, 4, 5)

_SEPARATOR = re.compile(r"[;,]\s*")
_NUMBER = re.compile(r"\d+")
_CORE = re.compile(r"(?:Related Segments|Core IDs):\s*(.+)")
_SOURCE = re.compile(r"### Context:\n(.+?)\n\nNow, respond to the instruction", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Overlap:
    """Precision, recall and F1 of two sets; 0 if the denominator is 0."""

    precision: float
    recall: float
    f1: float

    @classmethod
    def of(cls, hits: int, predicted: int, gold: int) -> Overlap:
        precision, recall = (hits / n if n else 0 for n in (predicted, gold))
        both = precision + recall
        return cls(precision, recall, 2 * precision * recall / both if both else 0)


def recalling(prediction: str, answer: Sequence[str]) -> Overlap:
    """Compare items, split at commas and semicolons, with the labels. Items are a set, so duplicate labels cannot all be
    matched."""
    if prediction == FAILED:
        return Overlap(0, 0, 0)
    predicted = {_plain(item) for item in _SEPARATOR.split(prediction)}
    gold = [_plain(label) for label in answer]
    return Overlap.of(len(predicted.intersection(gold)), len(predicted), len(gold))


def _plain(item: str) -> str:
    return item.lower().strip(".").strip()


def lcs(prediction: Sequence[str], answer: Sequence[str]) -> tuple[list[str], float]:
    """Return the longest common subsequence and its share of the answer. Backtracking goes left on a tie. Raises
    ZeroDivisionError if the answer is empty."""
    lengths = [[0] * (len(answer) + 1)]
    for mine in prediction:
        above, row = lengths[-1], [0]
        for place, other in enumerate(answer):
            row.append(above[place] + 1 if mine == other else max(above[place + 1], row[place]))
        lengths.append(row)
    common: list[str] = []
    i, j = len(prediction), len(answer)
    while i and j:
        if prediction[i - 1] == answer[j - 1]:
            common.append(prediction[i - 1])
            i, j = i - 1, j - 1
        elif lengths[i - 1][j] > lengths[i][j - 1]:
            i -= 1
        else:
            j -= 1
    return common[::-1], len(common) / len(answer)


def organizing(prediction: str, answer: str) -> tuple[list[str], float]:
    """Return `lcs` of all numbers in both texts. Raises TypeError for FAILED, as the scripts do."""
    if prediction == FAILED:
        raise TypeError("the scripts unpack a score of 0 into a subsequence and a score")
    return lcs(_NUMBER.findall(prediction), _NUMBER.findall(answer))


def attributing(prediction: str, answer: Sequence[str]) -> Overlap:
    """Compare the numbers after the first core header with the first number of each label. Without a core header, the whole
    text counts. An answer without a number becomes the item "", so the label "None" is never matched."""
    if prediction == FAILED:
        return Overlap(0, 0, 0)
    header = _CORE.search(prediction)
    numbers = _NUMBER.findall(header.group(1) if header else prediction)
    gold = [match.group() if (match := _NUMBER.search(label)) else "None" for label in answer]
    return recalling(", ".join(numbers), gold)


def source_of(user_msg: str) -> str:
    """Return the context of a prompt. Raises AttributeError if the prompt lacks the frame."""
    match = _SOURCE.search(user_msg)
    if match is None:
        raise AttributeError("'NoneType' object has no attribute 'group'")
    return match.group(1)


@dataclass(frozen=True, slots=True)
class JudgeRequest:
    """A request to the judge for one section and one criterion."""

    custom_id: str
    content: str
    role: str = "system"


def requests(domain: str, id: str, source: str, prediction: str, templates: Mapping[str, str]) -> list[JudgeRequest]:
    """Return the judge's requests, criterion by criterion, for each section that the answer summarizes; missing sections are
    skipped."""
    texts = [templates[criterion] for criterion in CRITERIA]
    # The scripts look up criteria by template, so equal templates all get the name of the last one.
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
    """Map each header to (section, summary), for the sections that the answer summarizes."""
    of_answer = bodies(prediction, domain)
    return {header: (body, of_answer[header]) for header, body in bodies(source, domain).items() if header in of_answer}


def bodies(text: str, domain: str) -> dict[str, str]:
    """Map each header to the text below it. If a header is repeated, its last text counts."""
    parts = re.split(rf"(<{'Segment' if domain == 'Law' else 'Section'} \d+>)", text)
    return {header: body.strip() for header, body in zip(parts[1::2], parts[2::2], strict=True)}


def judge_figures(outputs: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """Map each sample to its figures, computed from the first token of each judge's answer and the token's alternatives. Sums
    are divided by a third of all answers, so a lost answer shifts every criterion. Raises KeyError for an unknown criterion."""
    samples: dict[str, dict[str, float]] = {}
    n: dict[str, int] = {}
    for output in outputs:
        # An id is `Law_id_<Segment 1>_con` or similar. Without the marker, the scripts cut off the last letter of the id.
        custom_id = output["custom_id"]
        domain, criterion = custom_id.split("_")[0], custom_id[custom_id.rfind("_") + 1 :]
        end = custom_id.find("_<Segment" if domain == "Law" else "_<Section")
        sample = f"{domain}_{custom_id[custom_id.find('_') + 1 : end]}"
        figures = samples.setdefault(sample, {f"{kind}_{criterion}": 0 for kind in ("weighted", "top") for criterion in CRITERIA})
        if f"top_{criterion}" not in figures:
            raise KeyError(f"top_{criterion}")
        with contextlib.suppress(ValueError):
            figures[f"top_{criterion}"] += float(output["token"])
        mass = dict.fromkeys(SCALE, 0.0)
        for other in output["top_logprobs"]:
            score = whole_number(other["token"])
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
            figures[kind] = sum(figures[f"{kind}_{criterion}"] for criterion in CRITERIA) / 3
        # The scripts also divide the count by itself.
        figures["count"] = 1.0
    return samples


def whole_number(token: str) -> int | None:
    """Return the score in a token as the scripts read it, or None if it is not a whole number."""
    try:
        return int(token)
    except ValueError:
        return None


def _finite_or_not(value: Any) -> Any:
    """Return the number. Reference cases write NaN and infinities as strings, since JSON has none."""
    return float(value) if value in ("NaN", "Infinity", "-Infinity") else value


def aggregate(task: str, scores: Mapping[str, Sequence[float | None]]) -> tuple[float, dict[str, float]]:
    """Return (mean of all samples, domain -> mean), over the task's domains only. Raises KeyError for a sample without a
    score, ZeroDivisionError for a domain without samples, and UnboundLocalError for an unknown task."""
    if task not in DOMAINS:
        raise UnboundLocalError("the scripts name no domains for other tasks")
    by_domain: dict[str, list[float]] = {}
    for domain in DOMAINS[task]:
        by_domain[domain] = []
        for score in scores.get(domain, ()):
            if score is None:
                raise KeyError("score")
            by_domain[domain].append(_finite_or_not(score))
    every = [score for listed in by_domain.values() for score in listed]
    final = sum(every) / len(every)
    return final, {domain: sum(listed) / len(listed) for domain, listed in by_domain.items()}
