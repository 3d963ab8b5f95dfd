"""The measured biases of a run's judges, by which its scores are corrected."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from summhay_ray.benchmark import ModelSpec, RunStore
from summhay_ray.benchmarks.summhay.results.judges import JudgeEntry, judge_entries, judges_of
from summhay_ray.errors import UserError
from summhay_ray.inputs import read_json
from summhay_ray.judge import bench, name_of, parse_name, strategy_of
from summhay_ray.metrics import JudgeBias, bias_of


def read_biases(path: Path) -> tuple[JudgeBias, ...]:
    """Read the biases that `judge-bench --out` wrote. Raises UserError if the file cannot be read or has another form."""
    try:
        return bench.read_biases(read_json(path).decode("utf-8-sig"))
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}); give a file that judge-bench --out wrote") from error
    except ValueError as error:
        mend = "give one that judge-bench --out wrote"
        raise UserError(f"{path.name} holds no measured biases: {error}; {mend}") from error


def known_biases(run: RunStore, rejudged: bool, own: Sequence[JudgeBias]) -> Callable[[str], JudgeBias | None]:
    """Returns a function: judge, as named in tables -> its bias, or None if it was not measured with these settings."""
    ways = _asked_entries(run, rejudged)
    named = [replace(bias, names=(*bias.names, *_stands_for(bias.judge))) for bias in own]

    def known(judge: str) -> JudgeBias | None:
        entry = ways.get(judge)
        name = _asked(entry) if entry else judge
        bias = bias_of(name, named)
        if bias is None and entry and entry["name"]:
            # A judge that the spec names itself may have been measured under that name.
            bias = next(
                (judged for judged in own if judged.judge == entry["name"] and not judged.names and _is_private(judged.judge)),
                None,
            )
        return bias or bias_of(name, bench.shipped_biases())

    return known


def _asked_entries(run: RunStore, rejudged: bool) -> dict[str, JudgeEntry]:
    """Judge, as named in tables -> its entry in the spec it judged by. The judge of an imported run has none."""
    if not rejudged:
        return {_label(entry): entry for entry in judge_entries(run)}
    labels: dict[str, JudgeEntry] = {}
    for judged in judges_of(run):
        entries = judge_entries(run if judged.runs[0] == run.run_id else run.store.run(judged.runs[0]))
        labelled = {_label(entry): entry for entry in entries}
        if judged.label in labelled:
            labels[judged.judge] = labelled[judged.label]
    return labels


def _label(entry: JudgeEntry) -> str:
    return str(entry["name"] or entry["model"])


def _stands_for(text: str) -> tuple[str, ...]:
    """The name of the judge that an expression such as `blend(MODEL,offline)` describes; empty for any other name."""
    try:
        named = parse_name(text)
        return () if named.kind in ("model", "stored") else (asked_name(*strategy_of(named)),)
    except UserError:
        return ()


def _is_private(label: str) -> bool:
    """Whether a name is arbitrary: neither an expression nor the name of a model with a known price."""
    model = label.split(" ")[0]
    try:
        return parse_name(model).kind == "model" and not ModelSpec(model=model).is_priced()
    except UserError:
        return False


def _asked(entry: JudgeEntry) -> str:
    """The name under which the bias of a spec's judge is looked up. A custom prompt makes it a different judge."""
    name = asked_name(entry["model"], entry["strategy"])
    return f"{name} prompt {entry['prompt']}" if entry["prompt"] else name


def asked_name(model: str, strategy: str) -> str:
    """The name of the judge with this model and strategy."""
    return name_of(model, strategy).text
