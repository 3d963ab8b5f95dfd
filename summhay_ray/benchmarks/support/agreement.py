"""Measure support judges against people's labels: does a claim follow from its references? (AttributionBench, Li et al. 2024)

Each judge is a run of support judging over the claims, so its answers are paid for once. A claim's value is the largest that
the judge gives to one of its references.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import polars as pl

from summhay_ray.benchmark import Inputs, Reach, RunStore, Section
from summhay_ray.benchmarks.support.spec import SupportRequest, SupportSpec, models_of, named_judge, support_fields
from summhay_ray.benchmarks.support.tables import SUPPORTS
from summhay_ray.benchmarks.support.workload import SupportBench
from summhay_ray.errors import SpecError
from summhay_ray.inputs import read_file
from summhay_ray.metrics import BinaryScores, binary_scores
from summhay_ray.text import read_json_lines

LABELS = ("label", "attribution_label")
SOURCES = ("source", "src_dataset", "dataset")
_POSITIVE = frozenset({"1", "true", "yes", "supported", "attributable", "entailment"})
_NEGATIVE = frozenset({"0", "false", "no", "not supported", "not_supported", "unsupported", "not attributable", "not_entailment"})


@dataclass(frozen=True, slots=True)
class SupportAgreement:
    """The agreement of a support judge with people on the claims of one source."""

    judge: str
    source: str
    """Empty for all sources together."""
    scores: BinaryScores
    n_expected: int
    """Number of labelled claims of the source. Claims without a judgment count in no figure."""
    run: str
    """Id of the run with the judge's answers."""
    status: str

    def to_json(self) -> dict[str, Any]:
        row = asdict(self)
        return {**row, **row.pop("scores")}


def holds_labels(file: Path) -> bool:
    """Return whether a file holds labelled claims: it is JSON lines, and the first line has a claim."""
    first = read_file(file).lstrip(b"\xef\xbb\xbf \t\r\n").split(b"\n", 1)[0]
    try:
        row = json.loads(first)
    except (ValueError, RecursionError):
        return False
    return isinstance(row, dict) and "claim" in row


def agreement(
    judge: str, workload: SupportBench, labels: Sequence[tuple[str, bool]], run: RunStore, status: str
) -> list[SupportAgreement]:
    """Return a row for each source of the labelled file, in its order, then one for all sources. The figures come from the
    judge's run."""
    supports = run.table(SUPPORTS.name).filter("cited")
    # A claim with an unjudged reference has no value.
    keys = ("haystack_id", "query_id", "system")
    judged = supports.group_by(keys).agg(pl.when(pl.col("value").is_not_null().all()).then(pl.col("value").max()))
    values = {tuple(row[:3]): row[3] for row in judged.iter_rows()}
    by_source: dict[str, list[tuple[float | None, bool]]] = {}
    for answer, (source, label) in zip(workload.judged.answers, labels, strict=True):
        value = values.get((answer.haystack_id, answer.query_id, answer.system))
        by_source.setdefault(source, []).append((value, label))
    pooled = [pair for pairs in by_source.values() for pair in pairs]
    rows = []
    for source, pairs in [*(by_source.items() if len(by_source) > 1 else ()), ("", pooled)]:
        known = [(value, label) for value, label in pairs if value is not None]
        scores = binary_scores([value for value, _ in known], [label for _, label in known])
        rows.append(SupportAgreement(judge, source, scores, len(pairs), run.run_id, status))
    return rows


def agreement_section(rows: Sequence[SupportAgreement]) -> Section:
    table = []
    for row in rows:
        found = row.scores
        cells: dict[str, Any] = {"judge": row.judge, "source": row.source or "all"}
        for name, figure, interval in (
            ("AUC", found.auc, found.auc_interval),
            ("balanced accuracy", found.balanced_accuracy, found.balanced_accuracy_interval),
        ):
            low, high = interval or (None, None)
            cells |= {name: figure, f"{name}_low": low, f"{name}_high": high}
        table.append(
            {
                **cells,
                "called supported": found.called_positive,
                "labelled supported": found.positive,
                "n": found.n,
                "n_expected": row.n_expected,
            }
        )
    return Section(
        "Support judges and people's labels",
        "AUC: how often a supported claim has a larger value than one that is not. Balanced accuracy: the mean share of right "
        "verdicts of both kinds at a value of 0.5. Intervals: 95 %, by a bootstrap over claims.",
        pl.DataFrame(table, infer_schema_length=None),
        dict.fromkeys(("balanced accuracy", "called supported", "labelled supported"), "%"),
        higher_is_better=["AUC", "balanced accuracy"],
    )


def read_claim_labels(file: Path) -> list[tuple[str, bool]]:
    """Return (source, label) of each line. Raises SpecError with the line's number."""
    found = []
    for where, row in read_json_lines(read_file(file), str(file), SpecError):
        if not isinstance(row, dict) or not isinstance(row.get("claim"), str) or not row.get("references"):
            raise SpecError(f"{where}: lacks a claim or references; give an object with claim, references and label")
        given = next((row[name] for name in LABELS if row.get(name) is not None), None)
        label = str(given).strip().lower()
        if label not in _POSITIVE | _NEGATIVE:
            raise SpecError(f"{where}: label: is {given!r}; expected true or false, or supported or not supported")
        found.append((str(next((row[name] for name in SOURCES if row.get(name)), "")), label in _POSITIVE))
    if not found:
        raise SpecError(f"{file}: holds no claim; give a JSON object with claim, references and label in each line")
    return found


def load_labelled(file: Path, judge: str, written_spec: str | None = None, untrusted: bool = False) -> SupportBench:
    """Load the workload that asks a judge about the claims of a file; makes no call. `written_spec`: path of a spec with
    endpoints and prices. `untrusted`: whether somebody else wrote that spec. Raises SpecError, BadName and UnknownName."""
    written, folder = SupportSpec.read_fields(written_spec) if written_spec else ({}, Path())
    known = [one for name in ("models", "judges") for one in written.get(name, ()) if isinstance(one, Mapping)]
    asked = models_of(named_judge(judge))
    models = [
        {"max_tokens": 400, **{name: one[name] for name in ("model", "max_tokens", *Reach.model_fields) if name in one}}
        for one in known
        if one.get("model") in asked
    ]
    limits = {name: limit for name, limit in written.get("limits", {}).items() if name in asked}
    fields = {**support_fields(SupportRequest(judge, answers=str(file.absolute()))), "models": models, "limits": limits}
    spec = SupportSpec.parse(fields, written_spec or "judge-bench")
    spec.model_copy(update={"answers": ""}).check("judge-bench", ["support"], folder if untrusted else None)
    inputs = Inputs(folder, untrusted=untrusted)
    if untrusted:
        # The claims may be outside the spec's folder, since the user named them on the command line.
        inputs.give(spec.answers, read_file(file))
    return SupportBench(spec, inputs)
