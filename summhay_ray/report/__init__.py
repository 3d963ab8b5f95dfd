"""Tables of results. For cli; imports score and what lies below."""

from summhay_ray.report.layout import Fitted, fitted
from summhay_ray.report.money import minutes, plan_table, usage_table
from summhay_ray.report.tables import LEGEND, Grid2D, position_table, score_tables

__all__ = ["LEGEND", "Fitted", "Grid2D", "fitted", "minutes", "plan_table", "position_table", "score_tables", "usage_table"]
