"""Checks a spec from somebody else: it may not name files outside its folder, or send keys to foreign endpoints.

`plugins.own_code_allowed` refuses its own code, and `Inputs` checks its files once more when they are read.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from summhay_ray.errors import UserError
from summhay_ray.inputs import real_path
from summhay_ray.llm import foreign_key

_FORM, _WORD = re.compile(r"\w+\(.*\)", re.DOTALL), re.compile(r"[^\s(),]+")


def check_untrusted(spec: Any, folder: Path) -> None:
    """Raises UserError if a spec in `folder` names a file outside it, a key for a foreign endpoint, or a store's service."""
    if spec.endpoint_url is not None:
        raise UserError("endpoint_url: it would get the store's credentials; --untrusted takes it from --store alone")
    for model in spec.model_entries():
        if wrong := foreign_key(model.api_key_env, model.model, model.api_base):
            raise UserError(f"{model.label}: {wrong}")
    for text in texts_of(spec):
        # The name of a local model may contain a folder, `transformers/FOLDER`, and a form may contain several: `panel(A,B)`.
        names = [text, *(_WORD.findall(text) if _FORM.fullmatch(text) else ())]
        for entry in filter(None, (part for name in names for part in (name, name.partition("/")[2]))):
            place = folder / os.path.expanduser(entry)
            if os.path.lexists(place):
                real_path(place, folder)
                # Libraries read a model's folder directly.
                for file in place.rglob("*") if place != folder else ():
                    real_path(file, folder)


def texts_of(spec: Any) -> Iterator[str]:
    """Every text in a spec, each of which may be a path."""
    return (value for value in values_in(spec) if isinstance(value, str))


def values_in(value: Any) -> Iterator[Any]:
    """A spec, or a part of one, and every value inside it, in order. Keys of mappings are left out."""
    yield value
    if isinstance(value, BaseModel):
        value = [getattr(value, name) for name in type(value).model_fields]
    elif isinstance(value, Mapping):
        value = value.values()
    elif not isinstance(value, list | tuple):
        return
    for inner in value:
        yield from values_in(inner)
