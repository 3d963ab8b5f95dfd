"""The cluster bootstrap behind the intervals of a system's scores. Part of the score room; `score.systems` uses it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

LEVEL = (0.025, 0.975)
_BLOCK = 1_000_000


def generator(seed: int, names: Sequence[str]) -> np.random.Generator:
    """A random stream of a system's own: it depends on the seed and on `names` alone, not on the other systems."""
    import numpy as np

    digest = hashlib.sha256(json.dumps([seed, *names]).encode("ascii")).digest()
    return np.random.default_rng(int.from_bytes(digest[:16], "big"))


def resampled_sums(
    sums: NDArray[np.float64], strata: NDArray[np.int64], samples: int, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Sums over `samples` resamples, (samples, columns), of clusters' sums, (clusters, columns).

    Within each stratum as many clusters are drawn, with replacement, as it has; the strata themselves are fixed.
    """
    import numpy as np

    total = np.zeros((samples, sums.shape[1]))
    for stratum in np.unique(strata):
        members = sums[strata == stratum]
        block = max(1, _BLOCK // members.size)
        for start in range(0, samples, block):
            drawn = rng.integers(len(members), size=(min(block, samples - start), len(members)))
            total[start : start + len(drawn)] += members[drawn].sum(axis=1)
    return total


def varies(strata: NDArray[np.int64]) -> bool:
    """Whether resampling can change anything: some stratum has two clusters."""
    import numpy as np

    return len(strata) > len(np.unique(strata))


def ratio_interval(numerators: NDArray[np.float64], denominators: NDArray[np.float64]) -> tuple[float, float] | None:
    """The 95 % percentile interval of the resampled ratios, those over 0 left out; None where none is left."""
    import numpy as np

    kept = denominators > 0
    if not kept.any():
        return None
    low, high = np.quantile(numerators[kept] / denominators[kept], LEVEL)
    return float(low), float(high)
