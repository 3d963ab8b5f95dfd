"""Writes the generated pages of docs/reference/: commands, fields of specs, tables, JSON, Python, environment.

`python tools/reference.py docs/reference` writes them. They are committed, like `schemas/`, so that they can be read in the
repository without a build. A test fails if a page and the code differ.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import itertools
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import typer
import yaml
from typer.main import get_command

import summhay_ray
import summhay_ray.benchmark
from summhay_ray import schemas
from summhay_ray.benchmarks import KINDS
from summhay_ray.cli.app import JUDGE, MAKE, READ, RUN, SERVE, app
from summhay_ray.engine import all_tables, find
from summhay_ray.llm.provider_table import PROVIDERS

Row = Sequence[str]

JSON_FIELDS = Path(__file__).with_name("json_fields.yaml")

VARIABLES = {
    "SUMMHAY_STORE": "The store, if neither `--store` nor `store=` is given. Default: `./summhay-store`.",
    "SUMMHAY_MODELS": "A folder of local models: `NAME` of a spec is looked up there, too.",
    "SUMMHAY_MAX_FILE_MB": "The largest input file, in MB. Default: 256. It also bounds records of a store (a quarter of it).",
    "SUMMHAY_CONVERT_MB": "Memory that converting one PDF or office file may take, in MB. Default: 1024.",
    "SUMMHAY_CONVERT_SECONDS": "Seconds that converting one PDF or office file may take. Default: 300.",
}
"""The package's own variables. Keys of providers are in the provider table."""

OTHERS = {
    "VARIABLE_FILE": "For any variable of a key: the file that holds the key, such as `OPENAI_API_KEY_FILE`.",
    "https_proxy, HTTPS_PROXY, all_proxy, ALL_PROXY": "The proxy of `https://` requests. The first variable that is set counts.",
    "NO_PROXY, no_proxy": "Hosts that are reached without the proxy.",
    "AWS_PROFILE, AWS_ACCESS_KEY_ID, AWS_REGION, ...": "Login and region of an `s3://` store, as boto3 reads them.",
    "HF_ENDPOINT": "The model hub, for data that a spec takes from a hub.",
    "OMP_NUM_THREADS": "Threads of local models. `1` makes vectors equal to those of an actor with one CPU.",
    "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": "Seconds that Ray gives a node that ends. Default: 30.",
}
"""Variables of other programs that matter to a run."""


def main(folder: str) -> None:
    """Write all pages into the folder."""
    for name, text in pages().items():
        Path(folder, name).write_text(text, encoding="utf-8")


def pages() -> dict[str, str]:
    """Return file name -> its text."""
    return {
        "commands.md": commands_page(),
        "spec-fields.md": specs_page(),
        "tables.md": tables_page(),
        "json.md": json_page(),
        "python.md": python_page(),
        "benchmark-door.md": door_page(),
        "environment.md": environment_page(),
    }


def page(title: str, *parts: str) -> str:
    """Return a page with a line that names its source."""
    head = f"# {title}\n<!-- Written by tools/reference.py from the code: change the code, then run `make schemas`. -->"
    return "\n\n".join([head, *(part.strip("\n") for part in parts if part)]) + "\n"


def table(columns: Row, rows: Iterable[Row]) -> str:
    """Return a Markdown table, or an empty string without rows."""
    lines = ["| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in row) + " |" for row in rows]
    if not lines:
        return ""
    return "\n".join(["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns), *lines])


def code(text: str) -> str:
    """Return the text as code, which also works inside a table."""
    return f"`{text}`" if text else ""


def prose(text: str) -> str:
    """Return a docstring or help text as Markdown, with tags escaped."""
    return re.sub(r"<(?=[a-zA-Z/])", "&lt;", inspect.cleandoc(text))


# Commands


def commands() -> Iterator[tuple[str, str, Any]]:
    """Yield group, name and command."""
    found = get_command(app)
    for group in (RUN, READ, JUDGE, MAKE, SERVE):
        yield from ((group, name, one) for name, one in found.commands.items() if one.rich_help_panel == group)


def commands_page() -> str:
    """Return the page of every command, with its arguments and options."""
    parts = [
        "Each command explains itself with `--help`. With `--json`, stdout is one JSON document ([its fields](json.md)), and "
        "everything else goes to stderr. Errors are one line.",
        "## Exit codes\n" + table(("code", "meaning"), EXIT_CODES),
    ]
    group = ""
    for heading, name, command in commands():
        if heading != group:
            group = heading
            parts.append(f"## {group}")
        context = typer.Context(command, info_name=f"summhay {name}")
        rows = [record for parameter in command.params if (record := parameter.get_help_record(context)) is not None]
        arguments = [one for one in rows if not one[0].startswith("-")]
        options = [one for one in rows if one[0].startswith("-")]
        usage = " ".join(["summhay", name, *(one[0].partition(" <")[0] for one in arguments), "[OPTIONS]"])
        parts += [f"### summhay {name}", prose(command.help or ""), f"```text\n{usage}\n```"]
        parts.append(
            table(
                ("argument or option", "meaning"),
                [(code(left), " ".join(prose(right).split())) for left, right in [*arguments, *options]],
            )
        )
    return page("Commands", *parts)


EXIT_CODES = (
    ("0", "done, or stopped as `--limit` asks"),
    ("1", "failed"),
    ("2", "wrong usage, or a wrong spec"),
    ("3", "stopped at the budget; the same command with a larger budget continues"),
    ("4", "finished, with failures listed"),
    ("5", "waiting for batches"),
    ("6", "another driver took the run over and continues it; do not start this one again"),
    ("130", "Ctrl-C"),
    ("143", "SIGTERM"),
)


# Fields of specs


def specs_page() -> str:
    """Return the page of every field of the spec of every kind, and of the mappings in them."""
    documents = schemas.documents()
    specs = {kind: documents[name] for kind in sorted(KINDS) if (name := schemas.spec_file(kind)) in documents}
    common = set.intersection(*(set(spec["properties"]) for spec in specs.values()))
    one = next(iter(specs.values()))
    shared = {name: one["properties"][name] for name in one["properties"] if name in common}
    parts = [
        "A field without a default is required. An unknown field is refused, with the nearest name that exists. "
        "[The spec](spec.md) explains models, keys and prompts; `summhay init KIND` writes a commented spec.",
        "## Every kind\n" + fields({"properties": shared}, without=("kind",)),
    ]
    for kind, spec in sorted(specs.items(), key=lambda item: item[0] != "summhay"):
        about = "The default kind." if kind == "summhay" else ""
        parts += [f"## kind: {kind}", about, fields(spec, without=common)]
    parts.append("## Mappings\nValues of the fields above, by the name of their type.")
    entries = {name: entry for spec in specs.values() for name, entry in spec.get("$defs", {}).items()}
    for name, entry in sorted(entries.items()):
        parts += [f"### {name}", prose(entry.get("description", "")), fields(entry)]
    return page("Fields of a spec", *parts)


def fields(schema: Mapping[str, Any], without: Iterable[str] = ()) -> str:
    """Return a table of the schema's fields."""
    required = schema.get("required", ())
    rows = [
        (code(name), type_of(field), default_of(name, field, required), prose(field.get("description", "")))
        for name, field in schema.get("properties", {}).items()
        if name not in without
    ]
    return table(("field", "type", "default", "meaning"), rows)


def type_of(schema: Mapping[str, Any]) -> str:
    """Return the type of a JSON schema in words. A mapping links to its table."""
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[1]
        return f"[{name}](#{name.lower()})"
    if "const" in schema:
        return code(str(schema["const"]))
    if "enum" in schema:
        return ", ".join(code(str(value)) for value in schema["enum"])
    for several in ("anyOf", "oneOf", "allOf"):
        if several in schema:
            found = [type_of(one) for one in schema[several]]
            return " or ".join(dict.fromkeys(one for one in found if one != "null"))
    if schema.get("type") == "array":
        return f"list of {type_of(schema.get('items', {}))}"
    if schema.get("type") == "object":
        values = schema.get("additionalProperties")
        return f"mapping to {type_of(values)}" if isinstance(values, Mapping) and values else "mapping"
    return {"integer": "whole number", "string": "text", "boolean": "true or false"}.get(
        schema.get("type", ""), schema.get("type", "any")
    )


def default_of(name: str, schema: Mapping[str, Any], required: Iterable[str]) -> str:
    """Return the default in YAML. A required field has none."""
    if name in required:
        return "required"
    value = schema.get("default")
    if value is None or value == "" or value == {} or value == []:
        return ""
    value = [short_entry(one) for one in value] if isinstance(value, list) else short_entry(value)
    if value == {}:
        return ""
    return code(str(value).lower() if isinstance(value, bool) else str(value))


def short_entry(value: Any) -> Any:
    """Return the default of a model or a criterion as its name, and a mapping without its empty values. Any other value stays."""
    if not isinstance(value, Mapping):
        return value
    named = value.get("model") or value.get("name")
    return named or {name: short_entry(one) for name, one in value.items() if one not in (None, "", [], {})}


# Tables


def tables_page() -> str:
    """Return the page of every table, with its key and columns."""
    found = {name: content for name, content in schemas.documents().items() if "columns" in content}
    kinds: dict[str, list[str]] = {}
    for kind in sorted(KINDS):
        for one in all_tables(find(kind)):
            kinds.setdefault(schemas.file_of(one), []).append(kind)
    parts = [
        "A run's tables are Parquet files in its store, `runs/RUN/tables/NAME/*.parquet` ([stores](../how-to/stores.md)). "
        "`summhay_ray.table(run, NAME)` reads one as a polars frame. `schemas/NAME.json` has the same as JSON."
    ]
    for name, content in sorted(found.items()):
        rows = [
            (code(one["name"]), one["type"] + (" or null" if one["nullable"] else ""), prose(one["meaning"]))
            for one in content["columns"]
        ]
        title = content["table"] if name == f"{content['table']}.json" else f"{content['table']} ({name.removesuffix('.json')})"
        keys = ", ".join(code(key) for key in content["primary_key"])
        parts += [f"## {title}", f"{prose(content['row'])}\n\nIn runs of kind: {', '.join(kinds[name])}. Key: {keys}."]
        parts.append(table(("column", "type", "meaning"), rows))
    return page("Tables", *parts)


# JSON documents


def json_page() -> str:
    """Return the page of every field of the JSON documents that commands print."""
    described = json_fields()
    parts = [
        "What each command prints with `--json`. A dot leads into a mapping, `[]` into the rows of a list. A word in capitals "
        "stands for any name. A figure or an interval that does not exist is null, never 0."
    ]
    for part in described["parts"].values():
        parts += [f"## {part['title']}", part["about"], _json_table(part)]
    titles = {name: part["title"] for name, part in described["parts"].items()}
    for _, name, _ in commands():
        one = described["commands"][name]
        shared = [f"[{titles[part]}](#{titles[part].lower().replace(' ', '-')})" for part in one.get("parts", ())]
        parts += [
            f"## summhay {name}",
            " ".join(filter(None, [f"With the fields of: {', '.join(shared)}." if shared else "", one.get("about")])),
        ]
        parts.append(_json_table(one))
    return page("JSON documents", *parts)


def json_fields() -> Any:
    """Return `JSON_FIELDS`. A part with `every` gets all documented attributes of its class."""
    described = yaml.safe_load(JSON_FIELDS.read_text(encoding="utf-8"))
    for part in described["parts"].values():
        if part.get("every"):
            known = {path.partition(".")[0] for path in part["fields"]}
            part["fields"] |= {name: None for name in attributes(part["class"]) if name not in known}
    return described


def _json_table(described: Mapping[str, Any]) -> str:
    """Return the table of some fields. A field without a meaning gets the meaning of the class's attribute, in the words of
    JSON."""
    meanings = attributes(described["class"]) if "class" in described else {}
    meanings = {name: re.sub(r"\bNone\b", "null", meaning) for name, meaning in meanings.items()}
    found = [(path, meaning or meanings[re.findall(r"\w+", path)[-1]]) for path, meaning in described["fields"].items()]
    return table(("field", "meaning"), [(code(path), prose(meaning)) for path, meaning in found])


def attributes(name: str) -> dict[str, str]:
    """Return attribute of the class -> the docstring below it. `name`: MODULE:CLASS."""
    module, _, wanted = name.partition(":")
    tree = ast.parse(textwrap.dedent(inspect.getsource(getattr(importlib.import_module(module), wanted))))
    [body] = [node.body for node in tree.body if isinstance(node, ast.ClassDef)]
    return {
        field.target.id: text.value.value
        for field, text in itertools.pairwise(body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant) and isinstance(text.value.value, str)
    }


def undescribed(command: str, document: Any) -> list[str]:
    """Return the paths of a command's document that its page does not describe."""
    described = json_fields()
    one = described["commands"][command]
    known = [path for part in one.get("parts", ()) for path in described["parts"][part]["fields"]]
    # A separate section describes the rows of systems.
    system = described["parts"]["system"]["fields"] if "judged" in one.get("parts", ()) else ()
    known += [f"{rows}.{path}" for rows in ("systems[]", "by_query[]", "haystacks.NAME[]") for path in system]
    known += one["fields"]
    # A model's name may have dots.
    shapes = [
        re.compile(
            re.sub(r"[A-Z]+(?=\b|_)", lambda word: ".+" if word[0] == "MODEL" else r"[^.\[\]]+", re.escape(path)) + r"(\[\])*"
        )
        for path in known
    ]
    return [path for path in dict.fromkeys(paths_of(document)) if not any(shape.fullmatch(path) for shape in shapes)]


def paths_of(document: Any, path: str = "") -> Iterator[str]:
    """Yield the paths of all values of a JSON document. Empty lists and mappings have no path."""
    if isinstance(document, Mapping):
        for name, value in document.items():
            yield from paths_of(value, f"{path}.{name}" if path else str(name))
    elif isinstance(document, list):
        for value in document:
            yield from paths_of(value, f"{path}[]")
    else:
        yield path


# Python


def python_page() -> str:
    """Return the page of the functions of `summhay_ray`, a list for readers of the repository. The site shows signatures and
    docstrings."""
    rows = [(code(name), prose(first_sentence(getattr(summhay_ray, name)))) for name in summhay_ray.__all__]
    return page(
        "Python",
        "`import summhay_ray` loads nothing else; a function is loaded when it is first used. Results are typed, their tables "
        "are polars frames. Every function raises `UserError`, with one line that says what is wrong, where, and how to fix it.",
        table(("function", "what it does"), rows),
        documented("summhay_ray.api", summhay_ray.__all__),
    )


def door_page() -> str:
    """Return the page of the names of `summhay_ray.benchmark`."""
    door = summhay_ray.benchmark
    aliases = type_aliases("summhay_ray.engine.items") | type_aliases("summhay_ray.engine.spec.spec")
    rows = [(code(name), prose(first_sentence(getattr(door, name), aliases.get(name)))) for name in sorted(door.__all__)]
    return page(
        "Python for benchmarks",
        "What a benchmark imports from `summhay_ray.benchmark`. [Add a benchmark](../tutorials/add-a-benchmark.md) uses it.",
        table(("name", "what it is"), rows),
        documented("summhay_ray.benchmark", sorted(door.__all__)),
    )


def documented(module: str, names: Iterable[str]) -> str:
    """Return the block that the site's mkdocstrings replaces by signatures and docstrings."""
    return "\n".join([f"::: {module}", "    options:", "      members:", *(f"        - {name}" for name in names)])


def type_aliases(module: str) -> dict[str, str]:
    """Return name -> the docstring below its assignment, for a module, since a type alias has no docstring of its own."""
    tree = ast.parse(inspect.getsource(importlib.import_module(module)))
    return {
        target.id: text.value.value
        for assigned, text in itertools.pairwise(tree.body)
        for target in (assigned.targets if isinstance(assigned, ast.Assign) else ())
        if isinstance(target, ast.Name) and isinstance(text, ast.Expr)
        if isinstance(text.value, ast.Constant) and isinstance(text.value.value, str)
    }


def first_sentence(thing: object, docstring: str | None = None) -> str:
    """Return the first sentence of the docstring, by default the object's own; empty if there is none."""
    found = docstring or (inspect.getdoc(thing) if callable(thing) else None)
    first = " ".join((found or "").split("\n\n")[0].split())
    return re.split(r"(?<=[.?!])\s", first, maxsplit=1)[0]


# Environment


def environment_page() -> str:
    """Return the page of every environment variable that the package reads, and of the keys of all providers."""
    keys = [
        (code(name), ", ".join(map(code, provider.variables)) or ("a cloud login" if provider.login else "none"))
        for name, provider in sorted(PROVIDERS.items())
    ]
    return page(
        "Environment variables",
        table(("variable", "meaning"), [(code(name), meaning) for name, meaning in VARIABLES.items()]),
        "## Of other programs\n"
        + table(("variable", "meaning"), [(", ".join(map(code, name.split(", "))), meaning) for name, meaning in OTHERS.items()]),
        "## Keys of providers\nThe first variable that is set has the key, unless `api_key_env` in the spec names another one "
        "([keys](spec.md#keys)).\n\n" + table(("provider", "variables"), keys),
    )


if __name__ == "__main__":
    main(sys.argv[1])
