"""How litellm is loaded: without the network, without prints, in the process that calls models. Part of the llm room."""

from __future__ import annotations

import functools
import os
from typing import Any


@functools.cache
def load_litellm() -> Any:
    """The litellm module, imported once (seconds), with its network look-ups and prints switched off."""
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    os.environ.setdefault("LITELLM_LOG", "ERROR")
    import litellm

    litellm.suppress_debug_info = True
    litellm.telemetry = False
    litellm.drop_params = False
    return litellm
