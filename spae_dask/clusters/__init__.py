"""Connectors: context managers that yield a ``distributed.Client`` and clean up after themselves."""
