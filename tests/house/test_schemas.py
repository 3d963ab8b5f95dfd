"""`schemas/` agrees with the code."""

from __future__ import annotations

from pathlib import Path

import pytest

from summhay_ray.benchmarks import KINDS
from summhay_ray.engine import all_tables, find
from summhay_ray.schemas import file_of, main, rendered

pytestmark = pytest.mark.core

SCHEMAS = Path(__file__).resolve().parents[2] / "schemas"
TABLES = {f"{kind}-{table.name}": table for kind in KINDS for table in all_tables(find(kind))}


def test_schemas_are_generated_from_the_code() -> None:
    stored = {file.name: file.read_text(encoding="utf-8") for file in SCHEMAS.iterdir()}
    assert stored == rendered(), "run `make schemas` and read what changed"


def test_drift_is_seen(tmp_path: Path) -> None:
    main(str(tmp_path))
    stored = {file.name: file.read_text(encoding="utf-8") for file in tmp_path.iterdir()}
    assert stored == rendered()
    stored["scores.json"] = stored["scores.json"].replace("coverage", "covered")
    assert stored != rendered()


@pytest.mark.parametrize("name", TABLES)
def test_every_column_has_a_meaning(name: str) -> None:
    description = TABLES[name].describe()
    assert description["row"]
    assert all(column["meaning"] for column in description["columns"])
    assert set(description["primary_key"]) <= {column["name"] for column in description["columns"]}


def test_a_name_is_one_table_in_every_kind() -> None:
    """`schemas/` has one document per name."""
    documents: dict[str, list[object]] = {}
    for table in TABLES.values():
        documents.setdefault(file_of(table), []).append(table.describe())
    assert [name for name, found in documents.items() if any(one != found[0] for one in found)] == []
