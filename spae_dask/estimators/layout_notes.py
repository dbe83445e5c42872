"""Notes for the user on the layout of data, from metadata alone."""

from spae_dask.blocks import LazyRowBlocks, RowBlocks, asked_of, nbytes_of_rows, stored_entries, total_nbytes
from spae_dask.passes.memory import format_nbytes

MANY_OBJECTS, SMALL_OBJECT = 10_000, 1 << 20
"""Number of stored objects below that size from which a note says that they are slow to read."""


def layout_notes(source: RowBlocks) -> list[str]:
    """Return notes for the user on the layout of the data."""
    decoding = getattr(source, "decoding", None)
    notes = [] if decoding is None else [decoding]
    chosen = mask_note(source)
    if chosen is not None:
        notes.insert(0, chosen)
    passed_over = getattr(source, "passed_over", ())
    if passed_over:
        notes.append(f"stored numbers are read; the array declares {', '.join(passed_over)}, which --raw passes over")
    valid_range = getattr(source, "valid_range", None)
    if valid_range is not None:
        listed = ", ".join(f"{key} {value}" for key, value in valid_range.items())
        notes.append(f"the array declares a valid range of stored numbers ({listed}), which is not applied")
    decodes = getattr(source, "decodes_per_chunk", 1)
    if decodes > 1:
        notes.append(
            f"each chunk is decoded {decodes} times a pass, because a chunk, or a row of chunks, is too large to hold; "
            "`spae ingest` writes the data again in row chunks"
        )
    notes += _object_notes(source)
    if getattr(source, "n_counts", 0):
        notes.append("the number of rows was not known: they were counted before this plan, which is a pass of its own")
    stored = stored_entries(source)
    if stored is not None and isinstance(source, LazyRowBlocks):
        notes.append(f"blocks are sparse; {stored.density:.0%} of their entries are assumed to be stored")
    elif stored is not None:
        notes.append(f"rows are sparse: {stored.density:.2%} of the entries are stored, and only those are read")
    if source.in_process and not isinstance(source, LazyRowBlocks):
        notes.append("the data are in this process's memory and are summed by its own threads")
    n_blocks = len(source.bounds) - 1
    pointer_nbytes = getattr(source, "pointer_nbytes", 0)
    if n_blocks > 1 and pointer_nbytes > 16 << 20:
        notes.append(
            f"each of {n_blocks:,} blocks decodes {format_nbytes(pointer_nbytes)} of row pointers beside its own; "
            "`spae ingest` writes them again in small chunks"
        )
    if n_blocks > 100_000:
        typical = nbytes_of_rows(source, source.bounds[1])
        notes.append(f"{n_blocks:,} row blocks of {format_nbytes(typical)}: larger chunks would read faster")
    return notes


def mask_note(source: RowBlocks) -> str | None:
    """Describe the columns that a mask chose; None without a mask."""
    asked = asked_of(source)
    if "n_columns" not in asked:
        return None
    return f"uses {source.shape[1]:,} of {asked['n_columns']:,} columns: {asked['mask']}"


def _object_notes(source: RowBlocks) -> list[str]:
    """Describe the number of stored objects, and the share that the codes of an encoder need."""
    by_columns = getattr(source, "n_chunk_columns", 1) > 1
    if isinstance(source, LazyRowBlocks):
        return ["transform computes those column chunks alone that hold features of the encoder"] if by_columns else []
    n_objects = getattr(source, "n_objects", None)
    if n_objects is None:
        return []
    typical = total_nbytes(source) / n_objects
    plural = "" if n_objects == 1 else "s"
    note = f"{n_objects:,} stored object{plural} of about {format_nbytes(typical)} before encoding"
    if n_objects > MANY_OBJECTS and typical < SMALL_OBJECT:
        note += ", which is slow on object stores (`spae ingest` writes fewer and larger ones)"
    return [
        f"{note}; transform reads {'only those that hold features of the encoder' if by_columns else 'all of them'}"
    ]
