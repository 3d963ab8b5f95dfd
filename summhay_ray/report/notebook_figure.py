"""A matplotlib figure that a notebook displays without pyplot. Imported where a figure is drawn."""

from __future__ import annotations

import io

from matplotlib.figure import Figure


class ShownFigure(Figure):
    """A figure with a picture for notebooks."""

    def _repr_png_(self) -> bytes:
        stream = io.BytesIO()
        self.savefig(stream, format="png", dpi=200, facecolor="white")
        return stream.getvalue()
