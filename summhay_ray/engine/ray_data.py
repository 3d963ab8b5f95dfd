"""Settings of Ray Data, for the pools of actors that compute and the work outside runs. Part of the engine room.

Ray Data is imported only where it is used: it takes seconds.
"""

from __future__ import annotations

import logging


def in_order_and_quiet() -> None:
    """Configure this process's pipelines: results keep the order of the input, and nothing is printed."""
    from ray.data import DataContext

    context = DataContext.get_current()
    context.enable_progress_bars = False
    context.verbose_stats_logs = False
    context.print_on_execution_start = False
    context.execution_options.preserve_order = True
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    # The errors that it logs are raised as well; without this, a stopped stream would print its traceback.
    logging.getLogger("ray.data.exceptions").setLevel(logging.CRITICAL)
