"""Memory and time, as they are shown to people."""


def gigabytes(n_bytes: float) -> str:
    """Return a number of bytes as "1.5 GB"."""
    return f"{n_bytes / (1 << 30):.1f} GB"


def duration(seconds: float) -> str:
    """Return a time as "5 seconds", "20 minutes" or "2 h 03 min"."""
    minutes = round(seconds / 60)
    if minutes < 2:
        return f"{seconds:.0f} seconds"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} minutes"
