"""``python -m tidegate.cli``: the same as the command ``tidegate``."""

from __future__ import annotations

from tidegate.cli import main

if __name__ == "__main__":
    main()
