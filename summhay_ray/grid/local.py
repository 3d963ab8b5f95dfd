"""The models that need no key, by name: what a spec may call `offline/...` and `replay/...`. Part of the grid room."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from summhay_ray.grid.replay import Replay
from summhay_ray.haystack import ReleasedFile
from summhay_ray.judge import OfflineJudge, OfflineJudgeEmbed
from summhay_ray.llm import LocalModel, is_local
from summhay_ray.plugins import UnknownName, unknown
from summhay_ray.summarize import local_models
from summhay_ray.synth import OfflineWriter


@functools.cache
def _classes() -> dict[str, type[LocalModel]]:
    """The models that need nothing but their request."""
    others: tuple[type[LocalModel], ...] = (OfflineJudge, OfflineJudgeEmbed, OfflineWriter)
    return {**local_models(), **{model.name: model for model in others}}


def local_names() -> list[str]:
    """What a spec may write, sorted; `replay/` takes the name of any model of a released file."""
    return sorted([*_classes(), Replay.name])


def make_local_models(file: Callable[[str], ReleasedFile]) -> dict[str, LocalModel]:
    """All of them, ready to answer; `file` is what `replay/` reads: a haystack_id's released file."""
    models: list[LocalModel] = [*(model() for model in _classes().values()), Replay(file)]
    return {model.name: model for model in models}


def check_model(name: str) -> None:
    """Raises UnknownName for an `offline/...` that does not exist, or whose extra is not installed."""
    if name.startswith("offline/") and name not in local_names():
        raise unknown("offline model", name, local_names())
    if name == OfflineJudgeEmbed.name:
        try:
            OfflineJudgeEmbed.check()
        except LookupError as error:
            raise UnknownName(str(error)) from error


@functools.cache
def revision_of(model: str) -> dict[str, Any]:
    """The sampling parameter that tells revisions of a local model apart; nothing for any other model."""
    if not is_local(model):
        return {}
    revision = _classes()[model].revision if model in _classes() else Replay.revision
    return {"extra_body": {"revision": revision}}
