"""The log of this package. Each module has a `logging` logger with its name. Any module may import this one.

The log reports starts of models and workers, retries, abandoned calls and failures. It never contains keys or the text of a
prompt or answer.
"""

import logging
import sys
from typing import TextIO

LOG = logging.getLogger("summhay_ray")


class _ToStderr(logging.StreamHandler[TextIO]):
    """Writes to the current `sys.stderr`, which a live display replaces temporarily."""

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)


def log_to_stderr(level: int | str, name: str = "") -> None:
    """Write the log's lines of this level and above to stderr. `name`: the writer's name, if there are several writers.

    `level`: for example "INFO" or logging.INFO.
    """
    handler = _ToStderr()
    handler.setFormatter(logging.Formatter(f"%(asctime)s %(levelname)s {name.replace('%', '%%')}{name and ': '}%(message)s"))
    LOG.handlers[:] = [handler]
    LOG.setLevel(level)


def asked_level() -> int | None:
    """Return the level that was set for the package in this process; None if none was set."""
    return LOG.level or None
