"""How a request travels: directly by HTTP, through litellm, or to a model in this process."""
