"""Read summaries with their sources and human scores: the paper's benchmark files, the reference files, or your own."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import PurePath
from typing import Any

from summhay_ray.errors import SpecError
from summhay_ray.text import parsed_json, read_json_lines

ALIASES = {"consistency": ("consistency", "factual_consistency"), "faithfulness": ("faithfulness", "correctness")}
"""Criterion -> the names of its human scores in files; a criterion that is not listed has only its own name."""
SHOWN = 60
SAMPLE = "sample/"
"""Prefix of `pairs` entries that come with the package."""


@dataclass(frozen=True)
class Pair:
    """One summary with its source, reference and human scores."""

    dataset: str
    doc_id: str
    system_id: str
    source: str = field(repr=False)
    summary: str = field(repr=False)
    reference: str = field(default="", repr=False)
    scores: Mapping[str, float] = field(default_factory=dict)
    """Human scores, by the names in the file."""

    @property
    def id(self) -> str:
        return f"{self.dataset}/{self.doc_id}/{self.system_id}"

    def human(self, criterion: str) -> float | None:
        """The human score for a criterion; None if the file has none."""
        return next((self.scores[name] for name in ALIASES.get(criterion, (criterion,)) if name in self.scores), None)


def read_pairs(text: str, file: str) -> list[Pair]:
    """The pairs of a file. Raises SpecError, in one line that names file, entry and field.

    Three forms: a JSON list or JSON lines of `{doc_id, system_id, source, system_output, reference, scores}` (the paper's
    benchmark files), or `{"documents": {doc_id: {"source": ...}}, "pairs": [{doc_id, system_id, summary, ...}]}`, which stores
    each source once. `summary` and `system_output` are synonyms; `reference` and `scores` are optional. The dataset is the pair's
    `dataset`, else the file's, else the file's name without its suffix.
    """
    content = _content(text, file)
    name = PurePath(file).stem
    documents: Mapping[str, Any] = {}
    if isinstance(content, Mapping) and "doc_id" in content:
        content = [content]
    if isinstance(content, Mapping):
        name, documents = str(content.get("dataset") or name), content.get("documents") or {}
        content = content.get("pairs")
    if not isinstance(content, list) or not isinstance(documents, Mapping):
        raise SpecError(f"{file}: expected a list of pairs, JSON lines of them, or a mapping of documents and pairs")
    pairs = [_pair(row, f"{file}: pair {number}", name, documents) for number, row in enumerate(content, 1)]
    if not pairs:
        raise SpecError(f"{file}: has no pairs; expected at least one")
    return pairs


def sample(entry: str) -> bytes:
    """The content of `sample/NAME`, which comes with the package. Raises SpecError if there is no such sample."""
    folder = resources.files("summhay_ray.benchmarks.extract_evaluate").joinpath("sample")
    file = folder.joinpath(f"{entry.removeprefix(SAMPLE)}.json")
    if not file.is_file():
        known = ", ".join(sorted(f"{SAMPLE}{file.name.removesuffix('.json')}" for file in folder.iterdir()))
        raise SpecError(f"spec: pairs: no sample is named {entry!r}; there is {known}")
    return file.read_bytes()


def _content(text: str, file: str) -> Any:
    try:
        return parsed_json(text)
    except ValueError as error:
        if "\n" not in text.strip() or not text.lstrip().startswith("{"):
            raise SpecError(f"{file}: is not JSON: {error}") from None
    return [row for _, row in read_json_lines(text, file, SpecError)]


def _pair(row: Any, where: str, dataset: str, documents: Mapping[str, Any]) -> Pair:
    if not isinstance(row, Mapping):
        raise SpecError(f"{where}: is {type(row).__name__}; expected a mapping with doc_id, system_id and the texts")
    doc_id, system_id = _name(row, "doc_id", where), _name(row, "system_id", where)
    source = row.get("source")
    if source is None and doc_id in documents:
        document = documents[doc_id]
        source = document.get("source") if isinstance(document, Mapping) else document
    summary = row.get("system_output") if row.get("summary") is None else row["summary"]
    for field_name, value in (("source", source), ("summary (or system_output)", summary)):
        if not isinstance(value, str) or not value.strip():
            raise SpecError(f"{where}: {field_name} is {_shown(value)}; expected a text")
    reference = "" if row.get("reference") is None else row["reference"]
    if not isinstance(reference, str):
        raise SpecError(f"{where}: reference is {_shown(reference)}; expected a text")
    named = dataset if row.get("dataset") is None else _name(row, "dataset", where)
    return Pair(named, doc_id, system_id, str(source), str(summary), reference, _scores(row.get("scores"), where))


def _name(row: Mapping[str, Any], name: str, where: str) -> str:
    value = row.get(name)
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        raise SpecError(f"{where}: {name} is {_shown(value)}; expected a name")
    return str(value)


def _scores(given: Any, where: str) -> dict[str, float]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise SpecError(f"{where}: scores is {_shown(given)}; expected a mapping of criterion to number")
    scores: dict[str, float] = {}
    for name, value in given.items():
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int | float) or value != value or abs(value) == float("inf"):
            raise SpecError(f"{where}: scores.{name} is {_shown(value)}; expected a number, or null")
        scores[str(name)] = float(value)
    return scores


def _shown(value: Any) -> str:
    return "missing" if value is None else repr(value)[:SHOWN]
