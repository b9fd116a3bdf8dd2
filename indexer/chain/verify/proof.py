"""What came of proving a block, and how it is gathered."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final, NamedTuple

from indexer.chain.verify.profiles import Commitment, Profile
from indexer.chain.verify.unprovable import Unprovable
from indexer.errors import InconsistentResponse, ProofFailed

_NUMBER: Final = itemgetter(0)
_POSITION: Final = itemgetter(1)


class Proof(NamedTuple):
    """What of a block is proven, and what cannot be, and why.

    A commitment that a block does not make, such as that to withdrawals before
    Shanghai, is in neither.
    """

    proven: frozenset[Commitment]
    unprovable: Mapping[Commitment, str]


class Ledger:
    """The proof of one block, commitment by commitment."""

    def __init__(self, number: int, profile: Profile) -> None:
        self._number = number
        self._profile = profile
        self._proven: list[Commitment] = []
        self._unprovable: dict[Commitment, str] = {}

    def prove(self, commitment: Commitment, check: Callable[[], None]) -> None:
        """Enter what ``check`` finds, if the chain allows it to be proven.

        Raises what ``check`` raises, but for Unprovable, which is entered, and
        ValueError, which says that no chain can hold such a value.
        """
        if commitment not in self._profile.proves:
            reason = f"the chain's own way of making the {commitment} is not known"
            self._unprovable[commitment] = reason
            return
        try:
            check()
        except Unprovable as reason:
            self._unprovable[commitment] = str(reason)
        except (ValueError, TypeError, OverflowError) as error:
            raise self.inconsistent(f"cannot be real: {error}") from error
        else:
            self._proven.append(commitment)

    def compare(
        self,
        commitment: Commitment,
        expected: bytes | None,
        computed: bytes,
        what: str,
    ) -> None:
        """Raise ProofFailed unless what was computed is what was expected."""
        if expected is None:
            raise Unprovable(f"the node gives no {what}")
        if computed != expected:
            raise ProofFailed(self._number, commitment, expected, computed, what=what)

    def in_place(self, rows: Sequence[tuple[Any, ...]], what: str) -> None:
        """Raise InconsistentResponse unless rows are numbered 0, 1, 2, …

        The first two fields of a row are its block and its position in it.
        """
        self.of_block(rows, what)
        positions = list(map(_POSITION, rows))
        if positions != list(range(len(rows))):
            wrong = next(i for i, at in enumerate(positions) if i != at)
            raise self.inconsistent(
                f"has {len(rows)} {what}s, but the one in place {wrong} is numbered "
                f"{positions[wrong]}"
            )

    def of_block(self, rows: Sequence[tuple[Any, ...]], what: str) -> None:
        """Raise InconsistentResponse unless all rows name this block."""
        numbers = list(map(_NUMBER, rows))
        if numbers.count(self._number) != len(numbers):
            raise self.inconsistent(f"holds a {what} of another block")

    def inconsistent(self, problem: str) -> InconsistentResponse:
        """Return the error that says what is wrong with the block."""
        return InconsistentResponse(
            f"block {self._number} {problem}", block_number=self._number
        )

    def proof(self) -> Proof:
        """Return what was entered."""
        return Proof(frozenset(self._proven), self._unprovable)
