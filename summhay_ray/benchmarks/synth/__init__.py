"""Haystacks synthesized out of topics, verified (paper, section 3.2 and appendix A.1); `summhay_ray.synth` is the library."""

from summhay_ray.benchmarks.synth.audit import Sample, read_sheet, write_sheet
from summhay_ray.benchmarks.synth.run import FailedTopic, MadeHaystack, run_synth
from summhay_ray.benchmarks.synth.spec import SynthSpec
from summhay_ray.benchmarks.synth.verify import VerifiedFile, verify_files, write_checks
from summhay_ray.benchmarks.synth.workload import Synth

__all__ = [
    "FailedTopic",
    "MadeHaystack",
    "Sample",
    "Synth",
    "SynthSpec",
    "VerifiedFile",
    "read_sheet",
    "run_synth",
    "verify_files",
    "write_checks",
    "write_sheet",
]
