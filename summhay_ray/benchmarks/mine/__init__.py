"""Benchmark mine: a haystack from documents of one's own, with the room `summhay_ray.mine`; models where the spec names them."""

from summhay_ray.benchmarks.mine.review import accept_sheet, write_review
from summhay_ray.benchmarks.mine.spec import MineSpec
from summhay_ray.benchmarks.mine.workload import Mine, write_mined

__all__ = ["Mine", "MineSpec", "accept_sheet", "write_mined", "write_review"]
