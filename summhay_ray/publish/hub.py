"""Write a run as a dataset for the Hugging Face Hub: Parquet files and a card, which `hf upload` pushes.

Each table is a config of the dataset, so that `datasets.load_dataset(FOLDER, TABLE)` reads it. `leaderboard` is the default.
"""

from pathlib import Path

import polars as pl
import yaml

from summhay_ray.comparison import leaderboard_section
from summhay_ray.engine import Section, all_tables
from summhay_ray.errors import UserError
from summhay_ray.publish.figures import public_spec
from summhay_ray.report import ReportedRun, hashes, markdown, versions
from summhay_ray.store import ATTRIBUTION, LocalFiles, open_files, write_tables

LEADERBOARD = "leaderboard"
_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))
"""(Upper limit of rows, the Hub's category of size for fewer rows)."""
_CARD = """\
---
pretty_name: {name}
# Choose the licence under which you publish, then remove the number sign; others' texts keep theirs.
# license: cc-by-4.0
{header}---

"""


def write_dataset(reported: ReportedRun, figures: pl.DataFrame, folder: Path, with_texts: bool = False) -> list[Path]:
    """Write the run's tables, its leaderboard and a card into an empty folder. Returns the paths. Raises UserError.

    `figures`: the leaderboard, see `figures_of`. Columns with texts of documents are left out unless `with_texts`. Empty tables
    are left out.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{folder} is not empty; give a new folder")
    hidden = {} if with_texts else {table.name: table.texts for table in all_tables(reported.workload)}
    files = open_files(str(folder))
    assert isinstance(files, LocalFiles)
    try:
        written = {LEADERBOARD: f"{LEADERBOARD}/part-0.parquet", **write_tables(reported.run, files, without=hidden)}
        with files.writing(written[LEADERBOARD]) as new:
            figures.write_parquet(new.path)
        rows = {name: pl.scan_parquet(folder / path).select(pl.len()).collect().item() for name, path in written.items()}
        for name in [name for name, n in rows.items() if not n]:
            files.delete(written.pop(name))
            (folder / name).rmdir()
        files.put("README.md", _card(reported, figures, folder, written, rows, with_texts).encode())
    except OSError as error:
        raise UserError(f"{folder}: cannot be written ({error.strerror}); give another folder") from error
    return [folder / "README.md", *(folder / path for path in written.values())]


def _card(
    reported: ReportedRun, figures: pl.DataFrame, folder: Path, paths: dict[str, str], rows: dict[str, int], with_texts: bool
) -> str:
    """Return the README.md of the dataset."""
    total = sum(rows[name] for name in paths)
    configs = [
        {
            "config_name": name,
            "data_files": [{"split": "train", "path": path}],
            **({"default": True} if name == next(iter(paths)) else {}),
        }
        for name, path in paths.items()
    ]
    header = {
        "tags": ["summhay_ray", "evaluation", "summarization", reported.workload.kind],
        "size_categories": [next((name for most, name in _SIZES if total < most), "n>1M")],
        "configs": configs,
    }
    made_by = f"by summhay_ray {versions()['summhay-ray']}"
    about = f"Results of the run {reported.run.run_id} of the benchmark {reported.workload.kind}, {made_by}: {reported.status}."
    contents = pl.DataFrame(
        [(name, rows[name], (folder / path).stat().st_size) for name, path in paths.items()],
        schema=["config", "rows", "bytes"],
        orient="row",
    )
    texts = "Texts of documents are included." if with_texts else "Texts of documents are left out; summaries may quote them."
    attribution = reported.run.record.get(ATTRIBUTION)
    spec = yaml.safe_dump(public_spec(reported.run.record.get("spec") or {}), sort_keys=False, allow_unicode=True)
    made = [f"# {what}: sha256 {digest}" for what, digest in hashes(reported.run.record).items()]
    shown = figures.select("system", "task", "figure", "value", "low", "high", "n", "n_expected")
    units = {"value": "%"} if (figures["unit"] == "%").all() else {}
    decided = (
        Section("Figures", table=shown, units=units) if reported.comparison is None else leaderboard_section(reported.comparison)
    )
    sections = [
        *([decided] if len(figures) else []),
        Section("Contents", f"A config for each table. {texts}", contents),
        *([Section("Source and licence of the texts", str(attribution))] if attribution else []),
        Section("How it was made", "The spec of the run, and the hashes of its data.", listing="\n".join([*made, spec.rstrip()])),
    ]
    written = yaml.safe_dump(header, sort_keys=False, allow_unicode=True)
    name = yaml.safe_dump(reported.title, allow_unicode=True, width=10_000).removesuffix("...\n").strip()
    return _CARD.format(name=name, header=written) + markdown([Section("About", about), *sections], reported.title)
