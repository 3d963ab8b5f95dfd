"""Checks whether this machine can run a spec: its store, Ray, tokenizer, prices and keys. Each check gives one line."""

import importlib.metadata
import importlib.util
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from summhay_ray.engine.contract import Workload
from summhay_ray.engine.read.status import status
from summhay_ray.errors import UserError
from summhay_ray.llm import PROVIDERS, find_key, is_local, needed_variables
from summhay_ray.store import DamagedRecord, Store, StoreError, damaged_records, lost_sessions, vector_flaws
from summhay_ray.text import count_tokens

SHOWN = 5
"""Maximum number of damaged records per file whose positions a line lists."""


@dataclass(frozen=True, slots=True)
class Check:
    """One line of `summhay doctor`: the check's name, whether the check passed, and what it found or how to fix it."""

    name: str
    ok: bool
    message: str
    needed: bool = True
    """Whether a failed check is an error; False if the checked thing may never be needed."""


def examine(store_uri: str, workload: Workload[Any] | None = None) -> list[Check]:
    """Return all checks; with a workload, also those of its models' keys and prices."""
    found = importlib.util.find_spec("ray") is not None
    version = importlib.metadata.version("ray") if found else ""
    ray = f"ray {version}, {os.cpu_count()} CPUs here" if found else "not installed; pip install 'ray[data]'"
    try:
        tokens = Check("tokens", True, f"cl100k works offline: {count_tokens('Hello, world!')} tokens in 'Hello, world!'")
    except (OSError, LookupError, ValueError) as error:
        tokens = Check("tokens", False, f"cl100k cannot be loaded: {error}")
    checks = [_store(store_uri), Check("ray", found, ray), tokens]
    if workload is None:
        # Add a line for each provider whose key is in the environment or whose models need no prefix.
        keys: dict[str, Check] = {}
        for provider, known in PROVIDERS.items():
            variables = needed_variables(provider)
            name = next((one for one in variables if os.environ.get(one)), "")
            if name or known.bare:
                message = f"{name} is set" if name else f"{variables[0]} is not set; only models of {provider} need it"
                keys.setdefault(name or variables[0], Check(f"key {provider}", bool(name), message, needed=False))
        return [*checks, *keys.values()]
    for model, settings in sorted(workload.models.settings().items()):
        price = settings.price
        rates = f"{price.input_per_mtok:g} / {price.output_per_mtok:g} dollars a million tokens in / out"
        checks.append(Check(f"price {model}", True, "local, free" if settings.local else rates))
        if not is_local(model):
            checks.append(Check(f"key {model}", *find_key(settings)))
    return checks


def examine_runs(store: Store) -> list[Check]:
    """Read the whole store. Returns a line for each run, and a line with the remedy for each missing or damaged file."""
    if store.files.folder is not None:
        try:
            for _ in store.files.entries("", deep=True):
                pass
        except StoreError as error:
            # A local store contains a link, a pipe or a device. Other checks are useless until it is removed.
            return [Check("files", False, f"{error}; then run doctor again")]
    checks = [*_of_records(store)]
    for run_id in store.run_ids():
        try:
            run = store.run(run_id)
            flaws = list(run.flaws())
            result = None if flaws else status(run)
        except UserError as error:
            checks.append(Check(f"run {run_id}", False, error.flaw if isinstance(error, DamagedRecord) else str(error)))
            continue
        problems = flaws or list(result.problems if result else ())
        if result is not None and not problems:
            rows = sum(table["rows"] for table in result.tables.values())
            checks.append(Check(f"run {run_id}", True, f"{len(result.tables)} tables, {rows} rows"))
        checks += [Check(f"run {run_id}", False, problem) for problem in problems]
    messages = " ".join(check.message for check in checks)
    return [*checks, *(check for check in _of_content(store) if check.message not in messages)]


def _of_records(store: Store) -> Iterator[Check]:
    """Yield a line for each lost or damaged record: the store's format, drivers, the answer log, and runs that have commits but
    no record.

    No other command finds a run without a record.
    """
    files, known = store.files, set(store.run_ids())
    if known and not files.exists("format.json"):
        yield Check("format", False, f"{files.where('format.json')} is gone; the next run writes it")
    for line in lost_sessions(files):
        yield Check("drivers", False, line)
    for name, places in sorted(damaged_records(files).items()):
        several = "s" if len(places) > 1 else ""
        shown = ", ".join(map(str, places[:SHOWN])) + (", ..." if len(places) > SHOWN else "")
        damage = f"{len(places)} record{several} damaged, at byte{several} {shown}"
        mend = "put it back from a copy, or leave it: a run that needs these answers asks for them again"
        yield Check("log", False, f"{files.where(name)}: {damage}; {mend}")
    for name in files.folders("runs"):
        if name not in known and any(files.names(f"runs/{name}/commits", ".json")):
            lost = files.where(f"runs/{name}/run.json")
            yield Check(f"run {name}", False, f"{lost} is gone; put it back from a copy, or run or import again")


def _of_content(store: Store) -> Iterator[Check]:
    """Yield a line for each damaged object, such as a source or a prompt, even if no run needs it. Also yields a line about the
    store's vectors, if it has any."""
    for kind in store.files.folders("objects"):
        for name in store.files.names(f"objects/{kind}"):
            try:
                store.get_object(kind, name.rpartition("/")[2])
            except StoreError as error:
                yield Check("objects", False, str(error))
    if files := vector_flaws(store.files):
        damaged = [name for name, rows in files.items() if rows < 0]
        message = f"{sum(rows for rows in files.values() if rows > 0)} in {len(files) - len(damaged)} files"
        if damaged:
            message += f"; damaged, and made again by the run that needs them: {', '.join(damaged)}"
        yield Check("vectors", not damaged, message)


def _store(uri: str) -> Check:
    try:
        store = Store(uri)
        folder = store.files.folder
        if folder is None:
            store.files.check()
        else:
            # Checking must not create the store's folder, so look at the folder above it.
            parent = next(path for path in (folder, *folder.parents) if path.exists())
            if not os.access(parent, os.W_OK):
                return Check("store", False, f"{parent} is not writable; give another --store")
        found = "nothing is there yet, the first run makes it" if store.is_new else f"{len(store.run_ids())} runs"
        return Check("store", True, f"{store.files.uri}: {found}")
    except StoreError as error:
        return Check("store", False, str(error))
