"""Finds missing or damaged files of a stored run: a line for each, with its effect and a remedy. Part of the engine room."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from summhay_ray.outcome import MICROS
from summhay_ray.store import LogIndex, RunStore, Store, StoreError, writer_of

_LEAVE = (
    "put it back from a copy, or leave it: what is finished is not asked again; "
    "another run that needs these answers pays for them again"
)


def short_log(run: RunStore, index: LogIndex) -> tuple[str, ...]:
    """A line if the log records less spending than the run's commits; else none."""
    micros = sum(tally.usd_micros for tally in index.lacking(run.run_id).values())
    if not micros:
        return ()
    log = run.store.files.where("log")
    return (
        f"{log} records {micros / MICROS:.6f} dollars less than the run's commits: they count as spent, so that no budget "
        f"is overrun; summhay status {run.run_id} names the files",
    )


def lost_log(run: RunStore, index: LogIndex, without_packs: bool = False) -> list[str]:
    """A line for each file of the log that is missing, cut or damaged and that writers of this run wrote.

    `without_packs`: the index was made without packs, so that segments that are gone may have been packed and cleaned away.
    """
    files, told, lines = run.store.files, set(), []
    for writer, lacks in sorted(index.lacking(run.run_id).items()):
        # A local log is a file; in a bucket it is a folder of objects.
        is_remote = files.folder is None
        name = f"log/{writer}" if is_remote else f"log/{writer}.jsonl"
        is_there = any(files.names(name)) if is_remote else files.exists(name)
        if without_packs and is_remote and not is_there:
            continue
        told.add(writer)
        lines.append(
            f"{files.where(name)} is {'cut or damaged' if is_there else 'gone'}: {lacks.answers} answers and "
            f"{lacks.usd_micros / MICROS:.6f} dollars of this run are known by its commits alone, and count as spent; {_LEAVE}"
        )
    others = index.spent_of(run.run_id).keys() - told
    return [*lines, *unreadable_records(run.store, index, lambda name: writer_of(name) in others)]


def unreadable_records(store: Store, index: LogIndex, wanted: Callable[[str], bool] = lambda _: True) -> list[str]:
    """A line for each wanted file of the log that has damaged records."""
    return [
        f"{store.files.where(name)}: {'1 record' if n == 1 else f'{n} records'} cannot be read; {_LEAVE}"
        for name, n in sorted(index.damaged_files.items())
        if wanted(name)
    ]


def lost_inputs(run: RunStore, objects: Iterable[tuple[str, str]]) -> list[str]:
    """A line for each of these objects (kind, sha256) that is missing or damaged."""
    lines = []
    for kind, digest in sorted(set(objects)):
        try:
            run.store.get_object(kind, digest)
        except StoreError as error:
            lines.append(str(error))
    return lines
