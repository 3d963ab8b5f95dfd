"""Part of the judge room: judges that rate a text on a scale of whole numbers, by a prompt, from samples or log probabilities.

A `Criterion` says what is rated, on which scale and by which prompt; a `Rater` says which model rates and how often;
`rate_text` asks. Other rooms take all of it from `summhay_ray.judge`.
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
