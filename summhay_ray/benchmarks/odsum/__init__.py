"""ODSum (Zhou et al., 2023): retrieve from a large collection, then summarize for a query, and what retrieval's errors cost.

`workload.py` is the benchmark; start reading there. `reading.py` says which folders are collections.
"""

from summhay_ray.benchmarks.odsum.collection import Collection
from summhay_ray.benchmarks.odsum.imports import CollectionImport, import_collection
from summhay_ray.benchmarks.odsum.pipeline import pipeline_run
from summhay_ray.benchmarks.odsum.reading import read_collection
from summhay_ray.benchmarks.odsum.spec import OdsumSpec
from summhay_ray.benchmarks.odsum.workload import Odsum

__all__ = ["Collection", "CollectionImport", "Odsum", "OdsumSpec", "import_collection", "pipeline_run", "read_collection"]
