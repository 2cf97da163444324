"""Hand-made findings, for tests of what follows from them."""

from __future__ import annotations

from typing import Any

import msgspec

from delivery_verifier.model.verdict import Finding


def finding(anomaly: str = "LOST", count: int = 0, also: int = 0, tolerance: int | None = 0, **more: Any) -> Finding:
    """Returns a finding. `tolerance`: how many cases are tolerated; None if any number is. `more` replaces fields."""
    plain = Finding(
        anomaly=anomaly,
        ruling="FORBIDDEN" if tolerance == 0 else "PERMITTED",
        ruled_by="contract",
        rule="r",
        sentence="",
        source="",
        tolerance=tolerance,
        count=count,
        also=also,
    )
    return msgspec.structs.replace(plain, **more)
