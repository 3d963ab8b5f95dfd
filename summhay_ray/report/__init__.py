"""Tables of results. For cli; imports score and what lies below."""

from summhay_ray.report.tables import Grid2D, position_table, score_tables

__all__ = ["Grid2D", "position_table", "score_tables"]
