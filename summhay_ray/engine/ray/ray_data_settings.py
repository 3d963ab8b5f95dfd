"""Settings of Ray Data, for the pools of actors that compute and the work outside runs. Part of the engine room.

Ray Data is imported only where it is used: it takes seconds.
"""

from __future__ import annotations

import logging
from dataclasses import replace


def quiet(in_order: bool = False) -> None:
    """Configure this process's pipelines: nothing is printed, and a pool grows as soon as all of its actors are busy.

    `in_order`: whether results keep the order of the input.
    """
    from ray.data import DataContext

    context = DataContext.get_current()
    context.enable_progress_bars = False
    context.verbose_stats_logs = False
    context.print_on_execution_start = False
    context.execution_options.preserve_order = in_order
    context.autoscaling_config = replace(context.autoscaling_config, actor_pool_util_upscaling_threshold=1.0)
    # The errors that it logs are raised as well; without this, a stopped stream would print its traceback.
    for name in ("ray.data", "ray.data.exceptions"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
