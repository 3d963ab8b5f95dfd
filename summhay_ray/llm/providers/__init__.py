"""Facts about providers and models: addresses, keys, prices (`prices.py`), settings."""
