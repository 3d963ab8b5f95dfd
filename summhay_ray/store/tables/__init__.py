"""Rows as Parquet parts, and parts as tables."""
