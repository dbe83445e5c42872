"""One read of the data on any machine: accumulators, spans, memory, plans and checkpoints. Pure."""
