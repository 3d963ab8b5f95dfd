"""The log of this package, by `logging`: loggers of its modules' names below `summhay_ray`. Any room may import it.

It says which models and workers start, what is tried again, given up or fails; never what a prompt or an answer says, and no key.
"""

from __future__ import annotations

import logging
import sys
from typing import TextIO

LOG = logging.getLogger("summhay_ray")


class _ToStderr(logging.StreamHandler[TextIO]):
    """Writes to what stderr is at that moment: a live display takes it over for a while."""

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)


def log_to_stderr(level: int | str, name: str = "") -> None:
    """Write lines of this level and above to stderr. `name`: who writes, where several do.

    level: such as "INFO" or logging.INFO.
    """
    handler = _ToStderr()
    handler.setFormatter(logging.Formatter(f"%(asctime)s %(levelname)s {name.replace('%', '%%')}{name and ': '}%(message)s"))
    LOG.handlers[:] = [handler]
    LOG.setLevel(level)


def quiet_unless_asked() -> None:
    """Without any handler, Python itself would print warnings."""
    if not LOG.hasHandlers():
        LOG.addHandler(logging.NullHandler())


def asked_level() -> int | None:
    """The level that somebody has set for the package in this process; None if nobody has."""
    return LOG.level or None
