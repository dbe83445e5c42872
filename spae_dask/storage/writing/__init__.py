"""Outputs: each appears whole under its name, or not at all; and how arrays are cut and coded on the disk."""
