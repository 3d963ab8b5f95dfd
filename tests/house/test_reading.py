"""Only `inputs` reads the user's files, and only files in the places that the user named (DESIGN, law 10)."""

from __future__ import annotations

import ast
import re

import pytest
from sources import PACKAGE, nodes_of, text_of

pytestmark = pytest.mark.core

OTHER_FILES = ("encoders", "inputs.py", "llm", "simulator", "store")
"""Packages that read other files: model folders, price lists and keys, a store."""
NOT_DATA = {"engine/package.py", "mine/converting.py", "report/serve.py"}
"""Other reads: the files of a job, which were already read as data; the process's own memory; a report that was just written."""

PACKAGED = re.compile(r"^ *from importlib(\.resources import files| import resources)$", re.MULTILINE)
"""The import by which a file finds the package's data."""


def reads(call: ast.Call, packaged: bool) -> bool:
    """True if a call reads a file. `packaged`: the module may read the package's own texts."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else call.func.id if isinstance(call.func, ast.Name) else ""
    modes = [one.value for one in call.args if isinstance(one, ast.Constant) and isinstance(one.value, str)]
    opens = name == "open" and (isinstance(call.func, ast.Name) or modes[:1] in (["r"], ["rb"]))
    return opens or (name in ("read_text", "read_bytes") and not packaged)


def test_no_room_reads_a_file_of_the_users_by_itself() -> None:
    found = set()
    for file in PACKAGE.rglob("*.py"):
        place, packaged = file.relative_to(PACKAGE), PACKAGED.search(text_of(file)) is not None
        if place.parts[0] not in OTHER_FILES and any(reads(one, packaged) for one in nodes_of(file)[1]):
            found.add(place.as_posix())
    assert found == NOT_DATA
