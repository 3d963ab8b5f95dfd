"""ETHIC (Lee et al., 2024, arXiv 2410.16848): four tasks that need the whole of a long context (Recalling, Summarizing,
Organizing and Attributing), on the paper's data or on your documents."""

from summhay_ray.benchmarks.ethic import cases
from summhay_ray.benchmarks.ethic.build import EthicBuild, read_label_sheet
from summhay_ray.benchmarks.ethic.workload import Ethic

__all__ = ["Ethic", "EthicBuild", "cases", "read_label_sheet"]
