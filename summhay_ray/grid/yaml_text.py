"""YAML as specs may be written: plain data, every key once. Part of the grid room, for `spec.py`."""

from __future__ import annotations

from typing import Any

import yaml

_MERGE = "tag:yaml.org,2002:merge"


class YamlError(ValueError):
    """The text is not YAML that a spec may be written in: the message is one line, from the place in the text on."""


class _Loader(yaml.SafeLoader):
    """PyYAML's reader keeps the last of two entries of one name without a word; this one refuses them."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key, _ in node.value:
            name = (key.tag, key.value) if isinstance(key, yaml.ScalarNode) else None
            if name in seen and key.tag != _MERGE:
                problem = f"{key.value!r} stands twice; leave one out"
                raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
            seen.add(name)
        return super().construct_mapping(node, deep)


def load(text: str) -> Any:
    """The data in `text`. Raises YamlError."""
    try:
        return yaml.load(text, _Loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" line {mark.line + 1}, column {mark.column + 1}:" if mark else ""
        raise YamlError(f"{where} not YAML: {_problem(error)}") from error
    except RecursionError:
        raise YamlError(" not YAML that can be read: it nests too deep") from None
    except ValueError as error:
        # An integer of thousands of digits, a date such as 2020-13-45.
        raise YamlError(f" not YAML: {error}") from error


def _problem(error: yaml.YAMLError) -> str:
    if isinstance(error, yaml.reader.ReaderError):
        letter = chr(error.character) if isinstance(error.character, int) else error.character
        return f"character {ascii(letter)} is not allowed"
    return str(getattr(error, "problem", None) or "cannot be parsed")
