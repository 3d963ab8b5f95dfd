"""The gateway to language models: the only room that knows litellm. Imports records, outcome and store."""

from summhay_ray.llm.local import LocalModel
from summhay_ray.llm.request import Ask, Request

__all__ = ["Ask", "LocalModel", "Request"]
