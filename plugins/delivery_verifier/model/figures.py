"""Figures as people read them, in sentences of a verdict and on pages."""

from __future__ import annotations


def share(count: int, whole: int) -> str:
    """Returns `count` as a percentage of `whole`, with three significant digits. Between 99.9 % and 99.99 %, there are
    four significant digits.

    Returns an empty text if `whole` is not positive. A percentage between 0 and 0.01 becomes `< 0.01 %`, so that it is
    not rounded to 0. A percentage between 99.99 and 100 becomes `> 99.99 %`, so that it is not rounded to 100.
    """
    if whole <= 0:
        return ""
    percent = 100 * count / whole
    if 0 < percent < 0.01:
        return "< 0.01 %"
    if 99.99 < percent < 100:
        return "> 99.99 %"
    if 99.9 < percent < 100:
        return f"{percent:.2f} %"
    return f"{percent:.3g} %" if percent < 100 else f"{percent:.0f} %"


def times(count: int) -> str:
    """Returns how often something happened, in words: once, twice, 3 times."""
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def enumeration(parts: list[str], last: str = "or") -> str:
    """Returns the parts as one text, such as `a, b or c`. `last`: the word before the last part.

    Returns an empty text if there are no parts.
    """
    return f" {last} ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)
