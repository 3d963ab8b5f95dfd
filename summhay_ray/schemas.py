"""`schemas/`: one JSON document a table and one for each kind of spec, generated from the code.

`python -m summhay_ray.schemas FOLDER` writes them; a test fails where the folder and the code differ.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from summhay_ray.benchmarks import KINDS
from summhay_ray.engine import Failure, find
from summhay_ray.store import Table

_SPECS = {"summhay": "spec.json"}
"""Kind -> the file of its spec, where it is not KIND_spec.json."""


def file_of(table: Table) -> str:
    """The file of a table. Failures of benchmarks that have no table of their own for them are of one kind."""
    return "item_failures.json" if table.record is Failure else f"{table.name}.json"


def documents() -> dict[str, Any]:
    """File name -> its JSON document."""
    found: dict[str, Any] = {}
    for kind in sorted(KINDS):
        benchmark = find(kind)
        found |= {file_of(table): table.describe() for table in benchmark.all_tables()}
        if not benchmark.given:
            found[_SPECS.get(kind, f"{kind}_spec.json")] = benchmark.spec_class.model_json_schema()
    return found


def rendered() -> dict[str, str]:
    """File name -> its text."""
    return {name: json.dumps(content, indent=2, sort_keys=True) + "\n" for name, content in documents().items()}


def main(folder: str) -> None:
    """Write all documents into the folder."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    for name, text in rendered().items():
        Path(folder, name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
