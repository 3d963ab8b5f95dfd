"""The sections that every run has: overview, failures, money, and how the run was made."""

import importlib.metadata
import platform
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, cast

import polars as pl
import yaml

from summhay_ray.comparison import RunScores, SystemComparison, comparison_sections, every_pair
from summhay_ray.engine import Chart, ReadOptions, Results, Section, StatusResult, Workload, results_of, scores_by_query, status
from summhay_ray.outcome import MICROS
from summhay_ray.report.sections import dollars_line
from summhay_ray.sections import plain
from summhay_ray.store import RunStore

_KEYS = ("stage", "model", "judge", "kind", "error")
_STATUS = {
    "budget": "stopped at its budget",
    "partial": "finished, with failures",
    "limited": "a first look at some of its items",
    "interrupted": "interrupted: its driver was stopped or died",
}
"""Run statuses that need an explanation."""
_END = "END OF SPEC"


@dataclass(frozen=True)
class ReportedRun:
    """A run with its sections, in the state in which it was opened."""

    workload: Workload[Any]
    run: RunStore
    sections: Sequence[Section]
    now: StatusResult
    judge: str = ""
    """The judge whose figures the report shows, for a run that may have several judges."""
    options: ReadOptions = ReadOptions()
    scores: RunScores | None = None
    """The systems' scores by query, if the benchmark has any."""
    comparison: SystemComparison | None = None
    """The comparison of the run's systems; None without scores by query."""

    @property
    def n_failures(self) -> int:
        """Number of answers that are missing or could not be read."""
        return sum(self.now.failures.values())

    @property
    def status(self) -> str:
        """The run's status in a word."""
        return self.now.status

    @property
    def haystacks(self) -> tuple[str, ...]:
        """The sorted ids of the run's haystacks."""
        return tuple(sorted(str(one["haystack_id"]) for one in self.run.record.get("haystacks", ())))

    @property
    def title(self) -> str:
        """The name of the run or, without one, its id."""
        return str(self.run.record.get("name") or self.run.run_id)


def reported_run(workload: Workload[Any], run: RunStore, options: ReadOptions) -> ReportedRun:
    """Return the run with all its sections. The decision, with the warnings that limit it, and the leaderboard come first; the
    benchmark's sections come in the middle.

    If the benchmark gives scores by query, its systems are ranked, and their differences are tested.
    """
    now = status(run)
    results = results_of(workload, run, replace(options, whole=True))
    scores = scores_of(workload, run, results)
    comparison = None if scores is None else every_pair(scores, over=options.over)
    found = [] if comparison is None else [*comparison_sections(comparison)]
    # The decision gets the warnings, since they limit it.
    decided = [replace(one, notes=list(dict.fromkeys((*results.warnings, *one.notes)))) for one in found[:1]]
    sections = [
        *decided,
        *found[1:2],
        _overview(run, now, () if decided else results.warnings),
        *results.sections,
        *found[2:],
        _failures(run),
        _money(run, now),
        _made(run),
    ]
    return ReportedRun(workload, run, sections, now, results.judge, options, scores, comparison)


def scores_of(workload: Workload[Any], run: RunStore, results: Results) -> RunScores | None:
    """Return the run's scores by query, for comparisons. None if the benchmark has none, or if the run has none yet."""
    by_query = scores_by_query(workload, run) if results.compared is None else None
    scores = None if by_query is None or by_query.scores.is_empty() else RunScores(run.run_id, by_query)
    return cast("RunScores | None", results.compared or scores)


def _overview(run: RunStore, now: StatusResult, warnings: Sequence[str]) -> Section:
    """Summarize the state of the run in a few figures."""
    cells, total = now.cells["done"] + now.cells["failed"], now.cells["total"]
    record = run.record
    facts = [
        ("kind", str(record["kind"])),
        ("status", ", ".join(filter(None, (_STATUS.get(now.status, now.status), now.driver)))),
        (now.unit, f"{cells:,} of {total:,} finished, {now.cells['failed']:,} with failures"),
        ("haystacks", ", ".join(haystack["name"] for haystack in record.get("haystacks", ()))),
        ("dollars", "nothing was asked" if now.status == "imported" else dollars_line(now.usd, digits=4)),
        ("rows stored", ", ".join(f"{table['rows']:,} {name}" for name, table in now.tables.items() if table["rows"])),
    ]
    notes = ["The run is not finished: its figures cover only what is there."] * (cells < total)
    notes += [*now.warnings, *now.problems, *warnings]
    if now.cells["failed"]:
        notes.append("Failures are never scored as zero: they are missing from n, which says so in every table.")
    table = pl.DataFrame([fact for fact in facts if fact[1]], schema=["what", "value"], orient="row")
    return Section("Overview", table=table, notes=notes, name="overview", tab="method")


def _failures(run: RunStore) -> Section:
    parts, keys = [], list[str]()
    for piece in run.pieces("failures"):
        keys = [name for name in _KEYS if name in piece.columns]
        example = pl.col("message").min().alias("such as")
        parts.append(piece.group_by(keys).agg(pl.col("usd_micros").sum(), example, pl.len().cast(pl.Int64).alias("n")))
    failures = pl.concat(parts).group_by(keys).agg(pl.col("usd_micros", "n").sum(), pl.col("such as").min())
    if not failures.height:
        return Section("Failures", "There are none.", name="failures", tab="failures")
    rows = failures.select(*keys, (pl.col("usd_micros") / MICROS).alias("dollars"), "such as", "n")
    text = f"{rows['n'].sum():,} answers are missing or could not be read, by class. None of them is scored."
    table = rows.sort("n", *keys, descending=[True, *(False for _ in keys)])
    return Section("Failures", text, table, {"dollars": "$"}, Chart.bar("error", "n", "stage"), name="failures", tab="failures")


def _money(run: RunStore, now: StatusResult) -> Section:
    """Return dollars and time by stage and model: planned, used, and saved by caches."""
    rows = [
        {
            "stage": usage["stage"],
            "model": usage["model"],
            "planned calls": planned.get("calls"),
            "reused": planned.get("reused"),
            "planned minutes": planned.get("minutes"),
            "planned dollars": planned.get("usd"),
            "dollars": real["usd"],
            "saved by cache": usage["saved_usd"],
            "input tokens": real["input_tokens"],
            "output tokens": real["output_tokens"],
            "n": real["calls"],
        }
        for usage in now.usage
        for planned, real in [(usage["planned"] or {}, usage["real"])]
    ]
    if not rows:
        return Section("Money and time", "Nothing was asked, and nothing paid.", name="money", tab="method")
    dollars = ("planned dollars", "dollars", "saved by cache")
    commits = [file.written for file in run.store.files.entries(f"runs/{run.run_id}/commits")]
    took = max(0.0, max(commits, default=0.0) - datetime.fromisoformat(now.began).timestamp())
    time = f"{took:.0f} seconds" if took < 120 else f"{took / 60:,.0f} minutes"
    text = (
        f"Dollars: {dollars_line(now.usd)}. The run took {time} from its creation to its last commit, pauses included. "
        "Planned minutes: the least that the rate limits allow. Reused: answers that the store had before the "
        "run, which cost nothing again. Saved by cache: by the prompt cache of the provider. n: calls."
    )
    frame = pl.DataFrame(rows, infer_schema_length=None).with_columns(pl.col(*dollars, "planned minutes").cast(pl.Float64))
    return Section("Money and time", text, frame, dict.fromkeys(dollars, "$"), name="money", tab="method")


def _made(run: RunStore) -> Section:
    """Return the spec, versions, hashes and seed of the run, and the command that repeats it."""
    record = run.record
    spec = record.get("spec")
    packages = ", ".join(f"{name} {version}" for name, version in versions().items())
    lines = [f"# run {run.run_id}, kind {record['kind']}, {packages}"]
    lines += [f"# {plain(what)}: sha256 {digest}" for what, digest in hashes(record).items()]
    lines += ["", "# The command that makes the run again, in a folder with the same files:"]
    if spec is None:
        files = " ".join(shlex.quote(f"{haystack['name']}.json") for haystack in record["haystacks"])
        lines.append(f"summhay import {files}")
    else:
        lines.insert(1, f"# seed {spec.get('seed', 0)}")
        # YAML indents every line of a text, so that no text can end the spec.
        text = yaml.safe_dump({"kind": record["kind"], **_filled_fields(spec)}, sort_keys=False, allow_unicode=True)
        lines += [f"cat > {run.run_id}.yaml <<'{_END}' && summhay run {run.run_id}.yaml", f"{text}{_END}"]
    return Section("How it was made", listing="\n".join(lines), name="made", tab="method")


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages on which the figures depend."""
    packages = {name: importlib.metadata.version(name) for name in ("summhay-ray", "polars", "pyarrow", "ray")}
    return {"Python": platform.python_version(), **packages}


def hashes(record: Mapping[str, Any]) -> dict[str, str]:
    """Map each dependency of a run to its content hash: haystacks, judges and the files that its spec names."""
    digests = {f"haystack {haystack['name']}": str(haystack["haystack_id"]) for haystack in record.get("haystacks", ())}
    digests |= {f"judge {label}": str(identity) for label, identity in record.get("judges", ())}
    return digests | {f"input {name}": str(digest) for name, digest in record.get("inputs", {}).items()}


def _filled_fields(spec: Any) -> Any:
    """Return a spec without its empty fields."""
    if isinstance(spec, Mapping):
        return {name: _filled_fields(value) for name, value in spec.items() if value not in (None, "", {}, [])}
    return [_filled_fields(entry) for entry in spec] if isinstance(spec, Sequence) and not isinstance(spec, str) else spec
