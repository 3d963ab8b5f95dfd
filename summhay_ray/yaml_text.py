"""A strict YAML reader for specs and domains. It accepts plain data of limited size without duplicate keys. Imports no other
module of this package."""

from typing import Any

import yaml

MAX_MB = 4
"""Maximum size of a YAML file."""

MAX_VALUES = 50_000
"""Maximum number of values after aliases are expanded, since nine lines of aliases can expand to a billion values."""

MAX_DEPTH = 100

_MERGE = "tag:yaml.org,2002:merge"
_NUMBERS = {"tag:yaml.org,2002:int", "tag:yaml.org,2002:float"}
_LONGEST_NUMBER = 1000
"""Maximum length of a number in characters, since parsing a base-60 number takes quadratic time."""


class YamlError(ValueError):
    """Raised if a text is not valid YAML for a spec. The message is one line, and begins with the position."""


class _Loader(yaml.SafeLoader):
    """A loader that refuses duplicate keys and oversized input. PyYAML silently keeps the last of duplicate keys, and has no
    limits."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._extents: dict[int, tuple[int, int]] = {}
        """Node -> (the number of values to which it expands, its depth)."""
        self._within = (0, 0)
        """The same for the part of the current node that was read so far."""

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
        is_alias = self.check_event(yaml.AliasEvent)
        (beside, deepest), self._within = self._within, (0, 0)
        node = super().compose_node(parent, index)
        values, levels = self._within[0] + 1, self._within[1] + 1
        if is_alias:
            # If the target's extent is not known yet, the alias is inside its own target and would expand forever. With the
            # maximum as its extent, the input is refused.
            values, levels = self._extents.get(id(node), (MAX_VALUES, MAX_DEPTH))
        self._extents[id(node)] = values, levels
        self._within = beside + values, max(deepest, levels)
        if isinstance(node, yaml.ScalarNode) and node.tag in _NUMBERS and len(node.value) > _LONGEST_NUMBER:
            raise yaml.composer.ComposerError(None, None, f"a number of {len(node.value)} characters; make it shorter", mark)
        if self._within[0] > MAX_VALUES or self._within[1] > MAX_DEPTH:
            problem = f"more than {MAX_VALUES:,} values or {MAX_DEPTH} levels after expanding aliases; make it smaller"
            raise yaml.composer.ComposerError(None, None, problem, mark)
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key, _ in node.value:
            name = (key.tag, key.value) if isinstance(key, yaml.ScalarNode) else None
            if name in seen and key.tag != _MERGE:
                problem = f"duplicate key {key.value!r}; remove one"
                raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
            seen.add(name)
        return super().construct_mapping(node, deep)


def load(text: str) -> Any:
    """Return the data in `text`. Raises YamlError."""
    try:
        return yaml.load(text, _Loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" line {mark.line + 1}, column {mark.column + 1}:" if mark else ""
        problem = str(getattr(error, "problem", None) or "cannot be parsed")
        if isinstance(error, yaml.reader.ReaderError):
            letter = chr(error.character) if isinstance(error.character, int) else error.character
            problem = f"character {ascii(letter)} is not allowed"
        raise YamlError(f"{where} not YAML: {problem}") from error
    except RecursionError:
        raise YamlError(" not YAML: nested too deeply") from None
    except (ValueError, OverflowError) as error:
        # For example, an integer with thousands of digits, or a date such as 2020-13-45.
        raise YamlError(f" not YAML: {error}") from error
    except (LookupError, AttributeError, TypeError) as error:
        raise YamlError(" not YAML: a value does not fit its tag, such as !!bool x; remove the tag") from error
