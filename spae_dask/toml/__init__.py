"""Readers of TOML files that users write. They report every mistake with its line."""
