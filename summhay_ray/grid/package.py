"""What a job needs of this machine, as one folder: spec, files, a person's own modules. Part of the grid room.

No Ray here, and no secret in what is packed: a file that holds the value of one of this machine's keys is refused.
"""

from __future__ import annotations

import shutil
import site
import sys
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from summhay_ray.grid.cells import SAMPLE, Grid
from summhay_ray.grid.sources import in_store, store_entry
from summhay_ray.grid.spec import RunSpec
from summhay_ray.grid.synth_spec import SynthSpec
from summhay_ray.grid.synthesizing import Synthesizing
from summhay_ray.llm import told_secrets
from summhay_ray.problems import Problem

SPEC = "summhay-spec.yaml"
"""What the spec is called in the package."""
MOST_BYTES = 90 * 2**20
"""Of a package, before it is compressed: clusters of Ray take 100 MiB or more, by their version and settings."""
_LESS = {
    "run": "give an s3:// store that can be reached from here with its credentials, through which any number of haystacks goes, "
    "or leave some out",
    "synth": "shorten the topics' context files, or make the topics in several runs, a spec each",
}


class PackageError(Problem):
    """The job cannot be packed; the message says what is in the way and how to mend it."""


@dataclass(frozen=True)
class Package:
    """What goes with a job: where each file of the package lies on this machine, and the spec that names them so."""

    spec: Mapping[str, Any]
    files: Mapping[str, Path]
    """Name in the package -> file here."""
    notes: tuple[str, ...] = ()
    command: str = "run"
    """Of ours, which takes the spec: run or synth."""

    def write(self, folder: Path) -> None:
        """Make the package in an empty folder. Raises OSError where a file is gone meanwhile."""
        for name, source in self.files.items():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
        text = yaml.safe_dump(dict(self.spec), sort_keys=False, allow_unicode=True)
        (folder / SPEC).write_text(text, encoding="utf-8")


def pack(grid: Grid, folder: Path, kept: Mapping[str, str] | None = None) -> Package:
    """The package of a grid, also of a synthesis, whose spec's paths start from `folder`. Raises PackageError.

    `kept`: entry of the spec's haystacks -> its entry in the package, for files that go by way of the store.
    """
    files: dict[str, Path] = {}
    kept = kept or {}
    if isinstance(grid, Synthesizing):
        command, spec = "synth", _synth_spec(grid.synth, folder, files)
    else:
        command, spec = "run", _run_spec(grid.spec, folder, files, kept)
    modules, notes = own_modules(grid.spec)
    for name, source in modules.items():
        if name == SPEC or files.setdefault(name, source) != source:
            raise PackageError(f"{name}: a file of the spec and one of your modules have one name; rename one of them")
    package = Package(spec, files, tuple(notes), command)
    _check_size(package)
    _check_secrets(package, grid, {entry: _file(entry, folder) for entry in kept})
    return package


def _run_spec(spec: RunSpec, folder: Path, files: dict[str, Path], kept: Mapping[str, str]) -> dict[str, Any]:
    """The spec of a run with its files by their names in the package, which `files` gets."""
    fields = spec.model_dump(mode="json")
    fields["haystacks"] = [
        kept.get(entry) or (entry if _needs_no_file(entry) else _packed(entry, folder, files)) for entry in spec.haystacks
    ]
    for written in [*fields["summarizers"], *fields["judges"]]:
        if written["prompt"]:
            written["prompt"] = _packed(written["prompt"], folder, files)
    return fields


def _synth_spec(spec: SynthSpec, folder: Path, files: dict[str, Path]) -> dict[str, Any]:
    """As `_run_spec`, of a synthesis: its domain's YAML and the texts that give its topics ideas."""
    fields = spec.model_dump(mode="json")
    if spec.domain.endswith((".yaml", ".yml")):
        fields["domain"] = _packed(spec.domain, folder, files)
    for topic in fields["topics"]:
        topic["context"] = [_packed(entry, folder, files) for entry in topic["context"]]
    return fields


def by_store(grid: Grid) -> dict[str, str]:
    """Entry of the spec's haystacks -> its entry in the package, for each file, where the store gets the sources."""
    entries = zip(grid.spec.haystacks, grid.sources, strict=True)
    return {entry: store_entry(source) for entry, source in entries if not _needs_no_file(entry)}


def _needs_no_file(entry: str) -> bool:
    return entry.startswith(SAMPLE) or in_store(entry) is not None


def _file(entry: str, folder: Path) -> Path:
    return next(path for path in (folder / entry, Path(entry)) if path.is_file()).resolve()


def _packed(entry: str, folder: Path, files: dict[str, Path]) -> str:
    """The file's name in the package: its own where it can stay, else one of ours with the same last part."""
    source = _file(entry, folder)
    path = PurePosixPath(entry)
    stays = not path.is_absolute() and ".." not in path.parts and str(path) != SPEC
    names = chain([entry] if stays else [], (f"files/{number}/{path.name}" for number in count()))
    name = next(name for name in names if files.get(name, source) == source)
    files[name] = source
    return name


def own_names(spec: RunSpec) -> list[str]:
    """The module:Class that the spec names."""
    strategies = [*(model.strategy for model in spec.summarizers), *(model.strategy for model in spec.judges)]
    return [name for name in [*spec.retrievers, *spec.orderings, *strategies] if ":" in name]


def own_modules(spec: RunSpec) -> tuple[dict[str, Path], list[str]]:
    """Name in the package -> file, of the modules that the spec names and of those beside them that they import; and notes.

    A package comes whole, without hidden files. What is installed here must be installed on the nodes.
    """
    files: dict[str, Path] = {}
    notes = []
    for top in sorted({name.partition(":")[0].partition(".")[0] for name in own_names(spec)}):
        place = _place(top)
        if place is None or _installed(place):
            notes.append(f"module {top} is installed here and not sent: the cluster's nodes must have it, too")
            continue
        for other in sorted({name.partition(".")[0] for name in sys.modules}):
            beside = _place(other)
            if beside and beside.parent == place.parent and other not in ("__main__", "summhay_ray"):
                files.update({str(file.relative_to(place.parent)): file for file in _files_of(beside)})
    return files, notes


def _place(top: str) -> Path | None:
    """The file, or the folder, of a module that is imported; None where it has none."""
    module = sys.modules.get(top)
    folders: Sequence[str] = list(getattr(module, "__path__", None) or ())
    file = getattr(module, "__file__", None)
    return Path(folders[0]).resolve() if folders else Path(file).resolve() if file else None


def _installed(place: Path) -> bool:
    paths = sysconfig.get_paths()
    roots = [paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    return place.parent in {Path(root).resolve() for root in [*roots, *site.getsitepackages(), site.getusersitepackages()]}


def _files_of(place: Path) -> Iterator[Path]:
    if place.is_file():
        yield place
        return
    for file in sorted(place.rglob("*")):
        parts = file.relative_to(place).parts
        if file.is_file() and not any(part.startswith(".") or part == "__pycache__" for part in parts):
            yield file


def _check_size(package: Package) -> None:
    sizes = {name: source.stat().st_size for name, source in package.files.items()}
    if (total := sum(sizes.values())) > MOST_BYTES:
        largest = max(sizes, key=lambda name: sizes[name])
        raise PackageError(
            f"the job's {len(sizes)} files have {total / 2**20:.0f} MiB, of which {largest} has {sizes[largest] / 2**20:.0f}; "
            f"a job takes {MOST_BYTES // 2**20}: {_LESS[package.command]}"
        )


def _check_secrets(package: Package, grid: Grid, kept: Mapping[str, Path]) -> None:
    """No key leaves this machine, not even one that stands in a person's own file. `kept`: what goes by way of the store."""
    secrets = {secret.encode() for model in grid.spec.models() for secret in told_secrets(model.api_key_env)}
    if not secrets:
        return
    _refuse("the spec", yaml.safe_dump(dict(package.spec), allow_unicode=True).encode(), secrets)
    for name, source in {**package.files, **kept}.items():
        _refuse(name, source.read_bytes(), secrets)


def _refuse(name: str, content: bytes, secrets: set[bytes]) -> None:
    if any(secret in content for secret in secrets):
        raise PackageError(
            f"{name} holds the value of a key of this machine's environment, which would leave it; take it out: "
            "keys come from the environment of the cluster's nodes"
        )
