"""`python -m delivery_verifier`: the same as `kdv`."""

from __future__ import annotations

import sys

from delivery_verifier.command_line.main import main

sys.exit(main())
