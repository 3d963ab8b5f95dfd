"""Haystacks: imported, made of documents, synthesized, verified and audited."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from summhay_ray import engine
from summhay_ray.api.opened import Spec, Watch, load, run_options, store_of, store_uri, stored_run
from summhay_ray.engine import RunResult, SpecError
from summhay_ray.errors import UserError
from summhay_ray.store import Store

if TYPE_CHECKING:
    from summhay_ray.benchmarks import summhay as haystacks
    from summhay_ray.benchmarks import synth as synthesis
    from summhay_ray.benchmarks.mine import Mine
    from summhay_ray.benchmarks.odsum import CollectionImport


def import_released(
    paths: str | Path | Sequence[str | Path], store: str | None = None, address: str | None = None
) -> haystacks.ImportResult:
    """Import released SummHay files as a run. Raises InvalidHaystack, and writes nothing, if a file is invalid.

    Hundreds of files are read by a local Ray, or by the Ray cluster at `address`, whose nodes must see the files and the store.
    """
    from summhay_ray.benchmarks import summhay as haystacks

    listed = [paths] if isinstance(paths, str | Path) else paths
    return haystacks.import_files([str(path) for path in listed], Store(store_uri(store)), address or "")


def import_collection(folder: str | Path, store: str | None = None) -> CollectionImport:
    """Import a folder of documents and queries (docs/odsum.md); a spec then names it as `corpus: store/SHA256`.

    Raises SpecError, with one line that names the file.
    """
    from summhay_ray.benchmarks import odsum

    return odsum.import_collection(folder, Store(store_uri(store)))


def mine(
    folder: str | Path | Mapping[str, Any],
    out: str | Path | None = None,
    store: str | None = None,
    budget: float | None = None,
    address: str | None = None,
    watch: Watch | None = None,
    *,
    review: str | Path | None = None,
    overrides: Iterable[str] = (),
    executor: str | None = None,
    note: Callable[[str], None] | None = None,
    untrusted: bool = False,
) -> RunResult:
    """Make a haystack of a folder of documents, or of a spec of kind mine. The same call resumes.

    `out`: a file for the haystack as released JSON. `review`: a file for a person's sheet (CSV; an HTML page beside it). Raises
    SpecError or StoreError before any call is made, and UserError if a file exists.
    """
    from summhay_ray.benchmarks import mine as mining

    options = run_options(budget, executor, address, watch, note)
    loaded = _mining(folder, store, overrides, untrusted)
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


def show_text(
    folder: str | Path | Mapping[str, Any],
    document_id: str,
    store: str | None = None,
    *,
    overrides: Iterable[str] = (),
    untrusted: bool = False,
) -> dict[str, Any]:
    """What `mine` reads of a document of the folder: `title`, `date`, `kept` statements and `left_out` lines with the reason.

    Raises UserError if the folder has no such document.
    """
    return asdict(_mining(folder, store, overrides, untrusted).text_read(document_id))


def _mining(folder: str | Path | Mapping[str, Any], store: str | None, overrides: Iterable[str], untrusted: bool) -> Mine:
    """The workload of mining a folder or a spec. Raises SpecError."""
    from summhay_ray.benchmarks import mine as mining

    spec = {"kind": "mine", "folder": str(folder)} if isinstance(folder, str | Path) and Path(folder).is_dir() else folder
    if isinstance(spec, str | Path) and not Path(spec).exists():
        raise SpecError(f"{spec}: no such folder; give a folder of documents, or a spec of kind mine (YAML)")
    loaded = load(spec, overrides, store, untrusted=untrusted)
    if not isinstance(loaded, mining.Mine):
        raise SpecError(f"{'spec' if isinstance(spec, Mapping) else spec}: is of kind {loaded.kind}; start it with: summhay run")
    return loaded


def accept(sheet: str | Path, out: str | Path | None = None, store: str | None = None) -> dict[str, Any]:
    """Take over a person's review of a mined haystack; the sheet names its run. `out`: a file for the haystack.

    Raises UserError, which names the row and the column, for a sheet that cannot be read.
    """
    from summhay_ray.benchmarks import mine as mining

    return mining.accept_sheet(Path(sheet), lambda run_id: stored_run(run_id, store)[1], None if out is None else Path(out))


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
    loaded = load(spec, overrides, store, untrusted=untrusted)
    if not isinstance(loaded, synthesis.Synth):
        raise SpecError(f"{'spec' if isinstance(spec, Mapping) else spec}: is of kind {loaded.kind}; start it with: summhay run")
    return synthesis.run_synth(loaded, store_of(loaded, store), options, None if out is None else Path(out))


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


def audited(run_id: str, sheet: str | Path, store: str | None = None) -> dict[str, Any]:
    """Evaluate a labelled sheet: the paper's Tables 4 and 5 for a run's haystacks, as lists of rows."""
    from summhay_ray.benchmarks import synth as synthesis

    return synthesis.read_sheet(stored_run(run_id, store)[1], Path(sheet))
