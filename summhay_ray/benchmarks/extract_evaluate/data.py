"""Read summaries with their sources and human scores: the paper's benchmark files, the reference files, or your own."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import PurePath
from typing import Annotated, Any

from pydantic import AfterValidator, AliasChoices, BeforeValidator, ConfigDict, Field

from summhay_ray.benchmark import Strict, Text
from summhay_ray.errors import SpecError
from summhay_ray.text import parsed_json, read_json_lines

ALIASES = {"consistency": ("consistency", "factual_consistency"), "faithfulness": ("faithfulness", "correctness")}
"""Criterion -> the names of its human scores in files. A criterion that is not listed is called by its own name."""
SAMPLE = "sample/"
"""Prefix of the entries of `pairs` that come with the package."""
_Name = Annotated[Text, BeforeValidator(lambda value: str(value) if type(value) is int else value)]


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("is blank; expected a text")
    return text


_Written = Annotated[str, AfterValidator(_not_blank)]


@dataclass(frozen=True)
class Pair:
    """A summary with its source, reference and human scores."""

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
        """Return the human score for a criterion, or None if the file has none."""
        return next((self.scores[name] for name in ALIASES.get(criterion, (criterion,)) if name in self.scores), None)


class _Row(Strict):
    """A pair as it is written in files."""

    model_config = ConfigDict(extra="ignore")
    dataset: _Name
    doc_id: _Name
    system_id: _Name
    source: _Written
    summary: _Written = Field(validation_alias=AliasChoices("summary", "system_output"))
    reference: str = ""
    scores: dict[str, float | None] = Field(default_factory=dict)


def read_pairs(text: str, file: str) -> list[Pair]:
    """Read the pairs of a file. Raises SpecError with a message of one line that names file, entry and field.

    A file has one of three forms. The paper's benchmark files are a JSON list, or JSON lines, of `{doc_id, system_id, source,
    system_output, reference, scores}`. The third form, `{"documents": {doc_id: {"source": ...}}, "pairs": [{doc_id, system_id,
    summary, ...}]}`, stores each source once. `summary` and `system_output` are synonyms; `reference` and `scores` are
    optional. The dataset is the pair's `dataset`, else the file's, else the file's name without its suffix.
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
    """Return the content of `sample/NAME`, which comes with the package. Raises SpecError if there is no such sample."""
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
    document = documents.get(str(row.get("doc_id")))
    source = document.get("source") if isinstance(document, Mapping) else document
    given = {name: value for name, value in row.items() if value is not None}
    read = _Row.parse({"dataset": dataset, "source": source, **given}, where)
    scores = {name: score for name, score in read.scores.items() if score is not None}
    return Pair(read.dataset, read.doc_id, read.system_id, read.source, read.summary, read.reference, scores)
