"""Whole-fit routines as sequences of passes. Each is handed ``run_pass`` and says how many passes it makes."""
