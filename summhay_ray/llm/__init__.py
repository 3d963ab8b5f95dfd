"""The gateway to language models. Only this package uses litellm. It imports `outcome`, `store` and `text`, and no benchmark.

Folders: `calls` (one call), `limits` (rate limits and money), `providers` (addresses, keys, prices), `transports`.
Importing this package does not import litellm; the first call through litellm does.
"""

from summhay_ray.llm.calls.batching import Batched
from summhay_ray.llm.calls.gateway import Gateway
from summhay_ray.llm.limits.budgets import Budgets
from summhay_ray.llm.limits.excess import USAGE_NOT_CREDIBLE, ExcessTotals, excess_totals, margins_of
from summhay_ray.llm.limits.ledger import Ledger
from summhay_ray.llm.limits.ledger_loop import LedgerPort, LedgerService
from summhay_ray.llm.limits.messages import Claim, Grant, News, Packed, Settlement, WorkerMessage
from summhay_ray.llm.limits.model_queue import LONGEST_PAUSE_S
from summhay_ray.llm.messages.reply import RawAnswer, Usage
from summhay_ray.llm.messages.request import MOST_LOGPROBS, Ask, Message, Request, Role, Task, assistant, marked, system, user
from summhay_ray.llm.messages.sampling import QUERY_FIELD, RESERVED, REVISION, Sampling
from summhay_ray.llm.providers.gate import foreign_key
from summhay_ray.llm.providers.model_settings import Limits, ModelSettings, transport_of
from summhay_ray.llm.providers.prices import FREE, PRICED_BY, Price, Unpriced, find_price, find_window
from summhay_ray.llm.providers.provider_of_model import (
    address_of,
    is_local,
    is_service,
    known_extra,
    lacking,
    provider_of,
    service_flaw,
)
from summhay_ray.llm.providers.provider_table import PROVIDERS, needed_variables
from summhay_ray.llm.providers.secrets import NoKey, Secrets, key_in, known_secrets
from summhay_ray.llm.transports.local_model import TOKENS, UNDER_WAY, GeneratingModel, Generation, LocalModel
from summhay_ray.llm.transports.read_reply import read_answer, stored_answer
from summhay_ray.llm.transports.vectors_and_scores import flaw_of, scores_of, vectors_of

__all__ = [
    "FREE",
    "LONGEST_PAUSE_S",
    "MOST_LOGPROBS",
    "PRICED_BY",
    "PROVIDERS",
    "QUERY_FIELD",
    "RESERVED",
    "REVISION",
    "TOKENS",
    "UNDER_WAY",
    "USAGE_NOT_CREDIBLE",
    "Ask",
    "Batched",
    "Budgets",
    "Claim",
    "ExcessTotals",
    "Gateway",
    "GeneratingModel",
    "Generation",
    "Grant",
    "Ledger",
    "LedgerPort",
    "LedgerService",
    "Limits",
    "LocalModel",
    "Message",
    "ModelSettings",
    "News",
    "NoKey",
    "Packed",
    "Price",
    "RawAnswer",
    "Request",
    "Role",
    "Sampling",
    "Secrets",
    "Settlement",
    "Task",
    "Unpriced",
    "Usage",
    "WorkerMessage",
    "address_of",
    "assistant",
    "excess_totals",
    "find_price",
    "find_window",
    "flaw_of",
    "foreign_key",
    "is_local",
    "is_service",
    "key_in",
    "known_extra",
    "known_secrets",
    "lacking",
    "margins_of",
    "marked",
    "needed_variables",
    "provider_of",
    "read_answer",
    "scores_of",
    "service_flaw",
    "stored_answer",
    "system",
    "transport_of",
    "user",
    "vectors_of",
]
