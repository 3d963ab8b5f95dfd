"""Haystacks: imports them, makes them from documents or by synthesis, verifies and audits them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Unpack

from summhay_ray import benchmarks, engine
from summhay_ray.api.arguments import Spec, checked, load_made_by, run_options, store_of, store_uri, stored_run
from summhay_ray.engine import RunResult, SpecError
from summhay_ray.errors import UserError
from summhay_ray.run_options import PlanOptions, StartOptions
from summhay_ray.store import Store

MANY_VERIFIED = 8
"""Maximum number of files that are verified without Ray, because starting Ray takes seconds."""


@checked
def import_released(paths: str | Path | Sequence[str | Path], store: str | None = None) -> benchmarks.summhay.ImportResult:
    """Import released SummHay files as a run. Raises InvalidHaystack, and writes nothing, if a file is invalid."""
    listed = [paths] if isinstance(paths, str | Path) else paths
    if not listed:
        raise UserError("paths: expected at least one released SummHay file, found none")
    return benchmarks.summhay.import_released([str(path) for path in listed], Store(store_uri(store)))


@checked
def import_collection(folder: str | Path, store: str | None = None) -> benchmarks.odsum.CollectionImport:
    """Import a folder of documents and queries (docs/how-to/odsum.md). Specs then use it by `corpus: store/SHA256`.

    Raises SpecError, with one line that names the file.
    """
    return benchmarks.odsum.import_collection(folder, Store(store_uri(store)))


@checked
def mine(
    folder: str | Path | Mapping[str, Any],
    out: str | Path | None = None,
    store: str | None = None,
    *,
    review: str | Path | None = None,
    replace_review: bool = False,
    absent: int | None = None,
    **options: Unpack[StartOptions],
) -> RunResult:
    """Make a haystack from a folder of documents, or from a spec of kind mine. The same call resumes.

    People's decisions about an earlier haystack, in the store or in the file `out`, are applied if this one has the same insight
    and documents. `out`: a file for the haystack as released JSON. `review`: a file for a person's sheet (CSV or XLSX); an HTML
    page is written next to it. `absent`: number of additional queries that no document answers.

    Raises SpecError or StoreError before any work. Raises UserError for a file that may not be written: an existing sheet, or,
    without `replace_review`, an `out` with a person's work.
    """
    start = run_options(options)
    if absent is not None:
        options["overrides"] = [*options["overrides"], f"absent={absent}"]
    loaded = _mining(folder, store, options)
    haystack, sheet = (None if path is None else Path(path) for path in (out, review))
    for path in (haystack, sheet):
        if path and not path.absolute().parent.is_dir():
            raise UserError(f"{path.parent} is not a folder; make it first")
    benchmarks.mine.check_files(haystack, sheet, replace_review)
    opened = store_of(store, loaded.spec)
    result = engine.run_workload(loaded, opened, start)
    run = opened.run(result.run)
    files: list[str] = []
    notes: list[str] = []
    if result.results.details["insights"]:
        replaced = benchmarks.mine.read_mined(haystack) if haystack is not None and haystack.exists() else None
        benchmarks.mine.carry_over(run, benchmarks.mine.haystack_of(run, reviewed=False), replaced)
        raw = benchmarks.mine.haystack_of(run)
        if decided := raw["topic_metadata"]["mine"].get("review"):
            notes = [f"people's decisions hold for {decided['seen']} of the {decided['of']} insights"]
        if haystack is not None:
            benchmarks.mine.write_haystack(raw, haystack)
            files.append(str(haystack))
        if sheet is not None:
            files += benchmarks.mine.write_review(run, sheet)
    found = result.results
    details = {**found.details, "path": str(out) if str(out) in files else None, "files": files}
    return replace(result, results=replace(found, make_details=lambda: details, notes=(*found.notes, *notes)))


@checked
def show_text(
    folder: str | Path | Mapping[str, Any],
    document_id: str,
    store: str | None = None,
    *,
    overrides: Iterable[str] = (),
    untrusted: bool = False,
) -> dict[str, Any]:
    """Return what `mine` reads from a document of the folder: `title`, `date`, `kept` statements and `left_out` lines with the
    reason.

    Raises UserError if the folder has no such document.
    """
    given: PlanOptions = {"overrides": overrides, "untrusted": untrusted}
    return asdict(_mining(folder, store, given).text_read(document_id))


def _mining(folder: str | Path | Mapping[str, Any], store: str | None, options: PlanOptions) -> benchmarks.mine.Mine:
    """Return the workload for mining a folder or a spec. Raise SpecError."""
    spec = {"kind": "mine", "folder": str(folder)} if isinstance(folder, str | Path) and Path(folder).is_dir() else folder
    if isinstance(spec, str | Path) and Path(spec).suffix.lower() not in (".yaml", ".yml"):
        what = "is a file and no spec" if Path(spec).exists() else "no such folder"
        raise SpecError(f"{spec}: {what}; give the folder that holds the documents, or a spec of kind mine (YAML)")
    loaded = load_made_by(benchmarks.mine.Mine.kind, spec, store, options)
    assert isinstance(loaded, benchmarks.mine.Mine)
    return loaded


@checked
def accept(
    sheet: str | Path, out: str | Path | None = None, store: str | None = None, *, replace_review: bool = False
) -> dict[str, Any]:
    """Accept a sheet of `mine` or `check_pairs` that a person has filled in. `out`: a file for the haystack.

    Raises UserError with row and column, and changes nothing, if an edit is invalid. Without `replace_review`, it also does so if
    a decision of a later review would be lost.
    """
    path = None if out is None else Path(out)
    return benchmarks.mine.accept_sheet(Path(sheet), lambda run_id: stored_run(run_id, store)[1], path, replace_review)


@checked
def check_pairs(
    haystack: str | Path,
    n: int = 20,
    store: str | None = None,
    *,
    sheet: str | Path | None = None,
    ask: Callable[[int, int, Any], bool | None] | None = None,
) -> dict[str, Any]:
    """Have a person check `n` pairs of an insight and a document in the file of a mined haystack, to measure how much of the gold
    is right.

    `ask`: a function that asks the person about one pair. It receives the number of the pair (from 1), the number of all pairs,
    and the pair; it returns whether the pair is right, or None to skip it. The answers are stored in the file, and in the run
    that made the haystack. Without `ask`, the pairs are written to `sheet`. The person fills it in, and `accept` stores the
    answers.
    """
    path = Path(haystack)
    raw = benchmarks.mine.read_mined(path)
    pairs = benchmarks.mine.draw_pairs(raw, n)
    if ask is None:
        if sheet is None:
            raise UserError("give a sheet to write, or a function that asks")
        benchmarks.mine.write_pairs(pairs, Path(sheet))
        return {"path": str(path), "pairs": len(pairs), "files": [str(sheet)]}
    answers = {}
    for number, pair in enumerate(pairs, start=1):
        if (right := ask(number, len(pairs), pair)) is not None:
            answers[pair.insight_id, pair.document_id] = right
    if not answers:
        raise UserError(f"{path}: no pair was answered; nothing is kept")
    return benchmarks.mine.keep_answers(raw, answers, path, lambda run_id: stored_run(run_id, store)[1])


@checked
def synth(spec: Spec, store: str | None = None, *, out: str | Path | None = None, **options: Unpack[StartOptions]) -> RunResult:
    """Make and verify the haystacks of a synth spec. The same call resumes. `out`: a folder to write them to.

    The `entry` of a haystack is its name in the specs of runs in the same store. Raises SpecError or StoreError before any call
    is made.
    """
    start = run_options(options)
    loaded = load_made_by(benchmarks.synth.Synth.kind, spec, store, options)
    assert isinstance(loaded, benchmarks.synth.Synth)
    opened, folder = store_of(store, loaded.spec), None if out is None else Path(out)
    if folder is not None:
        opened.files.check()
        benchmarks.synth.check_folder(engine.open_run(loaded, opened), loaded.recipe, folder)
    result = engine.run_workload(loaded, opened, start)
    run = opened.run(result.run)
    written = [str(path) for path in benchmarks.synth.export_made(run, folder, again=True)] if folder is not None else []
    details, scores = {**result.results.details, "files": written}, replace(result.results.scores, files=written)
    return replace(result, results=replace(result.results, make_details=lambda: details, scores=scores))


@checked
def verify(
    paths: str | Path | Sequence[str | Path], out: str | Path | None = None, address: str | None = None
) -> list[benchmarks.synth.VerifiedFile]:
    """Check haystack files against their own annotations, offline, and list the mismatches. `out`: a CSV file for all checks.

    More than eight files are checked by a local Ray, or by the Ray cluster at `address`, whose nodes must see them. Raises
    InvalidHaystack, and UserError if `out` exists.
    """
    listed = [paths] if isinstance(paths, str | Path) else paths
    if out is not None and Path(out).exists():
        raise UserError(f"{out} exists; give another file")
    files = [str(path) for path in listed]
    if not address and len(files) <= MANY_VERIFIED:
        verified = benchmarks.synth.verify_files(files)
    else:
        with engine.Cluster(address, "ray") as cluster:
            verified = benchmarks.synth.verify_files(files, cluster.mapped())
    if out is not None:
        benchmarks.synth.write_checks(verified, Path(out))
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
    """Write a sheet with a sample of the annotations of a run's haystacks for a person to label. Never overwrites a file.

    The sheet asks for the subtopics of some insights, and for the insights in some documents, from at most `haystacks` haystacks.
    """
    return benchmarks.synth.write_sheet(
        stored_run(run_id, store)[1],
        Path(sheet),
        benchmarks.synth.Sample(insights=insights, documents=documents, haystacks=haystacks, seed=seed),
    )


@checked
def audited(run_id: str, sheet: str | Path, store: str | None = None) -> dict[str, Any]:
    """Evaluate a labelled sheet: the paper's Tables 4 and 5 for a run's haystacks, as lists of rows."""
    return benchmarks.synth.read_sheet(stored_run(run_id, store)[1], Path(sheet))
