"""Offline models, which need no API key. Found by name (`summhay_ray.summarize.local_models`).

To add one, write a class here that has a `name` (`offline/...`) and the `answer` of `summhay_ray.llm.LocalModel`.
"""
