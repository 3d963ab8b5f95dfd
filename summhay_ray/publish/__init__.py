"""Publish a run's results: as files in the formats of other tools, as a dataset for the Hub, and in experiment trackers.

The API may import this package. To add a format, write one function and add it to EXPORTERS.
"""

from summhay_ray.publish.exporters import EXPORTERS, Export

__all__ = ["EXPORTERS", "Export"]
