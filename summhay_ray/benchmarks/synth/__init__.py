"""Benchmark synth: synthesize and verify haystacks (paper, section 3.2 and appendix A.1) with `summhay_ray.synth`."""

from summhay_ray.benchmarks.synth.results import (
    FailedTopic,
    Haystacks,
    MadeHaystack,
    Sample,
    check_folder,
    export_made,
    read_sheet,
    write_sheet,
)
from summhay_ray.benchmarks.synth.verify import VerifiedFile, verify_files, write_checks
from summhay_ray.benchmarks.synth.workload import Synth

__all__ = [
    "FailedTopic",
    "Haystacks",
    "MadeHaystack",
    "Sample",
    "Synth",
    "VerifiedFile",
    "check_folder",
    "export_made",
    "read_sheet",
    "verify_files",
    "write_checks",
    "write_sheet",
]
