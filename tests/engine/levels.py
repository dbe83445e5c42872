"""The merge tree as a list of levels, put together level by level."""


def merge_levels(n_states: int, fan_in: int) -> list[list[tuple[int, ...]]]:
    """Levels of the merge tree: for each level, which states of the level below each merge takes.

    The last level has one merge; of a single state there are no levels.
    """
    levels = []
    while n_states > 1:
        groups = [tuple(range(i, min(i + fan_in, n_states))) for i in range(0, n_states, fan_in)]
        levels.append(groups)
        n_states = len(groups)
    return levels
