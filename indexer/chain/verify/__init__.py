"""Prove blocks: recompute from rows what the chain's own hashes commit to; pure.

- ``keccak``, ``rlp``, ``trie``, ``bloom``: what commitments are made of
- ``headers``, ``transactions``, ``special``, ``lists``, ``receipts``: encodings
- ``profiles``: what can be proven of which chain; ``probe`` asks its blocks
- ``blocks``, ``events``: the proofs; ``proof`` is what comes of one
"""

from __future__ import annotations

from indexer.chain.verify.blocks import prove_block, prove_header
from indexer.chain.verify.events import Committed, prove_events
from indexer.chain.verify.probe import probe
from indexer.chain.verify.profiles import (
    ETHEREUM,
    EVERYTHING,
    Commitment,
    Profile,
    profile_of,
    recalled_profile,
)
from indexer.chain.verify.proof import Proof

__all__ = [
    "ETHEREUM",
    "EVERYTHING",
    "Commitment",
    "Committed",
    "Profile",
    "Proof",
    "probe",
    "profile_of",
    "prove_block",
    "prove_events",
    "prove_header",
    "recalled_profile",
]
