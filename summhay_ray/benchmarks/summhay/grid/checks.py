"""Checks of the names and prompts in a SummHay spec, made before any paid call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from summhay_ray import judge, summarize
from summhay_ray.benchmark import ModelSpec
from summhay_ray.benchmarks.retrieval import Entry, Retrievers, every, make_retriever, naming
from summhay_ray.benchmarks.summarizing import SummarizerSpec, check_strategy
from summhay_ray.benchmarks.summhay.grid.grid import Grid
from summhay_ray.benchmarks.summhay.haystacks.metadata import HaystackMetadata
from summhay_ray.benchmarks.summhay.spec import JudgeSpec, try_judge
from summhay_ray.errors import SpecError
from summhay_ray.judge import OfflineJudge
from summhay_ray.local_models import check_model
from summhay_ray.plugins import UnknownName


def check_grid(grid: Grid) -> None:
    """Check every name and prompt of the spec. Raises SpecError for one that is unknown or unusable."""
    _check_names(grid)
    check_prompts([*grid.spec.summarizers, *grid.spec.parts()], grid.entries.prompts)


def _check_names(grid: Grid) -> None:
    spec = grid.spec
    check_retrievers_of(grid.retrievers, grid.haystacks.metadata)
    try:
        for ordering in spec.orderings:
            summarize.check_ordering(ordering)
        for summarizer in spec.summarizers:
            check_strategy(summarizer.strategy)
    except (UnknownName, judge.BadName) as error:
        raise SpecError(f"spec: {error}") from error
    check_judges(spec.parts(), grid.inputs.folder)
    check_models([*spec.summarizers, *(one.reduce for one in spec.summarizers if one.reduce)], grid.inputs.folder)


def check_judges(judges: Sequence[JudgeSpec], folder: Path) -> None:
    """Raises SpecError for a judge that cannot be made or whose local model is missing.

    `folder`: the base of relative model paths.
    """
    try:
        for judging in judges:
            try_judge(judging.strategy)
            check_model(judging.model, folder)
    except (UnknownName, judge.BadName) as error:
        raise SpecError(f"spec: {error}") from error


def check_models(models: Sequence[ModelSpec], folder: Path = Path()) -> None:
    """Raises SpecError for a local model that does not exist. `folder`: the base of relative model paths."""
    try:
        for model in models:
            check_model(model.model, folder)
    except UnknownName as error:
        raise SpecError(f"spec: {error}") from error


def check_retrievers_of(retrievers: Retrievers, metadata: Sequence[HaystackMetadata]) -> None:
    """Raises SpecError for a retriever that cannot be made, that has no documents, or whose released scores a haystack lacks."""
    bare = [one.name for one in metadata if not one.n_documents]
    if bare and (ranking := [one for one in retrievers if one not in ("none", "full")]):
        mend = "give the folder of those that its references name"
        raise SpecError(f"spec: documents: haystack {bare[0]!r} has no documents for retriever {ranking[0]!r}; {mend}")
    for index, entry in enumerate(retrievers.values()):
        with naming(index):
            for part in every([entry]):
                _check_retriever(part, retrievers, metadata)
                if isinstance(part, str) and part.startswith("released/"):
                    _check_released(part.removeprefix("released/"), metadata)


def _check_retriever(entry: str | Entry, retrievers: Retrievers, metadata: Sequence[HaystackMetadata]) -> None:
    try:
        make_retriever(entry, retrievers.seed, retrievers.run_file)
    except UnknownName:
        if all(entry in haystack.released for haystack in metadata):
            raise UnknownName(f"no retriever is named {entry!r}; did you mean 'released/{entry}'?") from None
        raise


def _check_released(name: str, metadata: Iterable[HaystackMetadata]) -> None:
    for haystack in metadata:
        if name not in haystack.released:
            has = ", ".join(haystack.released) or "none"
            raise UnknownName(f"{haystack.name} holds no scores of 'released/{name}'; it holds: {has}")


def check_prompts(models: Sequence[SummarizerSpec | JudgeSpec], prompts: Mapping[str, str]) -> None:
    """Raises SpecError for a prompt that lacks a placeholder, or a heading that offline/judge looks for."""
    for model in models:
        if not model.prompt:
            continue
        text = prompts[model.prompt]
        try:
            summarize.check_prompt(text) if isinstance(model, SummarizerSpec) else judge.check_prompt(text, model.strategy)
        except ValueError as error:
            raise SpecError(f"spec: prompt {model.prompt!r}: {error}") from error
        # Other models understand any wording; offline/judge finds its input by these headings.
        headings = ("Reference Insights:" if "per_summary" in model.strategy else "Reference Insight:", "Bullet Points:")
        absent = [heading for heading in headings if heading not in map(str.strip, text.splitlines())]
        if model.model == OfflineJudge.name and absent:
            raise SpecError(f"spec: prompt {model.prompt!r}: offline/judge reads the section under a line {absent[0]!r}; add it")
