"""The files of mined haystacks: which may be written, and which contain a person's work."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from summhay_ray.benchmarks.summhay.haystacks.export import released_text
from summhay_ray.errors import UserError
from summhay_ray.inputs import read_file
from summhay_ray.mine import CHECK, REVIEW, check_new_sheet


def check_files(out: Path | None, sheet: Path | None = None, replace: bool = False) -> None:
    """Check before any work that the haystack and the sheet can be written. Raises UserError.

    `replace`: allow a haystack file that holds a review or confirmed pairs to be replaced.
    """
    if sheet is not None:
        check_new_sheet(sheet)
        if (page := sheet.with_suffix(".html")).exists():
            raise UserError(f"{page} exists; the page of {sheet.name} would be written there: give another file")
    if out is None:
        return
    if out.suffix.lower() != ".json":
        raise UserError(f"{out}: a haystack is a .json file; give such a name")
    if not out.absolute().parent.is_dir():
        raise UserError(f"{out.parent} is not a folder; make it first")
    if not out.exists():
        return
    made = read_mined(out)["topic_metadata"]["mine"]
    work = "a person's review" if made.get(REVIEW) else "pairs that a person checked" if made.get(CHECK) else ""
    if work and not replace:
        raise UserError(f"{out} holds {work}; give another file, or --replace, which keeps what still applies")


def read_mined(path: Path) -> dict[str, Any]:
    """Read the mined haystack in a file. Raises UserError if the file is something else."""
    try:
        raw: dict[str, Any] = json.loads(read_file(path))
        held = raw["topic_metadata"]["mine"]["run"], raw["subtopics"], raw["documents"]
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}); give the file of a mined haystack") from error
    except (ValueError, KeyError, TypeError, RecursionError):
        held = None
    if held is None:
        raise UserError(f"{path} is not a mined haystack; give another file")
    return raw


def write_haystack(raw: Mapping[str, Any], path: Path) -> None:
    """Write the haystack completely, or leave the existing file unchanged."""
    part = path.with_name(f".{path.name}.part")
    part.write_text(released_text(raw), encoding="ascii")
    os.replace(part, path)
