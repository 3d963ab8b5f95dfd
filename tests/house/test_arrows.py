"""Imports between packages follow the allowed arrows, and use each package's door (its `__init__`)."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Mapping
from pathlib import Path

import pytest
from sources import PACKAGE, nodes_of, text_of, tree_of

from summhay_ray.benchmark import Benchmark
from summhay_ray.benchmarks import KINDS
from summhay_ray.engine import find

pytestmark = pytest.mark.core

IMPORTS: Mapping[str, set[str]] = {
    # Packages that every other package may import.
    "errors": set(),
    "routes": set(),
    "text": set(),
    "encoders": {"errors", "loops"},
    "outcome": set(),
    "plugins": {"errors"},
    "inputs": {"errors"},
    "sheets": {"errors", "inputs", "text"},
    "yaml_text": set(),
    "loops": set(),
    "logs": set(),
    # The content of a report as data: tables with a text and a chart, and samples.
    "sections": {"errors"},
    "run_options": {"errors"},
    # Storing and paying for answers: one side of the design. `text`: a table escapes text that looks like a formula. `inputs`: a
    # store's files are opened like a user's files.
    "store": {"errors", "inputs", "routes", "text"},
    "llm": {"loops", "outcome", "routes", "store", "text"},
    "engine": {
        *{"errors", "inputs", "llm", "logs", "loops", "outcome", "plugins", "routes", "run_options", "sections"},
        *{"store", "text", "yaml_text"},
    },
    # The papers' subjects: the other side. They import only types from `llm` (`TYPES`).
    "records": set(),
    # The design lets metrics import no records, but they score the judgments and citations of `records`. `text` is the only
    # package that imports NLTK, and ROUGE needs NLTK's stemmer.
    "metrics": {"records", "text"},
    "haystack": {"plugins", "errors", "records"},
    "extract": {"encoders", "plugins", "text"},
    "retrieve": {"encoders", "errors", "plugins", "records", "text"},
    "summarize": {"llm", "metrics", "outcome", "plugins", "records", "text"},
    "judge": {"inputs", "llm", "loops", "metrics", "outcome", "plugins", "errors", "records", "text"},
    "synth": {"haystack", "inputs", "llm", "loops", "outcome", "plugins", "errors", "records", "sheets", "text", "yaml_text"},
    # Mining reads words, numbers and quotations, and checks queries, like synthesis.
    "mine": {"errors", "inputs", "synth", "text"},
    # Support judges read citations like scores do.
    "citations": {"metrics", "text"},
    # The two sides meet here.
    "local_models": {"encoders", "judge", "llm", "plugins", "summarize"},
    # The design lets the simulator import only `llm`, but its answers come from the models that need no key. The settings are a
    # separate module, so that the command line knows the options without loading the simulator.
    "simulator_settings": {"errors", "inputs", "plugins"},
    "simulator": {"errors", "llm", "loops", "local_models", "simulator_settings", "synth", "text"},
    # These import from `engine` the contract of benchmarks. The benchmarks and the report compare and show results.
    "comparison": {"engine", "errors", "metrics", "sections"},
    "benchmark": {"engine", "errors", "llm", "local_models", "metrics", "records", "store"},
    "benchmarks": {
        *{"benchmark", "comparison", "encoders", "local_models"},
        *{
            "extract",
            "encoders",
            "haystack",
            "inputs",
            "judge",
            "loops",
            "metrics",
            "mine",
            "outcome",
            "plugins",
            "errors",
            "records",
            "retrieve",
            "sections",
            "sheets",
            "citations",
            "summarize",
            "synth",
        },
        "text",
    },
    "schemas": {"benchmarks", "engine", "store"},
    # `store`: a report is written into a folder or a bucket, like tables.
    "report": {"comparison", "engine", "errors", "metrics", "outcome", "sections", "store", "text"},
    # Export formats and trackers use the report of a run.
    "publish": {"benchmarks", "comparison", "engine", "errors", "inputs", "report", "store"},
    "api": {
        "publish",
        "benchmarks",
        "comparison",
        "encoders",
        "engine",
        "errors",
        "local_models",
        "outcome",
        "plugins",
        "report",
        "retrieve",
        "run_options",
        "store",
    },
    "cli": {
        "api",
        "benchmarks",
        "comparison",
        "engine",
        "judge",
        "llm",
        "logs",
        "loops",
        "outcome",
        "errors",
        "report",
        "run_options",
        "simulator",
        "simulator_settings",
    },
    "__init__": {"api"},
}
"""Package -> the packages that it may import, and no others. Add a new arrow here, with the reason."""

SUB_ROOMS: Mapping[str, tuple[str, ...]] = {
    "store": (
        *("names", "s3_errors", "s3", "files", "records", "answers", "places", "log", "batches", "money"),
        *("tables", "parts", "rows"),
        *("vectors", "commits", "drivers", "clean", "runs", "deletion"),
    ),
    "llm": (
        *("request", "provider_table", "prices", "model_settings", "keys"),
        *("ledger_messages", "budgets", "model_queue", "ledger", "ledger_service"),
        *("vectors_and_scores", "read_reply", "bodies", "direct", "via_litellm", "local_model"),
        *("prefix", "retry", "batches", "gateway"),
    ),
    "engine": (
        *("spec", "items", "ask", "contract", "stage_plan", "price_comparison"),
        *("state", "registry", "plan_sample", "plan", "run", "read", "ray", "start", "package", "submit"),
    ),
}
"""Package -> its folders and files. Each imports only those before it, even inside functions."""

PAPERS = {"records", "metrics", "haystack", "retrieve", "extract", "summarize", "judge", "synth", "citations"}
ENGINE = {"store", "llm", "engine"}
TYPES = {"Ask", "Limits", "LocalModel", "Message", "ModelSettings", "RawAnswer", "Request", "Sampling"}
"""The names that the papers' packages import from `llm`: the types of questions and answers, and nothing that sends, stores or
pays."""

HEAVY = {
    "ray": {"engine"},
    "litellm": {"llm"},
    "tiktoken": {"text"},
    "boto3": {"store"},
    "botocore": {"store"},
    "pyarrow": {"store"},
    "nltk": {"text"},
    "typer": {"cli"},
    "pytrec_eval": {"metrics"},
    "huggingface_hub": {"encoders"},
    # Vectors of texts, and texts that models write.
    "torch": {"encoders", "local_models"},
}
"""Library -> the packages that import it: one, unless a reason is given."""


def imports(file: Path) -> list[tuple[int, str, str]]:
    """(line, module, name) of every import from this package in a file, including imports inside functions; without a name: the
    module itself."""
    found = []
    for node in nodes_of(file)[0]:
        if isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            for alias in node.names:
                whole = module == "summhay_ray"
                found.append((node.lineno, f"{module}.{alias.name}" if whole else module, "" if whole else alias.name))
        else:
            found += [(node.lineno, alias.name, "") for alias in node.names]
    return [one for one in found if one[1].split(".")[0] in ("summhay_ray", "")]


def room_of(package: Path, file: Path) -> str:
    return file.relative_to(package).parts[0].removesuffix(".py")


def is_door(package: Path, parts: list[str]) -> bool:
    """True if a module is a public entry: a package itself or, among the benchmarks, each folder."""
    return len(parts) == 1 or (len(parts) == 2 and parts[0] == "benchmarks") or not (package / parts[0]).is_dir()


def flaws(package: Path, file: Path) -> list[str]:
    """The forbidden imports of a file."""
    here, found = room_of(package, file), []
    for line, module, name in imports(file):
        where, parts = f"{file.relative_to(package.parent)}:{line}", module.split(".")[1:]
        if module.startswith("."):
            found.append(f"{where}: a relative import; name the room")
        elif parts and parts[0] != here:
            there = parts[0]
            if there not in IMPORTS[here]:
                found.append(f"{where}: {here} imports {there}, which it may not know")
            if not is_door(package, parts):
                found.append(f"{where}: {module} is past the door; import from summhay_ray.{there}")
            if here in PAPERS and there == "llm" and name not in TYPES:
                found.append(f"{where}: {here} takes {name} of llm, which is no type of a question")
    return found


def sub_room_flaws(package: Path, room: str) -> list[str]:
    """The imports of a folder from later folders in `SUB_ROOMS`."""
    order, found = SUB_ROOMS[room], []
    for file in sorted((package / room).rglob("*.py")):
        here = file.relative_to(package / room).parts[0].removesuffix(".py")
        for line, module, name in imports(file) if here != "__init__" else ():
            # In `from summhay_ray.ROOM import FILE`, the file is the last name.
            path, above = f"{module}.{name}", f"summhay_ray.{room}."
            there = path.removeprefix(above).split(".")[0] if path.startswith(above) else here
            if order.index(there) > order.index(here):
                found.append(f"{file.relative_to(package.parent)}:{line}: {here} imports {there}, which comes after it")
    return found


def reach(room: str) -> set[str]:
    """All packages that a package imports, directly or indirectly."""
    known: set[str] = set()
    left = set(IMPORTS[room])
    while left:
        known |= (found := {left.pop()})
        left |= set().union(*(IMPORTS[one] for one in found)) - known
    return known


def strangers(package: Path, file: Path) -> list[str]:
    """Imports of a heavy library outside the packages that may import it."""
    here, found = room_of(package, file), []
    for node in nodes_of(file)[0]:
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
        found += [f"{here}: {name}" for name in names if here not in HEAVY.get(name.split(".")[0], {here})]
    return found


def test_imports_point_one_way_and_through_doors() -> None:
    assert [flaw for file in sorted(PACKAGE.rglob("*.py")) for flaw in flaws(PACKAGE, file)] == []


@pytest.mark.parametrize("room", SUB_ROOMS)
def test_sub_rooms_import_one_way(room: str) -> None:
    assert sub_room_flaws(PACKAGE, room) == []


def test_the_arrows_are_those_of_the_code() -> None:
    found: dict[str, set[str]] = {room: set() for room in IMPORTS}
    for file in PACKAGE.rglob("*.py"):
        here = room_of(PACKAGE, file)
        found[here] |= {room for _, module, _ in imports(file) for room in module.split(".")[1:2]} - {here}
    assert found == IMPORTS


def test_no_room_knows_itself_by_way_of_others() -> None:
    assert [room for room in IMPORTS if room in reach(room)] == []


def test_the_two_sides_of_the_house_do_not_know_each_other() -> None:
    """The engine finds benchmarks by kind, as text: its registry imports the classes that `KINDS` names, and nothing else."""
    above = {"local_models", "simulator", "benchmark", "benchmarks", "schemas", "report", "api", "cli"}
    for room in ENGINE:
        assert reach(room) & (PAPERS | above) == set(), room
    for room in PAPERS:
        assert IMPORTS[room] & ENGINE <= {"llm"}, room
        assert reach(room) & ({"engine"} | above) == set(), room
    calls = [file.name for file in (PACKAGE / "engine").rglob("*.py") if "import_module(" in text_of(file)]
    assert calls == ["registry.py"]


def test_each_heavy_library_is_known_to_its_rooms() -> None:
    assert [found for file in sorted(PACKAGE.rglob("*.py")) for found in strangers(PACKAGE, file)] == []


DOORS = sorted(entry.parent for entry in PACKAGE.rglob("__init__.py") if entry.parent != PACKAGE)


@pytest.mark.parametrize("door", [*DOORS, PACKAGE / "benchmark.py"], ids=lambda door: str(door.relative_to(PACKAGE)))
def test_doors_list_what_they_offer_in_order(door: Path) -> None:
    tree = tree_of(door if door.suffix else door / "__init__.py")
    lists = [
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__"
    ]
    taken = {alias.name for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    if door.parent in (PACKAGE, PACKAGE / "benchmarks") or lists:
        assert len(lists) == 1
    elif not taken:
        return
    constants = [name for name in lists[0] if name.isupper()]
    classes = [name for name in lists[0] if name[0].isupper() and not name.isupper()]
    functions = [name for name in lists[0] if name[0].islower()]
    assert lists[0] == sorted(constants) + sorted(classes) + sorted(functions)


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A small package to test the rules with."""
    for room in ("metrics", "llm", "engine", "judge", "benchmarks/mine"):
        (tmp_path / "summhay_ray" / room).mkdir(parents=True)
    return tmp_path / "summhay_ray"


@pytest.mark.parametrize(
    ("file", "line", "told"),
    [
        ("metrics/a.py", "from summhay_ray.llm import Request", ["metrics imports llm, which it may not know"]),
        ("metrics/a.py", "from . import b", ["a relative import; name the room"]),
        ("llm/a.py", "from summhay_ray.records import Insight", ["llm imports records, which it may not know"]),
        ("engine/a.py", "import summhay_ray.benchmarks.mine", ["engine imports benchmarks, which it may not know"]),
        ("engine/a.py", "from summhay_ray import judge", ["engine imports judge, which it may not know"]),
        ("engine/a.py", "from summhay_ray.llm.x import F", ["summhay_ray.llm.x is past the door; import from summhay_ray.llm"]),
        ("judge/a.py", "from summhay_ray.llm import Ask", []),
        (
            "judge/a.py",
            "from summhay_ray.llm import Ledger",
            ["judge takes Ledger of llm, which is no type of a question"],
        ),
        ("benchmarks/mine/a.py", "from summhay_ray.benchmark import run_workload", []),
        (
            "benchmarks/mine/a.py",
            "from summhay_ray.engine import Item",
            ["benchmarks imports engine, which it may not know"],
        ),
    ],
)
def test_a_wrong_arrow_is_seen(package: Path, file: str, line: str, told: list[str]) -> None:
    """Imports inside functions are checked, too."""
    (package / file).write_text(f"def f():\n    {line}\n", encoding="utf-8")
    assert [flaw.partition(": ")[2] for flaw in flaws(package, package / file)] == told


def test_a_heavy_library_in_a_foreign_room_is_seen(package: Path) -> None:
    sneaky = package / "engine" / "sneaky.py"
    sneaky.write_text("def f():\n    import litellm.utils\n    from ray import data\n", encoding="utf-8")
    assert strangers(package, sneaky) == ["engine: litellm.utils"]


MEMBERS = 8
"""Maximum number of public members of a benchmark in addition to the contract's."""


@pytest.mark.parametrize("kind", KINDS)
def test_a_benchmark_adds_few_members_to_the_contract(kind: str) -> None:
    """Counts the members of its classes, and the attributes that their methods set."""
    benchmark = find(kind)
    ours = [one for one in benchmark.__mro__ if one.__module__.startswith("summhay_ray.")]
    nodes = [node for one in ours for node in ast.walk(ast.parse(inspect.getsource(one)))]
    kept = {
        node.attr
        for node in nodes
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "self" and isinstance(node.ctx, ast.Store)
    }
    own = {*dir(benchmark), *kept} - set(dir(Benchmark))
    assert len([name for name in own if not name.startswith("_")]) <= MEMBERS


def test_the_readme_of_summhay_lists_every_file() -> None:
    room = PACKAGE / "benchmarks" / "summhay"
    told = (room / "README.md").read_text(encoding="utf-8")
    files = [file.relative_to(room).as_posix() for file in sorted(room.rglob("*.py")) if file.name != "__init__.py"]
    assert [file for file in files if f"`{file}`" not in told] == []
