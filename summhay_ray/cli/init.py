"""`summhay init`: writes a commented starter spec."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from summhay_ray.cli.shared_options import JsonOption
from summhay_ray.errors import UserError

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

WIDTH = 46
"""The column at which comments begin."""


def init(
    kind: Annotated[
        str, typer.Argument(help="The kind of benchmark, or module:Class of your own benchmark.", metavar="[KIND]")
    ] = "summhay",
    out: Annotated[str, typer.Option("--out", help="The file to write; default KIND.yaml. An existing file is kept.")] = "",
    as_json: JsonOption = False,
) -> None:
    """Write a commented starter spec.

    For summhay, synth and extract_evaluate it runs as it is, without a key. For any other kind it has every field; those that
    must be filled in come first.
    """
    from summhay_ray.cli.show import document, facts

    path = Path(out or f"{kind.partition(':')[2].lower() or kind}.yaml")
    text = starter(kind)
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise UserError(f"{path} exists; give another file: --out FILE") from None
    if as_json:
        document({"kind": kind, "file": str(path)})
    else:
        facts([("written", path), ("next", f"summhay plan {path}; summhay run {path}")])


def starter(kind: str) -> str:
    """The text of a kind's starter spec. Raises UnknownName, SpecError."""
    from importlib import resources

    from summhay_ray.engine import find, spec_class_of

    benchmark = find(kind)
    if benchmark.imported:
        raise UserError(f"kind {kind!r} is made by summhay {kind}: it has no spec; see summhay {kind} --help")
    written = resources.files("summhay_ray.cli").joinpath("starters", f"{kind}.yaml")
    if written.is_file():
        return written.read_text("utf-8")
    fields = {name: field for name, field in spec_class_of(benchmark).model_fields.items() if name not in ("kind", "name")}
    required = [name for name, field in fields.items() if field.is_required()]
    lines = [f"# {(benchmark.__doc__ or kind).strip().splitlines()[0]}", f"kind: {kind}", "name: mine"]
    lines += ["", "# To be filled in:"] if required else []
    lines += [_commented(f"{name}: {_blank(fields[name])}", fields[name]) for name in required]
    lines += ["", "# Optional, with their defaults:"]
    lines += [_commented(f"# {name}: {_default(field)}", field) for name, field in fields.items() if name not in required]
    return "\n".join(lines) + "\n"


def _commented(text: str, field: FieldInfo) -> str:
    return f"{text:<{WIDTH}}  # {field.description}" if field.description else text


def _blank(field: FieldInfo) -> str:
    from summhay_ray.engine import FILL_IN

    return f"[{FILL_IN}]" if "list" in str(field.annotation) else FILL_IN


def _default(field: FieldInfo) -> str:
    from pydantic import TypeAdapter

    value: Any = field.get_default(call_default_factory=True)
    plain = TypeAdapter(Any).dump_python(value, mode="json", exclude_defaults=True)
    # `exclude_defaults` would empty a list whose entries are all default.
    plain = TypeAdapter(Any).dump_python(value, mode="json") if plain == [{}] else plain
    return json.dumps(plain, ensure_ascii=False)
