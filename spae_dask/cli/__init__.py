"""The command ``spae``: one verb a file, argv in, one call, an exit code out. No numerics."""
