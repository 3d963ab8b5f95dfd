"""Results as a notebook shows them. Part of the engine room."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import Any


def html_of(pairs: Sequence[tuple[str, object]], frames: Iterable[Any] = ()) -> str:
    """An HTML table of names and values, followed by polars frames. All texts are escaped."""
    rows = "".join(f"<tr><th>{_text(name)}</th><td>{_text(value)}</td></tr>" for name, value in pairs)
    return f"<table>{rows}</table>" + "".join(frame._repr_html_() for frame in frames)


def _text(value: object) -> str:
    return html.escape(str(value))
