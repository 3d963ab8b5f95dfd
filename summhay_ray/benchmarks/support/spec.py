"""The spec of support judging (the run or files to judge, and the judge), and how to make it from names on the command line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from summhay_ray.benchmark import Model, ModelSpec, Reach, RunStore, Spec
from summhay_ray.citations import SUPPORT_JUDGE
from summhay_ray.errors import UserError
from summhay_ray.extract import Nli
from summhay_ray.judge import DEFAULT_SHARE, Named, parse_name

NLI = "nli"
"""Prefix of judges that are models for natural language inference. `nli/NAME` runs a model from a folder or a hub in this
process; `nli` alone is the default model of `summhay_ray.extract`."""


def named_judge(name: str) -> Named:
    """Parse the name of a support judge; `offline` in it means the free support judge. Raises BadName, UnknownName."""
    named = parse_name(name, free=SUPPORT_JUDGE)
    for part in _all(named):
        if part.kind not in ("model", "offline", "cascade", "blend", "panel"):
            raise UserError(
                f"judge {name!r}: {part.text} judges coverage, and no citations; give offline, nli/NAME, a model, a cascade "
                "or a panel"
            )
    return named


def is_nli(named: Named) -> bool:
    return named.kind == "model" and named.text.partition("/")[0] == NLI


def models_of(named: Named) -> list[str]:
    """Return the models that a judge calls through the gateway, without repeats."""
    return list(dict.fromkeys(part.text for part in _all(named) if part.kind == "model" and not is_nli(part)))


def nli_models(named: Named) -> Mapping[str, str]:
    """Map the name of each NLI model in the judge to its folder or hub name."""
    return {part.text: part.text.partition("/")[2] or Nli.own_model for part in _all(named) if is_nli(part)}


def _all(named: Named) -> Iterator[Named]:
    yield named
    for part in named.parts:
        yield from _all(part)


class SupportSpec(Spec):
    """Judges whether cited documents support the bullets of a run's summaries, or of answers in a file."""

    NOT_SEMANTIC: ClassVar[frozenset[str]] = frozenset({*Spec.NOT_SEMANTIC, "of", "answers", "documents"})

    kind: str = Field(default="support", description="the benchmark: its name, or module:Class for one of your own")
    name: str = Field(default="support", min_length=1, description="a name for people; not part of the run's identity")
    of: str = Field(default="", description="id of the run whose summaries are judged")
    answers: str = Field(default="", description="instead of a run: JSON lines of query_id, system, and text or bullets")
    documents: str = Field(
        default="", description="with answers: the folder of the documents that they cite, unless each line has its passages"
    )
    judge: str = Field(
        default=SUPPORT_JUDGE,
        min_length=1,
        description="offline, nli/FOLDER_OR_NAME, a model, cascade(offline,MODEL,0.1), panel(A,B,offline)",
    )
    per: Literal["citation", "bullet"] = Field(
        default="citation", description="one question to a model covers one cited document of a bullet, or all of them"
    )
    models: list[Model] = Field(default=[], description="entries of the judge's models; unlisted ones use defaults")

    @model_validator(mode="before")
    @classmethod
    def _with_models(cls, fields: Any) -> Any:
        """Add an entry for each model that the judge names and `models` lacks."""
        if not isinstance(fields, Mapping) or not isinstance(judge := fields.get("judge", SUPPORT_JUDGE), str) or not judge:
            return fields
        try:
            asked = models_of(named_judge(judge))
        except UserError as error:
            raise ValueError(str(error)) from error
        listed = fields.get("models", [])
        if not isinstance(listed, list):
            return fields
        known = [_model_of(entry) for entry in listed]
        if idle := [name for name in known if isinstance(name, str) and name not in asked]:
            raise ValueError(f"models: {idle[0]!r} is not asked by judge {judge!r}; remove it")
        more = [{"model": name, "max_tokens": 400} for name in asked if name not in known]
        return {**fields, "models": [*listed, *more]}

    @model_validator(mode="after")
    def _one_source(self) -> SupportSpec:
        if bool(self.of) == bool(self.answers) or (self.of and self.documents):
            raise ValueError("give `of`, a run, or `answers`, a file of JSON lines, and `documents`, their folder")
        return self

    @property
    def label(self) -> str:
        named = named_judge(self.judge)
        if named.kind != "cascade":
            return named.text
        share = DEFAULT_SHARE if named.share is None else named.share
        return f"cascade(offline,{named.parts[1].text},{share:g})"

    def entry(self, model: str) -> ModelSpec:
        """Return the entry of a model that the judge asks."""
        return next(entry for entry in self.models if entry.model == model)


def _model_of(entry: Any) -> Any:
    return (
        entry if isinstance(entry, str) else entry.get("model") if isinstance(entry, Mapping) else getattr(entry, "model", None)
    )


@dataclass(frozen=True, slots=True)
class SupportRequest:
    """The run or files to judge, and the judge."""

    judge: str = SUPPORT_JUDGE
    per: str = "citation"
    run: RunStore | None = None
    answers: str = ""
    documents: str = ""


def support_fields(request: SupportRequest) -> dict[str, Any]:
    """Return the fields of the spec. Endpoints, prices and limits of models come from the judged run. Raises BadName,
    UnknownName."""
    fields: dict[str, Any] = {"kind": "support", "judge": request.judge, "per": request.per}
    if request.run is None:
        return {**fields, "answers": request.answers, "documents": request.documents, "name": f"support of {request.answers}"}
    run = request.run
    written = run.record.get("spec", {})
    models = models_of(named_judge(request.judge))
    entries = [one for name in ("summarizers", "judges") for one in written.get(name, []) if isinstance(one, Mapping)]
    known = {one["model"]: one for one in reversed(entries) if one.get("model") in models}
    reach = [
        {"model": model, "max_tokens": 400, **{part: one[part] for part in Reach.model_fields if one.get(part) is not None}}
        for model, one in known.items()
    ]
    limits = {model: one for model, one in written.get("limits", {}).items() if model in models}
    shared = {name: written[name] for name in ("workers", "executor", "endpoint_url", "seed") if written.get(name) is not None}
    return {**fields, **shared, "of": run.run_id, "name": f"support of {run.run_id}", "models": reach, "limits": limits}
