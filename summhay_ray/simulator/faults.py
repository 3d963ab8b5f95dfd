"""Draws the faults of a request, which depend only on seed, model, prompt and attempt."""

import hashlib
import struct
from dataclasses import dataclass

from summhay_ray.simulator_settings import FAULTS, USAGE_FAULTS, Settings

SERVER_ERRORS = (500, 502, 503)


@dataclass(frozen=True, slots=True)
class Fate:
    """The faults and the latency of one request."""

    fault: str = ""
    """One of settings.FAULTS, or empty."""
    usage_fault: str = ""
    """One of settings.USAGE_FAULTS, or empty."""
    variant: float = 0.0
    """From 0 to 1; selects the server error, or the kind of wrong usage."""
    latency_s: float = 0.0


def draw(settings: Settings, model: str, prompt_sha: str, attempt: int) -> Fate:
    """Draw the faults and latency of the `attempt`-th admitted request (from 0) for a prompt."""
    # Without faults, every admitted request gets a complete answer with correct usage.
    if not any(getattr(settings, name) for name in (*FAULTS, *USAGE_FAULTS, "latency_spread")):
        return Fate(latency_s=settings.latency)
    a, b, variant, spread = uniform(4, settings.seed, model, prompt_sha, attempt)
    latency = settings.latency * (1 + settings.latency_spread * (2 * spread - 1))
    return Fate(_choose(settings, FAULTS, a), _choose(settings, USAGE_FAULTS, b), variant, latency)


def skew(settings: Settings, model: str, prompt_sha: str) -> float:
    """Return the provider's tokens per cl100k token, between 1 - skew and 1 + skew. It is the same for all attempts at a
    prompt."""
    if not settings.token_skew:
        return 1.0
    (drawn,) = uniform(1, settings.seed, model, prompt_sha, "skew")
    return 1 + settings.token_skew * (2 * drawn - 1)


def _choose(settings: Settings, names: tuple[str, ...], drawn: float) -> str:
    """Return the name whose share of [0, 1) contains the number, or an empty string beyond all shares."""
    total = 0.0
    for name in names:
        total += getattr(settings, name)
        if drawn < total:
            return name
    return ""


def uniform(n: int, *what: object) -> tuple[float, ...]:
    """Return `n` numbers in [0, 1), hashed from the other arguments."""
    digest = hashlib.blake2b("|".join(map(str, what)).encode("utf-8", "surrogatepass"), digest_size=8 * n).digest()
    return tuple((word >> 11) / 2**53 for word in struct.unpack(f"<{n}Q", digest))
