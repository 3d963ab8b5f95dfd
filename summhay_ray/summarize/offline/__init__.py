"""Offline models, which need no API key. Found by name (`summhay_ray.summarize.local_models`).

To add one, write a class here with a `name` (`offline/...`) and the method `answer` of `summhay_ray.llm.LocalModel`.
"""
