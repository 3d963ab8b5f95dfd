"""Benchmark mine: makes a haystack from your own documents with `summhay_ray.mine`. It asks models only if the spec names
some."""

from summhay_ray.benchmarks.mine.carrying import carry_over
from summhay_ray.benchmarks.mine.check import GoldPair, draw_pairs, write_pairs
from summhay_ray.benchmarks.mine.files import check_files, read_mined, write_haystack
from summhay_ray.benchmarks.mine.review import accept_sheet, keep_answers, write_review
from summhay_ray.benchmarks.mine.spec import MineSpec
from summhay_ray.benchmarks.mine.workload import Mine, haystack_of

__all__ = [
    "GoldPair",
    "Mine",
    "MineSpec",
    "accept_sheet",
    "carry_over",
    "check_files",
    "draw_pairs",
    "haystack_of",
    "keep_answers",
    "read_mined",
    "write_haystack",
    "write_pairs",
    "write_review",
]
