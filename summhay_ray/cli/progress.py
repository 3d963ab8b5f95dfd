"""The live display of a run.

On a terminal, it is a table that is updated in place. Elsewhere, it prints a line at the start, every ten seconds, at the end,
and when the run begins to stop or a model is given up.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from summhay_ray.cli.shared_options import INTERRUPTED
from summhay_ray.engine import ModelProgress, Progress, Stopped
from summhay_ray.errors import UserError, printable
from summhay_ray.llm import LONGEST_PAUSE_S

PLAIN_EVERY_S = 10.0
TABLE_FROM = 100
"""Minimum terminal width, in columns, at which the models' figures are shown."""
SHORTEST_BAR, LONGEST_BAR = 6, 30
REPORTED_AFTER_S = 5.0
"""Seconds of only 429s from a model, after which the display shows them as its state. Occasional 429s are only counted."""
HEADS = ("", "calls", "a second", "requests/min", "input/min", "output/min", "in flight", "429s", "retries", "")


class Ended(UserError):
    """Ctrl-C interrupted the run. The message states what is kept and how to resume."""

    exit_code = INTERRUPTED


@dataclass(eq=False)
class ProgressDisplay:
    """A context that shows each `Progress` on stderr."""

    every_s: float = PLAIN_EVERY_S
    first: str = "starting"
    _live: Live | None = field(init=False, default=None)
    _next: float = field(init=False, default=0.0)
    _shown_turns: tuple[object, ...] = field(init=False, default=())
    _last: Progress | None = field(init=False, default=None)
    _noted: set[str] = field(init=False, default_factory=set)
    _has_ended: bool = field(init=False, default=False)

    def __enter__(self) -> ProgressDisplay:
        if sys.stderr.isatty():
            self._live = Live(Text(self.first), console=Console(stderr=True), refresh_per_second=4, transient=True)
            self._live.start(refresh=True)
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        self._has_ended = True
        if self._live:
            self._live.stop()
        elif self._last and not isinstance(error, KeyboardInterrupt | Stopped):
            # These errors contain newer figures.
            print(line(self._last, ended=True), file=sys.stderr, flush=True)
        if isinstance(error, KeyboardInterrupt) and str(error):
            # typer would handle Ctrl-C itself, without a message.
            raise Ended(str(error)) from error

    def __call__(self, progress: Progress) -> None:
        """Show the run's progress."""
        if self._live:
            self._live.update(view(progress, self._live.console.width))
        else:
            # Changes of these are shown immediately.
            turns = progress.stopping, *((model.model, model.stopped) for model in progress.models if model.stopped)
            if time.monotonic() >= self._next or turns != self._shown_turns:
                print(line(progress), file=sys.stderr, flush=True)
                self._next, self._shown_turns = time.monotonic() + self.every_s, turns
        self._last = progress

    def note(self, text: str) -> None:
        """Print a line above the display. After the end of the run it is ignored, since notes about the plan are then
        obsolete."""
        if self._has_ended:
            return
        self._noted.add(text)
        if self._live:
            self._live.console.print(Text(printable(text)))
        else:
            print(printable(text), file=sys.stderr, flush=True)

    def warn(self, warnings: Iterable[str]) -> None:
        """Print a result's warnings, unless they were printed when the run began."""
        for text in (f"warning: {warning}" for warning in warnings):
            if text not in self._noted:
                print(printable(text), file=sys.stderr, flush=True)


def view(progress: Progress, width: int = 80) -> Group:
    """Return the display for a terminal of `width` columns: one line for the run, then one for each paused or stopped model.

    On a wide terminal, a row of figures for each remote model replaces the lines for models, with the model's limits.
    """
    parts: list[Text | Table] = [Text(_bar_line(progress, width), no_wrap=True, overflow="ellipsis")]
    if width >= TABLE_FROM and progress.models:
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
        for head_text in HEADS:
            named = head_text in (HEADS[0], HEADS[-1])
            table.add_column(Text(head_text), justify="left" if named else "right", overflow="fold", no_wrap=not named)
        for model in progress.models:
            row = (
                printable(model.model),
                f"{model.calls}",
                f"{model.calls_a_second:.1f}",
                _of(model.requests, model.rpm),
                _of(model.input_tokens, model.input_tpm),
                _of(model.output_tokens, model.output_tpm),
                f"{model.in_flight}/{model.cap}",
                f"{model.limited}",
                f"{model.retries}",
                _state(model),
            )
            table.add_row(*map(Text, row))
        return Group(*parts, table)
    hindered = [(printable(model.model), state) for model in progress.models if (state := _state(model))]
    return Group(*parts, *(Text(f"{model}: {state}") for model, state in hindered))


def _bar_line(progress: Progress, width: int) -> str:
    """Return the line with bar, items, calls per second, dollars of the budget, failures and time left. The bar fills the
    remaining width."""
    # An item may take hundreds of calls. So progress counts calls if their total is known, and rows otherwise.
    if progress.calls_left is not None:
        done, total = progress.answered, progress.answered + progress.calls_left
    elif progress.rows_total:
        done, total = progress.rows, progress.rows_total
    else:
        done, total = progress.items_done, progress.items_total
    if progress.items_done == progress.items_total:
        done = total
    share = min(1.0, done / total) if total else 1.0
    text = f"{100 * share:.0f}%  {line(progress, brief=True)}"
    room = min(LONGEST_BAR, width - len(text) - 2)
    if room < SHORTEST_BAR:
        return text
    full = round(share * room)
    return f"{'━' * full}{'─' * (room - full)}  {text}"


def line(progress: Progress, ended: bool = False, brief: bool = False) -> str:
    """Return one line: cells, judgments, failures; dollars spent, reserved and left; calls per second, 429s, retries; time left.

    It names the models that were given up, and those that wait at their provider's request. `brief`: for a terminal, on which
    other lines name the models.
    """
    parts = [] if brief else [printable(progress.run)]
    parts.append(f"{progress.unit} {progress.items_done}/{progress.items_total}")
    # If a benchmark counts no rows, show calls, since an item may take hundreds of them.
    if progress.table and not brief:
        parts.append(f"{progress.table} {progress.rows}/{progress.rows_total}")
    elif progress.calls_left is not None and not brief:
        parts.append(f"calls {progress.answered} of about {progress.answered + progress.calls_left}")
    spent = f"${progress.spent_usd:.4f}" if progress.spent_usd < 100 else f"${progress.spent_usd:,.0f}"
    parts += [f"failures {progress.failures}", spent + ("" if progress.budget_usd is None else f" of ${progress.budget_usd:g}")]
    if brief:
        parts += [f"{progress.calls_a_second:.1f} calls/s"] if progress.calls or progress.in_flight else []
        parts += [f"{progress.tokens_a_second:.1f} tokens/s"] if progress.tokens else []
    else:
        # Dollars reserved, uncertain and left; calls and tokens per second, 429s and retries; models that wait or were given up.
        left = [] if progress.left_usd is None else [f"${progress.left_usd:.4f} left"]
        doubt = [f"${progress.uncertain_usd:.4f} uncertain"] if progress.uncertain_usd else []
        details = [f"${progress.reserved_usd:.4f} reserved", *doubt, *left] if left or doubt or progress.reserved_usd else []
        tokens = [f"{progress.tokens} tokens generated", f"{progress.tokens_a_second:.1f} tokens/s"] if progress.tokens else []
        asks = progress.calls or progress.limited or progress.retries
        details += [f"{progress.calls_a_second:.1f} calls/s"] if asks else []
        details += tokens
        details += [f"{progress.limited} times 429", f"{progress.retries} retries"] if asks else []
        details += [f"{printable(model.model)} {state}" for model in progress.models if (state := _state(model))]
        parts += [", ".join(details)] if details else []
    if ended:
        doing = "ended"
    elif progress.stopping:
        doing = f"stopping: {progress.in_flight} calls in flight are waited for (a second signal stops at once)"
    elif progress.doing and not (progress.in_flight or progress.seconds_left):
        doing = progress.doing
    elif progress.seconds_left is None and not progress.calls and not progress.in_flight:
        doing = "starting"
    else:
        left = [f"{progress.calls_left} calls"] if progress.calls_left is not None and not brief else []
        left += [f"${progress.usd_left:.4f}"] if progress.usd_left and not brief else []
        left += ["?" if progress.seconds_left is None else _time(progress.seconds_left)]
        doing = f"{', '.join(left)} to go"
        if brief:
            return "  ".join([*parts, doing])
    return "  ".join([*parts, f"{_time(progress.seconds)} elapsed, {doing}"])


def _state(model: ModelProgress) -> str:
    if model.stopped:
        return f"stopped: {printable(model.stopped)}"
    parts = [f"paused for {model.paused_s:.0f} s"] if model.paused_s > 0 else []
    if model.refused_s >= REPORTED_AFTER_S:
        left = _time(max(0.0, LONGEST_PAUSE_S - model.refused_s))
        parts.append(f"nothing but 429 for {_time(model.refused_s)}, given up in {left}")
    if model.fallbacks:
        parts.append(f"{model.fallbacks} calls at the standard price for lack of flex capacity")
    return ", ".join(parts)


def _of(used: float, limit: float | None) -> str:
    return _short(used) if limit is None else f"{_short(used)}/{_short(limit)}"


def _short(number: float) -> str:
    """Return a number with at most four digits: 950, 12.5k, 1.25M."""
    for size, unit in ((1e6, "M"), (1e3, "k")):
        if number >= 10 * size or (number >= size and unit == "M"):
            return f"{number / size:.4g}{unit}"
    return f"{number:.4g}"


def _time(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
