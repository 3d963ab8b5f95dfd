"""The gateway to language models. Only this package uses litellm. It imports no benchmark.

A call is made by `gateway`, `retry`, `prefix`, `batches` and `request`. Rate limits and money are in `ledger` and its files,
`model_queue` and `budgets`. Providers are described by `provider_table`, `model_settings`, `prices` and `keys`. The transports
are `direct`, `via_litellm` and `local_model`; `bodies`, `read_reply` and `vectors_and_scores` read what they return. litellm is
imported by the first call through it, not by importing this package.
"""

from summhay_ray.llm.batches import BatchApi, BatchRequest, BatchState, CallFailed, Line, batch_api
from summhay_ray.llm.budgets import USAGE_NOT_CREDIBLE, Budgets, ExcessTotals, excess_totals, margins_of
from summhay_ray.llm.gateway import Gateway
from summhay_ray.llm.keys import NoKey, Secrets, find_key, foreign_key, known_secrets
from summhay_ray.llm.ledger import Ledger
from summhay_ray.llm.ledger_messages import BATCH, Claim, News, Packed, Settlement, WorkerMessage
from summhay_ray.llm.ledger_service import LedgerClient, LedgerPort, LedgerService
from summhay_ray.llm.local_model import TOKENS, UNDER_WAY, GeneratingModel, Generation, LocalModel
from summhay_ray.llm.model_queue import LONGEST_PAUSE_S
from summhay_ray.llm.model_settings import Limits, ModelSettings, batch_wire, transport_of
from summhay_ray.llm.prices import FREE, PRICED_BY, Price, Unpriced, find_price, find_window
from summhay_ray.llm.provider_table import (
    PROVIDERS,
    address_of,
    is_local,
    is_service,
    known_extra,
    lacking,
    needed_variables,
    provider_of,
    service_flaw,
)
from summhay_ray.llm.read_reply import read_answer, stored_answer, written
from summhay_ray.llm.request import (
    MOST_LOGPROBS,
    QUERY_FIELD,
    RESERVED,
    REVISION,
    Ask,
    Message,
    RawAnswer,
    Request,
    Sampling,
    Task,
    Usage,
    assistant,
    join_messages,
    system,
    user,
)
from summhay_ray.llm.vectors_and_scores import flaw_of, scores_of, vectors_of

__all__ = [
    "BATCH",
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
    "BatchApi",
    "BatchRequest",
    "BatchState",
    "Budgets",
    "CallFailed",
    "Claim",
    "ExcessTotals",
    "Gateway",
    "GeneratingModel",
    "Generation",
    "Ledger",
    "LedgerClient",
    "LedgerPort",
    "LedgerService",
    "Limits",
    "Line",
    "LocalModel",
    "Message",
    "ModelSettings",
    "News",
    "NoKey",
    "Packed",
    "Price",
    "RawAnswer",
    "Request",
    "Sampling",
    "Secrets",
    "Settlement",
    "Task",
    "Unpriced",
    "Usage",
    "WorkerMessage",
    "address_of",
    "assistant",
    "batch_api",
    "batch_wire",
    "excess_totals",
    "find_key",
    "find_price",
    "find_window",
    "flaw_of",
    "foreign_key",
    "is_local",
    "is_service",
    "join_messages",
    "known_extra",
    "known_secrets",
    "lacking",
    "margins_of",
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
    "written",
]
