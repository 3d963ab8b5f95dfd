"""Rows as Parquet parts, and parts as tables. A sub-room of the store."""
