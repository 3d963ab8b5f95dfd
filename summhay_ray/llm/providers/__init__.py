"""What is known of providers and models: addresses, keys, prices (`prices.py`), settings."""
