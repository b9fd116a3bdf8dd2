"""Keep the tip: each new block and its ``index_events`` job in one transaction.

- ``follower``: the loop: take the role, look at the head, wait
- ``walk``: block by block from its own cursor, along parent hashes
- ``role``: one follower writes, others stand by
- ``cursor``: where it begins, and what is planned below
- ``reconcile``: stored blocks against the node's, and what is concluded
- ``replace``: a reorganisation, in one transaction
- ``spool``: fetched blocks that wait for it
- ``final``: how far nothing is replaced any more
- ``watchdog``: whether the tip rises
"""

from __future__ import annotations

from indexer.services.follow.cursor import Start
from indexer.services.follow.follower import Follower, make_follower

__all__ = ["Follower", "Start", "make_follower"]
