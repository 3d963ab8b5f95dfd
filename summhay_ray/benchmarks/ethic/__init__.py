"""ETHIC: four tasks that need the whole of a long context (Lee et al., 2024, arXiv 2410.16848): recalling, summarizing,
organizing and attributing, from its data or from documents of one's own."""

from summhay_ray.benchmarks.ethic import cases
from summhay_ray.benchmarks.ethic.build import EthicBuild, read_label_sheet
from summhay_ray.benchmarks.ethic.workload import Ethic

__all__ = ["Ethic", "EthicBuild", "cases", "read_label_sheet"]
