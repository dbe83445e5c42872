"""Dense primitives on a core: arrays in, arrays out; imports numpy, scipy and errors only."""
