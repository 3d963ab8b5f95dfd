"""The generated reference agrees with the code, and no page names a missing command, option, file or name."""

from __future__ import annotations

import ast
import functools
import importlib.util
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import reference
from test_docs_commands import PAGES, ROOT, blocks_of, in_examples, said_by, summhay

OWN = [*ROOT.glob("*.md"), ROOT / "llms.txt", *(ROOT / "summhay_ray").rglob("*.md"), ROOT / "cluster/README.md"]
TEXTS = sorted({*PAGES, *OWN} - {ROOT / "CHANGELOG.md"})
"""Pages for people and programs. The change log is left out, because it also names deleted things."""
CODE = (
    "summhay_ray",
    "examples",
    "jobs",
    "cluster",
    "tools",
    "tests/perf",
    "schemas",
    "Makefile",
    "pyproject.toml",
    "mkdocs.yml",
)
ELSEWHERE = frozenset(["data_files", "group_subtasks", "json_object", "load_dataset"])
"""Names of other programs."""
COMPOSED = frozenset(["tokens_quality", "vital_strict", "weighted_strict"])
"""Names that the code composes of parts."""


@pytest.mark.core
@pytest.mark.parametrize("name", ["commands", "spec-fields", "tables", "json", "python", "benchmark-door", "environment"])
def test_a_page_of_the_reference_is_that_of_the_code(name: str) -> None:
    """If this fails, run `make schemas`."""
    assert (ROOT / "docs/reference" / f"{name}.md").read_text(encoding="utf-8") == _generated()[f"{name}.md"]


_generated = functools.cache(reference.pages)


@pytest.mark.core
def test_the_reference_has_every_variable_that_the_package_reads() -> None:
    read = {name for text in _sources("summhay_ray") for name in re.findall(r"\bSUMMHAY_[A-Z_]+\b", text)}
    assert set(reference.VARIABLES) == read - {"SUMMHAY_COMPLETE"}


def test_the_reference_has_every_field_of_the_json_that_commands_print(tmp_path: Path) -> None:
    """Commands that are slow (`retrieve`, `judge-bench`) or need a server (`simulate`, `submit`) are left out; the same parts
    describe their fields."""
    small = "--set haystacks='[sample/news]' --set retrievers='[bm25]'"
    undescribed: dict[str, list[str]] = {}

    def of(command: str) -> dict[str, object]:
        words = shlex.split(command)
        document = json.loads(said_by(summhay, [*words, "--json"]))
        if found := reference.undescribed(words[0], document):
            undescribed[command] = found
        return dict(document)

    with in_examples(tmp_path):
        run = of(f"run ../jobs/quickstart.yaml --executor inline {small}")["run"]
        of(f"rejudge {run} --judge 'per_insight(offline)' --executor inline")
        for command in (
            f"plan ../jobs/quickstart.yaml {small}",
            f"status {run}",
            f"score {run}",
            "runs",
            f"failures {run}",
            f"compare {run}",
            f"compare {run} --judges offline/judge 'per_insight(offline/judge)'",
            f"explain {run} news/news-damage/bm25_offline/lead",
            f"export {run} --tables tables",
            "clean --dry-run",
            "doctor",
            f"release {run}",
            f"label {run} --n 5 --out labels.csv",
            f"audit {run} --out audit.csv --insights 2 --documents 1",
            "init --out spec.yaml",
            "import ../jobs/council",
            f"recite {run}",
            f"support {run} --executor inline",
            "mine tickets --out mine.json --executor inline",
            "mine mine.json --check 4 --review pairs.csv",
            "mine tickets --show-text ticket-00.txt",
        ):
            of(command)
    assert undescribed == {}


@pytest.mark.core
@pytest.mark.parametrize("page", TEXTS, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_names_what_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    blocks = "\n".join(block.text for block in blocks_of(page))
    spans = re.findall(r"(?<!`)`([^`\n]+)`(?!`)", re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL))
    wrong = [f"no such name: {name}" for span in spans for name in _names_of(span) if name not in _known_names()]
    wrong += [f"no such member: {name}" for span in spans for name in _members_of(span)]
    wrong += [f"no such file: {name}" for span in spans for name in _files_of(span) if not _exists(name, page)]
    wrong += [f"not defined in {file}: {name}" for file, name in _undefined(text)]
    wrong += [f"no such module or attribute: {name}" for span in spans for name in _dotted(span) if not _resolves(name)]
    wrong += [problem for line in [*spans, *blocks.splitlines()] for problem in _wrong_command(line)]
    assert not wrong, "\n".join(wrong)


def _sources(folder: str) -> Iterator[str]:
    place = ROOT / folder
    for file in [place] if place.is_file() else sorted(place.rglob("*")):
        if file.suffix in {"", ".py", ".yaml", ".yml", ".json", ".toml", ".txt", ".j2", ".js", ".md"} and file.is_file():
            yield file.read_text(encoding="utf-8")


@functools.cache
def _known_names() -> frozenset[str]:
    """Every identifier in the code, and the names that belong to other programs."""
    return (
        frozenset(name for folder in CODE for text in _sources(folder) for name in re.findall(r"\w+", text))
        | ELSEWHERE
        | COMPOSED
    )


def _names_of(span: str) -> list[str]:
    """Identifiers of code in the text: with an underscore, or in camel case. Names all in capitals are placeholders."""
    found = re.findall(r"(?<![\w./-])(?:ray_summhay_)?([A-Za-z_]\w*+)(?![/-])", span)
    return [
        name for name in found if re.search(r"[a-z]_|_[a-z]|[a-z][A-Z][a-z]", name) and not re.search(r"[A-Z]{2}|My|my_", name)
    ]


def _members_of(span: str) -> list[str]:
    """`Class.member` in the text, if neither the package's class nor its bases have this member."""
    found = re.findall(r"(?<![\w./-])([A-Z]\w+)\.([a-z_]\w*)", span)
    return [f"{name}.{member}" for name, member in found if name in _members() and member not in _members()[name]]


@functools.cache
def _members() -> dict[str, frozenset[str]]:
    """Class of the package -> its methods and fields, with those of its bases in the package."""
    own: dict[str, set[str]] = {}
    bases: dict[str, set[str]] = {}
    for file in (ROOT / "summhay_ray").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                names = own.setdefault(node.name, set())
                names |= {one.attr for one in ast.walk(node) if isinstance(one, ast.Attribute)}
                names |= {one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
                names |= {one.name for one in node.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)}
                bases.setdefault(node.name, set()).update(one.id for one in node.bases if isinstance(one, ast.Name))

    def of(name: str) -> frozenset[str]:
        return frozenset(own.get(name, ())).union(*(of(base) for base in bases.get(name, set()) - {name}))

    return {name: of(name) for name in own}


def _files_of(span: str) -> list[str]:
    """Files and folders of the repository in the text: modules, and paths that begin with one of its folders."""
    tops = "summhay_ray|docs|examples|jobs|cluster|schemas|tools|tests"
    found = re.findall(rf"(?<![\w/.:])(?:(?:{tops})/)?[\w./-]*\.py\b|(?<![\w/.:])(?:{tops})/[\w./-]*", span)
    return [name for name in found if name != ".py" and not re.search(r"[A-Z]{3}|my_|\.\.\.", name)]


def _exists(name: str, page: Path) -> bool:
    if "/" not in name:
        return any(next((ROOT / folder).rglob(name), None) for folder in CODE if (ROOT / folder).is_dir())
    places = (ROOT, ROOT / "summhay_ray", ROOT / "examples", page.parent)
    return any((place / name.rstrip("/.")).exists() for place in places)


def _undefined(text: str) -> Iterator[tuple[str, str]]:
    """(file, name) for each name in brackets after a file, such as `errors.py` (`UserError`), that the file does not define."""
    for file, names in re.findall(r"`([\w/]+\.py)` \(`([\w.]+)`\)", text):
        place = ROOT / "summhay_ray" / file
        code = place.read_text(encoding="utf-8") if place.exists() else ""
        defined = re.findall(r"^ *(?:class|(?:async )?def) (\w+)", code, flags=re.MULTILINE)
        if not set(names.split(".")) <= set(defined):
            yield file, names


def _dotted(span: str) -> list[str]:
    return re.findall(r"\bsummhay_ray(?:\.[a-z_]\w*)+(?!\w*/)", span)


def _resolves(name: str) -> bool:
    *module, last = name.split(".")
    try:
        importlib.import_module(name)
    except ImportError:
        return hasattr(importlib.import_module(".".join(module)), last)
    return True


@functools.cache
def _options() -> dict[str, frozenset[str]]:
    """Command -> its options."""
    return {
        name: frozenset(option for one in command.params for option in (*one.opts, *one.secondary_opts)) | {"--help"}
        for _, name, command in reference.commands()
    }


def _wrong_command(line: str) -> list[str]:
    """Return the missing command or option in a line of code, if any."""
    wrong = []
    for words in re.findall(r"(?<![\w/.-])summhay ([a-z][a-z-]*(?: [^|;&#]*)?)", line):
        command, *rest = words.split()
        if command not in _options():
            wrong.append(f"no such command: summhay {command}")
            continue
        options = [word.partition("=")[0] for word in rest if re.fullmatch(r"--[a-z-]+(=.*)?", word)]
        wrong += [f"no such option: summhay {command} {option}" for option in options if option not in _options()[command]]
    if not wrong and (lone := re.match(r"--[a-z-]+", line)):
        every = frozenset().union(*_options().values(), _scripts_options())
        wrong += [f"no such option: {lone[0]}"] if lone[0] not in every else []
    return wrong


@functools.cache
def _scripts_options() -> frozenset[str]:
    """Options of scripts, and options of other programs that the repository calls."""
    texts = (text for folder in ("cluster", "jobs", "tools", "Makefile") for text in _sources(folder))
    return frozenset(re.findall(r"--[a-z][a-z-]+", "\n".join(texts)))


@pytest.mark.core
def test_the_models_of_the_examples_are_on_one_page_have_a_price_and_no_near_end() -> None:
    listed = set(re.findall(r"^\| `([^`]+)`", (ROOT / "docs/reference/models.md").read_text(encoding="utf-8"), re.MULTILINE))
    specs = [file for folder in ("examples", "jobs", "summhay_ray/cli/starters") for file in (ROOT / folder).glob("*.yaml")]
    kept = {ROOT / "jobs/paper_grid.yaml", ROOT / "jobs/replay.yaml"}
    texts = [file.read_text(encoding="utf-8") for file in [*TEXTS, *specs] if file not in kept]
    used = {
        name for text in texts for name in re.findall(r"\b(?:openai|gemini|anthropic|cohere)/(?!simulated)[a-z]+-[\w.-]*\w", text)
    }
    assert used - listed == set()
    for name in listed:
        known = _price_map()[name if name.startswith("gemini/") else name.partition("/")[2]]
        assert known.get("deprecation_date", "9999") > "2027-12-31", f"{name} ends on {known['deprecation_date']}"


def _price_map() -> dict[str, dict[str, str]]:
    """litellm's price map of the installed version. It is read as a file, because importing litellm takes seconds."""
    [folder] = importlib.util.find_spec("litellm").submodule_search_locations
    found: dict[str, dict[str, str]] = json.loads((Path(folder) / "model_prices_and_context_window_backup.json").read_text())
    return found
