"""ODSum-meeting's train, test and dev splits, computed as in the release (scikit-learn's `train_test_split`, seed 42)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

SEED = 42


def meeting_splits(query_ids: Sequence[str]) -> Mapping[str, str]:
    """Query id -> train, test or dev, in shares of 60 %, 30 % and 10 %."""
    train, rest = _parted(query_ids, 0.4)
    test, dev = _parted(rest, 0.25)
    return {query_id: name for name, ids in (("train", train), ("test", test), ("dev", dev)) for query_id in ids}


def _parted(ids: Sequence[str], share: float) -> tuple[list[str], list[str]]:
    """Equals `train_test_split(ids, test_size=share, random_state=42)`."""
    order = np.random.RandomState(SEED).permutation(len(ids)).tolist()
    n = math.ceil(share * len(ids))
    return [ids[index] for index in order[n:]], [ids[index] for index in order[:n]]
