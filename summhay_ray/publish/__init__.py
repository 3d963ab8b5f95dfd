"""Publishes a run's results: as files in the formats of other tools, as a dataset for the Hub, and in trackers of experiments.

The API may import it. To add a format, write one function and add it to EXPORTERS.
"""

from summhay_ray.publish.exporters import EXPORTERS, Export

__all__ = ["EXPORTERS", "Export"]
