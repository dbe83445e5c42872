"""Pipelines: steps named in a TOML file, each run once and again only if something it depends on has changed."""
