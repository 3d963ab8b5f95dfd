"""Packs the files that a Ray job needs from this machine: the spec, input files and the user's own modules.

A package holds no secrets: a file that contains the value of one of this machine's keys is refused.
"""

import shutil
import site
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.machinery import all_suffixes
from itertools import chain, count
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Any

import yaml

from summhay_ray.engine.contract import Workload
from summhay_ray.errors import UserError
from summhay_ray.llm import known_secrets

SPEC = "summhay-spec.yaml"
"""The name of the spec's file in a package."""
MOST_BYTES = 90 * 2**20
"""Maximum size of a package before compression. Ray clusters accept at least 100 MiB, depending on version and settings."""


@dataclass(frozen=True)
class Package:
    """The files of a job, and the spec that refers to them by their names in the package."""

    spec: Mapping[str, Any]
    files: Mapping[str, Path]
    """Name in the package -> path on this machine."""
    notes: tuple[str, ...] = ()

    def write(self, folder: Path) -> None:
        """Write the package to an empty folder. Raises OSError if a file has disappeared."""
        for name, source in self.files.items():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
        text = yaml.safe_dump(dict(self.spec), sort_keys=False, allow_unicode=True)
        (folder / SPEC).write_text(text, encoding="utf-8")


def pack(workload: Workload[Any], by_store: Mapping[str, str] = MappingProxyType({})) -> Package:
    """Return the package of a run. Raises UserError.

    `by_store`: the inputs that the job reads from the store instead, as name in the spec -> name in the package's spec.
    """
    files: dict[str, Path] = {}
    entries = workload.inputs.files
    names = {}
    for entry, source in entries.items():
        if (name := by_store.get(entry)) is None:
            # Use its name in the spec if possible, else `files/NUMBER/` and its base name.
            path = PurePosixPath(entry)
            stays = not path.is_absolute() and ".." not in path.parts and str(path) != SPEC
            options = chain([entry] if stays else [], (f"files/{number}/{path.name}" for number in count()))
            name = next(name for name in options if files.get(name, source) == source)
            files[name] = source
        names[entry] = name
    modules, notes = own_modules(workload.own_code())
    for name, source in modules.items():
        if name == SPEC or files.setdefault(name, source) != source:
            raise UserError(f"{name}: a file of the spec and one of your modules have one name; rename one of them")
    for name in files if workload.inputs.untrusted else ():
        # Python would search the job's folder first, and might import this file.
        if name.endswith(tuple(all_suffixes())):
            raise UserError(f"{name}: has a name that Python could import, and --untrusted sends no code; rename the file")
    package = Package(_renamed(workload.spec.model_dump(mode="json"), names), files, tuple(notes))
    sizes = {name: source.stat().st_size for name, source in files.items()}
    if (total := sum(sizes.values())) > MOST_BYTES:
        largest = max(sizes, key=lambda name: sizes[name])
        raise UserError(
            f"the job's {len(sizes)} files have {total / 2**20:.0f} MiB, of which {largest} has {sizes[largest] / 2**20:.0f}; "
            f"a job takes at most {MOST_BYTES // 2**20} MiB: give an s3:// store that this machine can reach, "
            "so that large inputs go there, or split the run into several"
        )
    _check_secrets(package, workload, [entries[entry] for entry in by_store if entry in entries])
    return package


def _renamed(value: Any, names: Mapping[str, str]) -> Any:
    """Return a part of the spec with the inputs' names in the package."""
    if isinstance(value, Mapping):
        return {name: _renamed(inner, names) for name, inner in value.items()}
    if isinstance(value, list):
        return [_renamed(inner, names) for inner in value]
    return names.get(value, value) if isinstance(value, str) else value


def own_modules(names: Sequence[str]) -> tuple[dict[str, Path], list[str]]:
    """Return the files of the modules in `names` (module:Class), as name in the package -> path, and notes.

    Imported modules from the same folder are included. Python packages are sent whole, without hidden files. Installed modules
    are not sent, and must be installed on the nodes; a note says so.
    """
    files: dict[str, Path] = {}
    notes = []
    paths = sysconfig.get_paths()
    roots = [*(paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib"))]
    roots += [*site.getsitepackages(), site.getusersitepackages()]
    installed = {Path(root).resolve() for root in roots}
    for top in sorted({name.partition(":")[0].partition(".")[0] for name in names}):
        place = _place(top)
        if place is None or place.parent in installed:
            notes.append(f"module {top} is installed here and not sent: the cluster's nodes must have it, too")
            continue
        for other in sorted({name.partition(".")[0] for name in list(sys.modules)}):
            module = _place(other)
            if module and module.parent == place.parent and other not in ("__main__", "summhay_ray"):
                for file in [module] if module.is_file() else sorted(module.rglob("*")):
                    parts = file.relative_to(module).parts
                    hidden = any(part.startswith(".") or part == "__pycache__" for part in parts)
                    if file.is_file() and not hidden:
                        files[str(file.relative_to(place.parent))] = file
    return files, notes


def _place(top: str) -> Path | None:
    """Return the file or folder of an imported module; None if it has none."""
    module = sys.modules.get(top)
    folders: Sequence[str] = list(getattr(module, "__path__", None) or ())
    file = getattr(module, "__file__", None)
    return Path(folders[0]).resolve() if folders else Path(file).resolve() if file else None


def _check_secrets(package: Package, workload: Workload[Any], kept: Sequence[Path]) -> None:
    """Raise UserError if a file contains the value of a key. `kept`: the inputs that the job reads from the store."""
    named = [model.api_key_env for model in workload.spec.model_entries() if model.api_key_env]
    secrets = known_secrets(named).unmistakable()
    sources = [*package.files.items(), *((path.name, path) for path in kept)]
    text = yaml.safe_dump(dict(package.spec), allow_unicode=True)
    contents = chain([("the spec", text)], ((name, path.read_bytes().decode("utf-8", "replace")) for name, path in sources))
    for name, content in contents:
        if secrets.are_in(content):
            raise UserError(
                f"{name} holds the value of a key of this machine's environment, which would leave it; take it out: "
                "keys come from the environment of the cluster's nodes"
            )
