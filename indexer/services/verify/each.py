"""Each commitment of a block by itself, so that one fault hides no other."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from indexer.chain.verify import Commitment, Profile, Proof
from indexer.errors import ChainDataError, ProofFailed
from indexer.services.verify.faults import FaultKind

KINDS = {
    Commitment.HEADER: FaultKind.HEADER,
    Commitment.TRANSACTIONS: FaultKind.TRANSACTIONS,
    Commitment.WITHDRAWALS: FaultKind.WITHDRAWALS,
    Commitment.RECEIPTS: FaultKind.RECEIPTS,
    Commitment.BLOOM: FaultKind.BLOOM,
}


def prove_each(
    prove: Callable[[Profile], Proof],
    commitments: Sequence[Commitment],
    profile: Profile,
) -> tuple[list[tuple[FaultKind, str]], Proof | None]:
    """Return every fault, one commitment by one, or the proof of all."""
    try:
        return [], prove(profile)
    except ChainDataError as error:
        first = error
    faults: list[tuple[FaultKind, str]] = []
    proven: set[Commitment] = set()
    for commitment in commitments:
        alone = frozenset((commitment,)) & profile.proves
        try:
            proven |= prove(profile._replace(proves=alone)).proven
        except ProofFailed as error:
            what, wanted, found = error.difference
            detail = f"{what} should be {wanted}, but the stored rows make it {found}"
            faults.append((KINDS[commitment], detail))
        except ChainDataError as error:
            detail = str(error)
            if all(each[1] != detail for each in faults):
                faults.append((KINDS[commitment], detail))
    if not faults:
        faults.append((KINDS[commitments[-1]], str(first)))
    return faults, Proof(frozenset(proven), {})
