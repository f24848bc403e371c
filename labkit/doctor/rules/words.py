"""Words that several rules use."""


def names_of(names: list[str], most: int = 3) -> str:
    """Return a few names in a row, and how many more there are."""
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
