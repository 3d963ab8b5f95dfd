"""Models that rate a text on a scale of whole numbers, by sampling or by log probabilities.

A `Criterion` has the scale and the prompt; a `Rater` has the model and the settings for its answers; `rate_text` makes the calls.
Other packages import from `summhay_ray.judge`.
"""

from summhay_ray.judge.rating.answer import LEAST_MASS, ByLogprobs, check_logprobs, expected_rating, read_rating
from summhay_ray.judge.rating.base import Criterion, Rater, Rating, Scale
from summhay_ray.judge.rating.offline import OfflineRater
from summhay_ray.judge.rating.rate import CRITERIA, rate_text, rating_requests

__all__ = [
    "CRITERIA",
    "LEAST_MASS",
    "ByLogprobs",
    "Criterion",
    "OfflineRater",
    "Rater",
    "Rating",
    "Scale",
    "check_logprobs",
    "expected_rating",
    "rate_text",
    "rating_requests",
    "read_rating",
]
