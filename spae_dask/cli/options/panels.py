"""Panels of the help."""

WHAT, DATA, WHERE, OUTPUT, SCREEN = (
    "What to find",
    "Data",
    "Where it runs",
    "Output",
    "Screen",
)
