"""Check haystack files against their own annotations, without a model."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from summhay_ray.benchmarks.summhay.haystacks.imports import read_file
from summhay_ray.errors import UserError
from summhay_ray.haystack import InvalidHaystack
from summhay_ray.sheets import sheet
from summhay_ray.synth import verify_haystack

COLUMNS = ("file", "kind", "subject", "object", "expected", "found", "sure", "score", "evidence", "text")
"""Columns of the CSV: the file's path, then the columns of `VerifiedFile.rows`."""


@dataclass(frozen=True)
class VerifiedFile:
    """A haystack file and its checks."""

    file: str
    haystack_id: str
    rows: tuple[Mapping[str, Any], ...] = field(repr=False)
    """One row per check, in order: kind, subject, object, expected, found, sure, score, evidence and text (see
    `ExistingCheck`)."""

    @property
    def mismatches(self) -> tuple[Mapping[str, Any], ...]:
        """The rows whose result differs from the file's annotations, sure ones first."""
        return tuple(sorted((row for row in self.rows if row["found"] != row["expected"]), key=lambda row: not row["sure"]))

    def kinds(self) -> list[dict[str, Any]]:
        """Return a row per kind of check: the number of checks, of confirmations, and of mismatches (all, sure, unsure)."""
        total = Counter(row["kind"] for row in self.rows)
        otherwise = Counter(row["kind"] for row in self.mismatches)
        surely = Counter(row["kind"] for row in self.mismatches if row["sure"])
        return [
            {
                "kind": kind,
                "checks": number,
                "as_stated": number - otherwise[kind],
                "otherwise": otherwise[kind],
                "surely": surely[kind],
                "unsure": otherwise[kind] - surely[kind],
            }
            for kind, number in total.items()
        ]

    def to_json(self) -> dict[str, Any]:
        """Return the file's entry in the JSON of `summhay verify`."""
        return {
            "file": self.file,
            "haystack_id": self.haystack_id,
            "kinds": self.kinds(),
            "otherwise": [dict(row) for row in self.mismatches],
        }


Mapped = Callable[[Callable[[Any], Any], Iterable[Any], type[UserError]], Iterable[Any]]
"""Applies a function to values, in order: one by one or concurrently. Values and results are JSON. A UserError, or an error
of the given class, is raised unchanged."""


def verify_files(paths: Sequence[str], mapped: Mapped | None = None) -> list[VerifiedFile]:
    """Check released files offline. `mapped`: how to apply a function to the paths; None: one by one. Raises InvalidHaystack
    for the first file that is not a haystack."""
    checked = mapped(verify_file, paths, InvalidHaystack) if mapped else map(verify_file, paths)
    return [VerifiedFile(path, one["haystack_id"], tuple(one["rows"])) for path, one in zip(paths, checked, strict=True)]


def verify_file(path: str) -> dict[str, Any]:
    source, rows = read_file(path), []
    for existing in verify_haystack(source, path):
        check = existing.check
        shown = {name: getattr(check, name) for name in ("kind", "subject", "object", "expected", "found")}
        score = round(check.score, 4)
        rows.append({**shown, "sure": existing.sure, "score": score, "evidence": check.evidence, "text": existing.text})
    return {"haystack_id": source.haystack.haystack_id, "rows": rows}


def write_checks(files: Iterable[VerifiedFile], out: Path) -> None:
    """Write all checks as CSV in UTF-8, one per row. Texts that look like formulas are quoted. Raises UserError if the file
    exists."""
    rows = [[verified.file, *(str(row[name]) for name in COLUMNS[1:])] for verified in files for row in verified.rows]
    try:
        with out.open("xb") as file:
            file.write(sheet(COLUMNS, rows))
    except FileExistsError as error:
        raise UserError(f"{out} exists; give another file") from error
