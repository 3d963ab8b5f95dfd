"""The commands and programs on the pages of docs/ run, and their quotations and links are right.

Blocks of ```sh and of ```python { .run } are run page by page: in an empty folder if the page says so, otherwise in a copy of
`examples/`. `make soak` also runs ```sh { .soak }, which takes long.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from summhay_ray.cli import main

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
SHOWN = ("examples/needle.py", "examples/needle.yaml", "examples/word_judge.py", "examples/word_retriever.py")
"""Files that a page quotes in its other blocks of the same language."""
PATIENCE_S = 240
RELEASED = ROOT.parent / "shared" / "data" / "summhay"


@dataclass(frozen=True)
class Block:
    """A fenced block and its text. `info`: `sh`, or `python run` for ```python { .run }."""

    info: str
    text: str


def blocks_of(page: Path) -> list[Block]:
    found = re.findall(r"^```([^\n]*)\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return [Block(re.sub(r" \{ \.(\w+) \}$", r" \1", info.strip()), text) for info, text in found]


def pages_with(*infos: str) -> list[Path]:
    return [page for page in PAGES if any(block.info in infos for block in blocks_of(page))]


def split_block(text: str) -> tuple[list[list[str]], str]:
    """Return the arguments of the leading commands that are `summhay` without shell syntax, and the rest of the block."""
    commands, lines = [], text.splitlines(keepends=True)
    for place, line in enumerate(lines):
        if bare := re.sub(r"(^|\s)#.*", "", line).strip():
            plain = re.sub(r"'[^']*'|\$SUMMHAY_STORE\b", "", bare)
            if not bare.startswith("summhay ") or re.search(r"[|&;<>$*`\\]", plain):
                return commands, "".join(lines[place:])
            commands.append(shlex.split(os.path.expandvars(bare))[1:])
    return commands, ""


def run_blocks(page: Path, infos: Sequence[str]) -> None:
    """Run the page's blocks in this folder, from top to bottom.

    A block `yaml title="FILE"` is saved first. A command without shell syntax runs in this process, because a process start costs
    a second.
    """
    runs: list[str] = []
    for block in blocks_of(page):
        if saved := re.search(r'title="([^"]+)"', block.info):
            Path(saved[1]).write_text(block.text, encoding="utf-8")
        if block.info not in infos:
            continue
        if block.info.startswith("python"):
            steps: list[Callable[[], str]] = [partial(program_prints, block.text, runs, page.name)]
        else:
            commands, rest = ([], block.text) if "cluster" in block.info else split_block(block.text)
            steps = [partial(summhay_prints, words, runs) for words in commands]
            steps += [partial(shell_prints, rest, runs, page.name)] if rest else []
        printed = ""
        for step in steps:
            printed += (now := step())
            runs.extend(re.findall(r"^run +(\w+)", now, re.MULTILINE))
        assert printed, f"{page.name}:\n{block.text}\nprints nothing"


def with_ids(text: str, runs: Sequence[str]) -> str:
    """Replace RUN by the last printed run, RUN_A by the first one, and RUN_B by the second distinct one."""
    names = dict(zip(("RUN_A", "RUN_B"), dict.fromkeys(runs), strict=False))
    names |= {"RUN": runs[-1]} if runs else {}
    return re.sub(r"\bRUN(?:_[AB])?\b", lambda match: names.get(match[0], match[0]), text)


def program_prints(text: str, runs: Sequence[str], name: str) -> str:
    return said_by(exec, compile(with_ids(text, runs), name, "exec"), {"__name__": "__main__"})


def summhay_prints(words: Sequence[str], runs: Sequence[str]) -> str:
    return said_by(summhay, [with_ids(word, runs) for word in words])


def shell_prints(text: str, runs: Sequence[str], name: str) -> str:
    command = ["bash", "-euo", "pipefail", "-c", with_ids(text, runs)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, f"{name}:\n{text}\nexits with {done.returncode}: {done.stderr[-2000:]}"
    return done.stdout


@contextlib.contextmanager
def in_examples(folder: Path) -> Iterator[None]:
    """A shell in a copy of `examples`, with `jobs` next to it and a separate store; all of them are in `folder`."""
    for name in ("examples", "jobs"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    with in_folder(folder / "examples", folder / "store"):
        yield


@contextlib.contextmanager
def where_the_reader_is(page: Path, folder: Path) -> Iterator[None]:
    """Return the folder that the page names, with the files that its first block copies there: examples, or the released data."""
    text = page.read_text(encoding="utf-8")
    if "an empty folder" not in text:
        with in_examples(folder):
            yield
        return
    for name in re.findall(r"cp -r examples/(\w+) ", text):
        shutil.copytree(ROOT / "examples" / name, folder / name)
    for name in re.findall(r"^cp \S+/data/(\w+\.json) \.$", text, re.MULTILINE):
        if not (RELEASED / name).exists():
            pytest.skip(f"there is no {name} of the released data here")
        shutil.copy(RELEASED / name, folder)
    with in_folder(folder, folder / "summhay-store"):
        yield


@contextlib.contextmanager
def in_folder(folder: Path, store: Path) -> Iterator[None]:
    """A shell in `folder`. Modules imported from there are unloaded afterwards."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("PATH", os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
        patch.setenv("SUMMHAY_STORE", str(store))
        patch.setattr(sys, "path", [str(folder), *sys.path])
        yield
        for name, module in list(sys.modules.items()):
            if str(getattr(module, "__file__", None) or "").startswith(str(folder)):
                del sys.modules[name]


def summhay(words: Sequence[str]) -> None:
    """Run a command in this process, and expect exit code 0."""
    with pytest.raises(SystemExit) as stop:
        main(words)
    assert stop.value.code == 0, f"summhay {shlex.join(words)}: exits with {stop.value.code}"


def said_by(work: Callable[..., None], *given: Any) -> str:
    """Return the output of a command."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        work(*given)
    return out.getvalue()


@pytest.mark.parametrize("page", pages_with("sh", "python run"), ids=lambda page: page.stem)
def test_the_commands_of_a_page_run(page: Path, tmp_path: Path) -> None:
    with where_the_reader_is(page, tmp_path):
        run_blocks(page, ("sh", "python run"))


@pytest.mark.soak
@pytest.mark.parametrize("page", pages_with("sh soak"), ids=lambda page: page.stem)
def test_all_commands_of_a_page_run(page: Path, tmp_path: Path) -> None:
    with where_the_reader_is(page, tmp_path):
        run_blocks(page, ("sh", "sh soak", "python run"))


@pytest.mark.core
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_quotes_its_files_exactly(page: Path) -> None:
    named = [name for name in SHOWN if name in page.read_text(encoding="utf-8")]
    for info, end in (("python", ".py"), ("yaml", ".yaml")):
        quoted = "".join((ROOT / name).read_text(encoding="utf-8") for name in named if name.endswith(end))
        if quoted:
            assert [block.text for block in blocks_of(page) if block.info == info and block.text not in quoted] == []


@pytest.mark.core
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_links_of_a_page_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text(encoding="utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.core
def test_an_example_is_read_in_one_sitting() -> None:
    lengths = {file.name: len(file.read_text(encoding="utf-8").splitlines()) for file in (ROOT / "examples").glob("*.py")}
    assert {name: length for name, length in lengths.items() if length > 150} == {}


@pytest.mark.core
def test_the_judge_listed_on_a_page_runs(tmp_path: Path) -> None:
    [listing] = [block.text for block in blocks_of(ROOT / "docs" / "how-to" / "judges.md") if block.info == "python"]
    (tmp_path / "listed_judge.py").write_text(listing, encoding="utf-8")
    fields = "haystacks='[sample/news]'", "retrievers='[oracle]'", "judges='[\"listed_judge:WordJudge\"]'", "executor=inline"
    changes = " ".join(f"--set {field}" for field in fields)
    with in_folder(tmp_path, tmp_path / "store"):
        summhay(shlex.split(f"run {ROOT / 'jobs' / 'quickstart.yaml'} {changes}"))
