"""Offline models, which need no API key. Found by name (`summhay_ray.summarize.local_models`).

To add one, put a file here with a class that has a `name` (`offline/...`) and the `answer` of `summhay_ray.llm.LocalModel`.
"""
