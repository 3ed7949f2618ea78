"""python -m monitoring.boards: write monitoring/dashboards anew, the fleet's apart."""

from __future__ import annotations

from monitoring.boards.written import files

for path, text in files().items():
    path.write_text(text)
