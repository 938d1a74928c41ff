"""How results are written: JSON that every reader takes, one entry per line."""

import json
import math
from typing import Any


def readable(result: dict[str, Any]) -> str:
    """Formats JSON with one line per entry: short, and a diff shows which entry changed."""
    lines = [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in result.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def plain(value: Any) -> Any:
    """Replaces NaN and infinities, which JSON lacks, by None, and rounds floats to six digits."""
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return value
