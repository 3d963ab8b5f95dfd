"""`schemas/`: one JSON document a table and one for each kind of spec, generated from the code. Part of the grid room.

`python -m summhay_ray.grid.schemas FOLDER` writes them; a test fails where the folder and the code differ.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from summhay_ray.grid.spec import RunSpec
from summhay_ray.grid.synth_spec import SynthSpec
from summhay_ray.store import TABLES, describe


def documents() -> dict[str, Any]:
    """File name -> its JSON document."""
    specs = {"spec.json": RunSpec.model_json_schema(), "synth_spec.json": SynthSpec.model_json_schema()}
    return {**{f"{table}.json": describe(table) for table in TABLES}, **specs}


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
