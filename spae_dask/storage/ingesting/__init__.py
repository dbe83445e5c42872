"""Any table or matrix, once, into a Zarr array that is fast to read."""
