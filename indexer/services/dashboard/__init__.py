"""The page: what ``status`` knows and a map of the chain, for a browser.

- ``server``: the page's files and two JSON resources, read-only
- ``chainmap``: which heights are in which state
- ``page/``: HTML, CSS and JavaScript as they are; nothing is built, nothing is loaded
  from elsewhere
"""

from __future__ import annotations

from indexer.services.dashboard.server import Dashboard

__all__ = ["Dashboard"]
