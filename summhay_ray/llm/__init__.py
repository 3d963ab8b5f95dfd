"""The gateway to language models: the only room that knows litellm. Imports records, outcome and store.

Importing this room imports no litellm: `register` and the first call do, in the process that calls models.
"""

from collections.abc import Mapping

from summhay_ray.llm.answers import read_answer
from summhay_ray.llm.batching import Batched
from summhay_ray.llm.budgets import Budgets
from summhay_ray.llm.gateway import Gateway
from summhay_ray.llm.ledger import Ledger
from summhay_ray.llm.local import LocalModel
from summhay_ray.llm.messages import Claim, Grant, Message, News, Settlement
from summhay_ray.llm.models import FREE, Limits, ModelSettings, Price, Unpriced, find_price, find_window, is_local
from summhay_ray.llm.request import Ask, Request
from summhay_ray.llm.sampling import RESERVED
from summhay_ray.llm.secrets import NoKey, key_of, told_secrets
from summhay_ray.llm.service import LedgerPort, LedgerService, LocalPort
from summhay_ray.llm.tokens import count as count_tokens
from summhay_ray.llm.tokens import encode, first_tokens

__all__ = [
    "FREE",
    "RESERVED",
    "Ask",
    "Batched",
    "Budgets",
    "Claim",
    "Gateway",
    "Grant",
    "Ledger",
    "LedgerPort",
    "LedgerService",
    "Limits",
    "LocalModel",
    "LocalPort",
    "Message",
    "ModelSettings",
    "News",
    "NoKey",
    "Price",
    "Request",
    "Settlement",
    "Unpriced",
    "count_tokens",
    "encode",
    "find_price",
    "find_window",
    "first_tokens",
    "is_local",
    "key_of",
    "read_answer",
    "register",
    "told_secrets",
]


def register(models: Mapping[str, LocalModel]) -> None:
    """Make local models known to litellm in this process: by full name, or by `provider/` for a family."""
    from summhay_ray.llm import custom

    custom.register(models)
