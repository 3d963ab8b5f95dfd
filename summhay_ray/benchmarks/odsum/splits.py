"""ODSum-meeting's split into train, test and dev, as the release made it with scikit-learn's `train_test_split`, seed 42."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

SEED = 42


def meeting_splits(query_ids: Sequence[str]) -> Mapping[str, str]:
    """Query's id -> train, test or dev: 60 % train; of the rest three quarters test and one dev."""
    train, rest = _parted(query_ids, 0.4)
    test, dev = _parted(rest, 0.25)
    return {one: name for name, ids in (("train", train), ("test", test), ("dev", dev)) for one in ids}


def _parted(ids: Sequence[str], share: float) -> tuple[list[str], list[str]]:
    """As `train_test_split(ids, test_size=share, random_state=42)`."""
    order = np.random.RandomState(SEED).permutation(len(ids)).tolist()
    n = math.ceil(share * len(ids))
    return [ids[place] for place in order[n:]], [ids[place] for place in order[:n]]
