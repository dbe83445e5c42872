"""Panels of the help."""

WHAT, DATA, WHERE, OUTPUT, SCREEN = (
    "Encoder to find",
    "Data",
    "Execution",
    "Output",
    "Screen",
)
