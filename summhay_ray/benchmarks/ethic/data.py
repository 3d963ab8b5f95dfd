"""Load an ETHIC run's records from files, our sample, an `ethic_build` run, or the hub."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from importlib import resources
from typing import Any

from summhay_ray.benchmark import Inputs
from summhay_ray.benchmarks.ethic.records import Record, check_counts, read_records
from summhay_ray.benchmarks.ethic.spec import EthicSpec, HubSpec
from summhay_ray.errors import SpecError
from summhay_ray.inputs import read_file

SAMPLE = "sample/"
RUN = "run/"
RECORDS = "ethic_records"
"""The table of records in an `ethic_build` run."""
FIELDS = ("ID", "Domain", "Context", "System_msg", "User_msg", "Answer", "task", "Document", "Meta")


def load_records(spec: EthicSpec, inputs: Inputs) -> list[Record]:
    """The records that the spec selects, sorted by domain and document. Raises SpecError."""
    records: list[Record] = []
    for entry in spec.data:
        for name in _names(entry):
            records += read_records(_content(entry, name, inputs), name)
    if spec.released_counts and (differ := check_counts(records)):
        raise SpecError(f"spec: data: {'; '.join(differ)}; give all files of a task, or released_counts: false")
    wanted = [
        record
        for record in records
        if (record.task in spec.tasks or not spec.tasks) and (record.domain in spec.domains or not spec.domains)
    ]
    if not wanted:
        there = ", ".join(sorted({f"{record.task}/{record.domain}" for record in records}))
        raise SpecError(f"spec: tasks, domains: no record has these; the data has {there}")
    keys = [(record.task, record.domain, record.id) for record in wanted]
    if len(set(keys)) < len(keys):
        twice = next(key for key in keys if keys.count(key) > 1)
        raise SpecError(f"spec: data: ID {twice[2]!r} of {twice[0]}, {twice[1]} is in two files; list only one of them")
    return sorted(wanted, key=lambda record: (record.domain, record.document))


def _names(entry: str | HubSpec) -> Sequence[str]:
    if isinstance(entry, HubSpec):
        return [f"{entry.hub}@{entry.revision}/{task.lower()}.zip" for task in entry.tasks]
    return [entry]


def _content(entry: str | HubSpec, name: str, inputs: Inputs) -> bytes:
    if not inputs.settled and name not in inputs.digests():
        if isinstance(entry, HubSpec):
            inputs.give(name, _of_hub(entry, name.rpartition("/")[2]))
        elif entry.startswith(SAMPLE):
            inputs.give(name, _sample(entry.removeprefix(SAMPLE)))
        elif entry.startswith(RUN):
            inputs.give(name, _of_run(entry.removeprefix(RUN), inputs))
    return inputs.read(name)


def _sample(name: str) -> bytes:
    folder = resources.files("summhay_ray.benchmarks.ethic").joinpath("sample")
    known = sorted(file.name.removesuffix(".jsonl") for file in folder.iterdir() if file.name.endswith(".jsonl"))
    if name not in known:
        raise SpecError(f"spec: data: no sample is named {name!r}; there is {', '.join(f'{SAMPLE}{sample}' for sample in known)}")
    return folder.joinpath(f"{name}.jsonl").read_bytes()


def _of_run(run_id: str, inputs: Inputs) -> bytes:
    if inputs.store is None:
        raise SpecError(f"spec: data: {RUN}{run_id} lies in a store; give the store")
    run = inputs.store.run(run_id)
    if RECORDS not in run.declared:
        raise SpecError(f"spec: data: {run_id} is of kind {run.record.get('kind')}; give a run of kind ethic_build")
    return jsonl(run.table(RECORDS).to_dicts())


def _of_hub(entry: HubSpec, file: str) -> bytes:
    try:
        from huggingface_hub import hf_hub_download
        from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError
    except ImportError:
        raise SpecError("spec: data: a hub's records need the package huggingface_hub; pip install huggingface_hub") from None
    try:
        # huggingface_hub reads the variable at import, possibly before it was set.
        endpoint = os.environ.get("HF_ENDPOINT") or None
        path = hf_hub_download(entry.hub, file, repo_type="dataset", revision=entry.revision, endpoint=endpoint)
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError, ValueError) as error:
        why = " ".join(str(error).split())[:150]
        raise SpecError(
            f"spec: data: {entry.hub}/{file} at {entry.revision} cannot be fetched ({why}); fetch it and give the file"
        ) from error
    return read_file(path)


def jsonl(rows: Iterable[dict[str, Any]]) -> bytes:
    """Rows of the table `ethic_records` as JSON lines in the release's format."""
    lines = []
    for row in rows:
        answer: Any = row["answer"][0] if row["task"] == "Organizing" else list(row["answer"])
        values = (row["record"], row["domain"], row["context"], row["system"], row["user"], answer, row["task"], row["document"])
        lines.append(json.dumps(dict(zip(FIELDS, (*values, json.loads(row["meta"])), strict=True)), ensure_ascii=False) + "\n")
    return "".join(lines).encode("utf-8")
