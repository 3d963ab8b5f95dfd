"""Generates `schemas/` from the code, with a JSON document per table and per kind of spec.

`python -m summhay_ray.schemas FOLDER` writes the documents. A test fails if the folder and the code differ.
"""

import json
import sys
from pathlib import Path
from typing import Any

from summhay_ray.benchmarks import KINDS
from summhay_ray.engine import Failure, all_tables, find, spec_class_of
from summhay_ray.store import Table

_SPECS = {"summhay": "spec.json"}
"""Kind -> the file name of its spec's schema, if it is not KIND_spec.json."""


def file_of(table: Table) -> str:
    """Return the file name of a table's schema. Benchmarks without their own failure table share `item_failures.json`."""
    return "item_failures.json" if table.record is Failure else f"{table.name}.json"


def spec_file(kind: str) -> str:
    """Return the file name of the schema of a kind's spec."""
    return _SPECS.get(kind, f"{kind}_spec.json")


def documents() -> dict[str, Any]:
    """Return file name -> its JSON document."""
    schemas: dict[str, Any] = {}
    for kind in sorted(KINDS):
        benchmark = find(kind)
        schemas |= {file_of(table): table.describe() for table in all_tables(benchmark)}
        if not benchmark.imported:
            schemas[spec_file(kind)] = spec_class_of(benchmark).model_json_schema()
    return schemas


def rendered() -> dict[str, str]:
    """Return file name -> its text."""
    return {name: json.dumps(content, indent=2, sort_keys=True) + "\n" for name, content in documents().items()}


def main(folder: str) -> None:
    Path(folder).mkdir(parents=True, exist_ok=True)
    for name, text in rendered().items():
        Path(folder, name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
