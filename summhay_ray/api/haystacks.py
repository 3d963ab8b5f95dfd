"""Haystacks: imported, made of documents, synthesized, verified and audited."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from summhay_ray import engine
from summhay_ray.api.checked import checked
from summhay_ray.api.opened import Spec, Watch, load_made_by, run_options, store_of, store_uri, stored_run
from summhay_ray.engine import RunResult, SpecError
from summhay_ray.errors import UserError
from summhay_ray.store import Store

if TYPE_CHECKING:
    from summhay_ray.benchmarks import summhay as haystacks
    from summhay_ray.benchmarks import synth as synthesis
    from summhay_ray.benchmarks.odsum import CollectionImport


@checked
def import_released(
    paths: str | Path | Sequence[str | Path], store: str | None = None, address: str | None = None
) -> haystacks.ImportResult:
    """Import released SummHay files as a run. Raises InvalidHaystack, and writes nothing, if a file is invalid.

    Hundreds of files are read by a local Ray, or by the Ray cluster at `address`, whose nodes must see the files and the store.
    """
    from summhay_ray.benchmarks import summhay as haystacks

    listed = [paths] if isinstance(paths, str | Path) else paths
    if not listed:
        raise UserError("paths: expected at least one released SummHay file, found none")
    return haystacks.import_files([str(path) for path in listed], Store(store_uri(store)), address or "")


@checked
def import_collection(folder: str | Path, store: str | None = None) -> CollectionImport:
    """Import a folder of documents and queries (docs/odsum.md); a spec then names it as `corpus: store/SHA256`.

    Raises SpecError, with one line that names the file.
    """
    from summhay_ray.benchmarks import odsum

    return odsum.import_collection(folder, Store(store_uri(store)))


@checked
def mine(
    folder: str | Path | Mapping[str, Any],
    out: str | Path | None = None,
    store: str | None = None,
    budget: float | None = None,
    address: str | None = None,
    watch: Watch | None = None,
    *,
    review: str | Path | None = None,
    absent: int | None = None,
    overrides: Iterable[str] = (),
    executor: str | None = None,
    note: Callable[[str], None] | None = None,
    untrusted: bool = False,
) -> RunResult:
    """Make a haystack of a folder of documents, or of a spec of kind mine. The same call resumes.

    `out`: a file for the haystack as released JSON. `review`: a file for a person's sheet (CSV; an HTML page beside it).
    `absent`: how many queries to add about what no document says. Raises SpecError or StoreError before any call is made, and
    UserError if a file exists.
    """
    from summhay_ray.benchmarks import mine as mining

    options = run_options(budget, executor, address, watch, note)
    spec = {"kind": "mine", "folder": str(folder)} if isinstance(folder, str | Path) and Path(folder).is_dir() else folder
    if isinstance(spec, str | Path) and Path(spec).suffix.lower() not in (".yaml", ".yml"):
        what = "is a file and no spec" if Path(spec).exists() else "no such folder"
        raise SpecError(f"{spec}: {what}; give the folder that holds the documents, or a spec of kind mine (YAML)")
    changes = [*overrides, *([] if absent is None else [f"absent={absent}"])]
    loaded = load_made_by(mining.Mine.kind, spec, changes, store, untrusted)
    for path in (out, review):
        if path and not Path(path).absolute().parent.is_dir():
            raise UserError(f"{Path(path).parent} is not a folder; make it first")
    opened = store_of(loaded, store)
    result = engine.run_workload(loaded, opened, options)
    run = opened.run(result.run)
    files = []
    if out is not None and result.results.details["insights"]:
        mining.write_mined(run, Path(out))
        files.append(str(out))
    if review is not None and result.results.details["insights"]:
        files += mining.write_review(run, Path(review))
    details = {**result.results.details, "path": str(out) if str(out) in files else None, "files": files}
    return replace(result, results=replace(result.results, details=details))


@checked
def accept(sheet: str | Path, out: str | Path | None = None, store: str | None = None) -> dict[str, Any]:
    """Take over a person's review of a mined haystack; the sheet names its run. `out`: a file for the haystack.

    Raises UserError, which names the row and the column, for a sheet that cannot be read.
    """
    from summhay_ray.benchmarks import mine as mining

    return mining.accept_sheet(Path(sheet), lambda run_id: stored_run(run_id, store)[1], None if out is None else Path(out))


@checked
def synth(
    spec: Spec,
    store: str | None = None,
    budget: float | None = None,
    address: str | None = None,
    watch: Watch | None = None,
    *,
    overrides: Iterable[str] = (),
    out: str | Path | None = None,
    executor: str | None = None,
    note: Callable[[str], None] | None = None,
    untrusted: bool = False,
) -> RunResult:
    """Make and verify the haystacks of a synth spec. The same call resumes. `out`: a folder to write them to.

    A haystack's `entry` names it in the spec of a run in the same store. Raises SpecError or StoreError before any call is made.
    """
    from summhay_ray.benchmarks import synth as synthesis

    options = run_options(budget, executor, address, watch, note)
    loaded = load_made_by(synthesis.Synth.kind, spec, overrides, store, untrusted)
    assert isinstance(loaded, synthesis.Synth)
    return synthesis.run_synth(loaded, store_of(loaded, store), options, None if out is None else Path(out))


@checked
def verify(
    paths: str | Path | Sequence[str | Path], out: str | Path | None = None, address: str | None = None
) -> list[synthesis.VerifiedFile]:
    """Check haystack files against their own annotations, offline, and list mismatches. `out`: a CSV file for all checks.

    More than eight files are checked by a local Ray, or by the Ray cluster at `address`, whose nodes must see them. Raises
    InvalidHaystack, and UserError if `out` exists.
    """
    from summhay_ray.benchmarks import synth as synthesis

    listed = [paths] if isinstance(paths, str | Path) else paths
    if out is not None and Path(out).exists():
        raise UserError(f"{out} exists; give another file")
    verified = synthesis.verify_files([str(path) for path in listed], address or "")
    if out is not None:
        synthesis.write_checks(verified, Path(out))
    return verified


@checked
def audit(
    run_id: str,
    sheet: str | Path,
    store: str | None = None,
    *,
    insights: int = 100,
    documents: int = 10,
    haystacks: int = 10,
    seed: int = 0,
) -> dict[str, Any]:
    """Write a sheet for a person to label, with a sample of the annotations of a run's haystacks. Never overwrites a file.

    The sheet asks for the subtopics of `insights` insights and for the insights in `documents` documents, taken from at most
    `haystacks` haystacks.
    """
    from summhay_ray.benchmarks import synth as synthesis

    return synthesis.write_sheet(
        stored_run(run_id, store)[1],
        Path(sheet),
        synthesis.Sample(insights=insights, documents=documents, haystacks=haystacks, seed=seed),
    )


@checked
def audited(run_id: str, sheet: str | Path, store: str | None = None) -> dict[str, Any]:
    """Evaluate a labelled sheet: the paper's Tables 4 and 5 for a run's haystacks, as lists of rows."""
    from summhay_ray.benchmarks import synth as synthesis

    return synthesis.read_sheet(stored_run(run_id, store)[1], Path(sheet))
