"""`schemas/` is what the code says."""

from __future__ import annotations

from pathlib import Path

import pytest

from summhay_ray.grid.schemas import main, rendered

pytestmark = pytest.mark.core

SCHEMAS = Path(__file__).resolve().parents[2] / "schemas"


def test_schemas_are_generated_from_the_code() -> None:
    stored = {file.name: file.read_text(encoding="utf-8") for file in SCHEMAS.iterdir()}
    assert stored == rendered(), "run `make schemas` and read what changed"


def test_drift_is_seen(tmp_path: Path) -> None:
    main(str(tmp_path))
    stored = {file.name: file.read_text(encoding="utf-8") for file in tmp_path.iterdir()}
    assert stored == rendered()
    stored["scores.json"] = stored["scores.json"].replace("coverage", "covered")
    assert stored != rendered()


def test_every_column_has_a_meaning() -> None:
    from summhay_ray.store import TABLES, describe

    for table in TABLES:
        description = describe(table)
        assert description["row"], table
        assert all(column["meaning"] for column in description["columns"]), table
        assert set(description["primary_key"]) <= {column["name"] for column in description["columns"]}
