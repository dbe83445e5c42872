"""Runs accumulators over row blocks: plans, projects memory, sweeps, merges. See ``DESIGN.md`` in this folder."""
