"""Benchmark judge_bench: compares judges with people by agreement, bias and cost (paper, section 4.3, Tables 1 and 6)."""

from summhay_ray.benchmarks.judge_bench.result import BenchResult, BenchRow
from summhay_ray.benchmarks.judge_bench.workload import BenchOptions, JudgeBench, free_outcomes, load_bench

__all__ = ["BenchOptions", "BenchResult", "BenchRow", "JudgeBench", "free_outcomes", "load_bench"]
