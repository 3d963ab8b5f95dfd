"""The models that need no API key, by name (`offline/...` in a spec). They read the same prompts as any other model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from summhay_ray.generators import GENERATORS, Generator, check_generator
from summhay_ray.judge import OfflineJudge, OfflineRater
from summhay_ray.llm import LocalModel
from summhay_ray.plugins import installed, unknown
from summhay_ray.summarize import local_models

FAMILIES = ("replay/", GENERATORS)
"""Prefixes of families of local models with arbitrary names: a benchmark's replayed answers, and models loaded by
transformers."""

WRITER = "offline/writer"
_WRITER = "summhay_ray.synth:OfflineWriter"
"""The offline writer's class, imported only when it is used, because it loads the templates of synthesis."""


class LocalModels(Mapping[str, LocalModel]):
    """The local models by name, or by `provider/` for a family; each is created on first use."""

    def __init__(self, more: Iterable[LocalModel] = (), folder: Path = Path()) -> None:
        """`folder`: the spec's folder, to which the paths of models are relative."""
        self._made = {model.name: model for model in more}
        self._folder = folder

    def __getitem__(self, name: str) -> LocalModel:
        if name not in self._made:
            self._made[name] = Generator(name, self._folder) if name.startswith(GENERATORS) else _class_of(name)()
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter({WRITER: None, **dict.fromkeys(_classes()), **dict.fromkeys(self._made)})

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, name: object) -> bool:
        own = isinstance(name, str) and name.startswith(GENERATORS)
        return name in self._made or name == WRITER or own or name in _classes()


def _class_of(name: str) -> type[LocalModel]:
    found: type[LocalModel] = installed(_WRITER) if name == WRITER else _classes()[name]
    return found


def _classes() -> dict[str, type[LocalModel]]:
    judges: tuple[type[LocalModel], ...] = (OfflineJudge, OfflineRater)
    return {**local_models(), **{model.name: model for model in judges}}


def local_names() -> list[str]:
    """The names that a spec may use, sorted; a family accepts any name after its slash."""
    return sorted([*LocalModels(), *FAMILIES])


def check_models(names: Iterable[str], own: Iterable[type[LocalModel]], folder: Path = Path()) -> None:
    """Check each name that is not one of a benchmark's `own` local models (see `check_model`)."""
    known = {model.name for model in own}
    for name in names:
        if name not in known:
            check_model(name, folder)


def check_model(name: str, folder: Path = Path()) -> None:
    """Check that a local model can be used here. `folder`: the folder to which its path is relative.

    Raises UnknownName for an `offline/...` that does not exist, and NoModel for a `transformers/...` that cannot be loaded.
    """
    if name.startswith("offline/") and name not in LocalModels():
        raise unknown("offline model", name, local_names())
    if name.startswith(GENERATORS):
        check_generator(name, folder)
