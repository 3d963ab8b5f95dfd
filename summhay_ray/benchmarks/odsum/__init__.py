"""ODSum (Zhou et al., 2023): retrieval from a large collection, query-focused summaries, and the cost of retrieval errors.

Start reading at `workload.py`, which defines the benchmark. `retrieval.py` ranks the collection. `reading.py` lists the formats
of a collection's folder.
"""

from summhay_ray.benchmarks.odsum.collection import Collection
from summhay_ray.benchmarks.odsum.on_collection import CollectionImport, import_collection
from summhay_ray.benchmarks.odsum.reading import pipeline_run, read_collection
from summhay_ray.benchmarks.odsum.workload import Odsum

__all__ = ["Collection", "CollectionImport", "Odsum", "import_collection", "pipeline_run", "read_collection"]
