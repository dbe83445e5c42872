"""The only room that runs passes on dask: a runner, the merge tree it drives, and a monitor."""
