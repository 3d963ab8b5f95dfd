"""Files of data sets on the Hugging Face Hub, and the haystacks in them, addressed by the names that specs use.

The package huggingface_hub downloads a file once and caches it. Its environment variables apply: HF_ENDPOINT, HF_HOME,
HF_TOKEN, HF_HUB_OFFLINE. If the Hub cannot be reached, cached files are used.
"""

import functools
import importlib
import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from summhay_ray import encoders
from summhay_ray.errors import UserError
from summhay_ray.inputs import read_json
from summhay_ray.text import read_json_lines

HUB = "hub:"
"""Prefix of an entry in a spec's `haystacks` that names a data set: `hub:OWNER/NAME[@REVISION][/FILE]`."""
_ENTRY = re.compile(r"hub:([^/@\s]+/[^/@\s]+)(?:@([^/\s]+))?(?:/(.+))?")
_ROW = re.compile(r"(.+)/haystack-(\d+)")
_JSON, _LINES, _PARQUET = ".json", (".jsonl", ".ndjson"), ".parquet"
_PATTERNS = ["*.json", "*.jsonl", "*.ndjson", "*.parquet"]


def hub_path(repo: str, file: str, revision: str | None) -> Path:
    """Return the path of a data set's file in the cache; downloads the file if necessary. Raises UserError."""
    return _path_from_hub(f"{repo}/{file}", revision, "hf_hub_download", repo, file)


def hub_entries(entry: str) -> list[str]:
    """List the haystacks in a data set, or in one of its files, as entries with the exact revision. Raises UserError.

    A JSON file is a haystack if it has documents and subtopics. So is a row of a JSON lines or Parquet file that has both; its
    entry ends with /haystack-N.
    """
    match = _ENTRY.fullmatch(entry)
    if match is None:
        raise UserError(f"{entry!r} names no data set of the Hub; expected hub:OWNER/NAME, hub:OWNER/NAME@REVISION or .../FILE")
    repo, revision, file = match.groups()
    patterns = [file] if file else _PATTERNS
    folder = _path_from_hub(repo, revision, "snapshot_download", repo, allow_patterns=patterns)
    found = []
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and file in (None, name):
            pinned = f"{HUB}{repo}@{folder.name}/{name}"
            listed = enumerate(_rows(path), 1)
            rows = [number for number, row in listed if isinstance(row, dict) and {"documents", "subtopics"} <= row.keys()]
            found += [pinned] if rows and path.suffix == _JSON else [f"{pinned}/haystack-{number}" for number in rows]
    if not found:
        raise UserError(f"{entry}: holds no haystack: JSON, JSON lines or Parquet with documents and subtopics; name another")
    return found


def hub_content(entry: str) -> bytes:
    """Return the JSON text of a haystack, given its entry from `hub_entries`. Raises UserError."""
    match = _ENTRY.fullmatch(entry)
    if match is None or match[3] is None:
        raise UserError(f"{entry!r} names no haystack of the Hub; expected hub:OWNER/NAME@REVISION/FILE")
    repo, revision, name = match.groups()
    row = _ROW.fullmatch(name)
    path = hub_path(repo, row[1] if row else name, revision)
    return json.dumps(_rows(path)[int(row[2]) - 1]).encode("ascii") if row else read_json(path)


def _path_from_hub(what: str, revision: str | None, function: str, *names: str, **options: Any) -> Path:
    """Call a function of huggingface_hub and return the path that it gives. Raises UserError if the package is missing or the
    call fails."""
    try:
        hub = importlib.import_module("huggingface_hub")
        http_error = importlib.import_module("huggingface_hub.errors").HfHubHTTPError
    except ImportError:
        raise UserError(f"{what}: the Hub needs the package huggingface_hub; pip install 'summhay-ray[hub]'") from None
    # huggingface_hub reads the variable at import, which may be earlier than the moment it was set.
    endpoint = os.environ.get("HF_ENDPOINT", "")
    unreachable = encoders.why_unreachable(endpoint)
    options |= {"repo_type": "dataset", "revision": revision, "endpoint": endpoint or None, "local_files_only": bool(unreachable)}
    try:
        return Path(getattr(hub, function)(*names, **options))
    except (http_error, OSError, ValueError) as error:
        why, at = unreachable or " ".join(str(error).split())[:150], f" at {revision}" if revision else ""
        raise UserError(f"{what}{at} cannot be fetched ({why}); fetch it and give the file") from error


@functools.lru_cache(maxsize=1)
def _rows(path: Path) -> Sequence[Any]:
    """Return the rows of a file; a JSON file is one row. Null columns are dropped, since Parquet writes a missing field as
    null."""
    if path.suffix == _PARQUET:
        import polars as pl

        return [_without_nulls(row) for row in pl.read_parquet(path).iter_rows(named=True)]
    content = read_json(path)
    try:
        return [row for _, row in read_json_lines(content, path.name)] if path.suffix in _LINES else [json.loads(content)]
    except ValueError as error:
        raise UserError(f"{path}: is no JSON ({error}); name another file of the data set") from error


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(inner) for name, inner in value.items() if inner is not None}
    return [_without_nulls(inner) for inner in value] if isinstance(value, list) else value
