"""Row blocks of everything that holds a matrix: arrays in memory, of dask, and in files of each format."""
