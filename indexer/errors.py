"""The error tree, classed by what the caller must do.

::

    IndexerError
    ├── ConfigError                 bad usage: exit 2, before any I/O
    ├── MigrationError              the schema is older, newer or altered: exit 1
    ├── TransientError              try again later; costs a job no error
    │   ├── RpcUnavailable          the node does not answer
    │   ├── RpcRateLimited          the node asks for less (``retry_after`` seconds)
    │   └── DatabaseUnavailable     PostgreSQL does not answer, or is read-only
    │       └── DiskFull            PostgreSQL has no room left
    ├── RpcError                    the node answered with a JSON-RPC error object
    ├── RangeTooLarge               split the request (``suggested`` items or fewer)
    ├── ChainDataError              never store it
    │   ├── MalformedResponse       a field that cannot be what it is said to be
    │   ├── InconsistentResponse    parts of a reply that contradict each other
    │   ├── NotYetAvailable         null for something that should exist soon
    │   ├── WithheldData            empty where the header says there is data
    │   ├── PrunedHistory           the node threw it away: ask another, not again
    │   ├── BlockRefused            the node answers, but never about this block
    │   ├── ProofFailed             not what the chain's own hashes commit to
    │   ├── ProofImpossible         no proof, where one was demanded (strict)
    │   ├── StoredBlockConflict     a stored block has another hash
    │   ├── FinalityViolated        the same of a block that was final: stop
    │   └── ReorgDetected           the parent is not the block we hold
    ├── WrongChain                  the endpoint serves another chain
    ├── JobRefused                  no retry can help: the job fails at once
    ├── ClaimLost                   roll back, write nothing more, say nothing
    └── LeaseLost                   the same for a single role (the follower)

Every message says what happened, to which block or job, and what to do.
No message carries a secret: URLs go through :func:`indexer.log.redact_url`.
"""

from __future__ import annotations


class IndexerError(Exception):
    """Base of every error this program raises on purpose."""


class ConfigError(IndexerError):
    """Bad usage: the command ends with exit code 2 before any I/O."""


class MigrationError(IndexerError):
    """The database schema does not fit this program."""


class TransientError(IndexerError):
    """Something outside is down: wait and try again, at no cost to the job."""


class RpcUnavailable(TransientError):
    """The node does not answer, or answers with nothing usable."""


class RpcRateLimited(TransientError):
    """The node asks for fewer requests.

    ``retry_after`` is in seconds, ``None`` where the node gave no time.
    """

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class DatabaseUnavailable(TransientError):
    """PostgreSQL does not answer, is starting, full of clients, or read-only."""


class DiskFull(DatabaseUnavailable):
    """PostgreSQL could not extend a file; the transaction was rolled back."""


class RpcError(IndexerError):
    """The node answered a request with a JSON-RPC error object."""

    def __init__(self, method: str, code: int | None, text: str) -> None:
        super().__init__(f"the node answered {method} with error {code}: {text}")
        self.method = method
        self.code = code
        self.text = text


class RangeTooLarge(IndexerError):
    """The request is too big for the endpoint; ``suggested`` items may fit."""

    def __init__(self, message: str, *, suggested: int | None = None) -> None:
        super().__init__(message)
        self.suggested = suggested


class ChainDataError(IndexerError):
    """What the node gave must not be stored."""


class MalformedResponse(ChainDataError):
    """A field of a reply cannot be what the protocol says it is."""

    def __init__(
        self, method: str, field: str, block_number: int | None, problem: str
    ) -> None:
        where = "of an unknown block" if block_number is None else f"of {block_number}"
        super().__init__(f"{method}: field {field} {where}: {problem}")
        self.method = method
        self.field = field
        self.block_number = block_number


class InconsistentResponse(ChainDataError):
    """Parts of what one node gave contradict each other or what is stored."""

    def __init__(self, message: str, *, block_number: int | None = None) -> None:
        super().__init__(message)
        self.block_number = block_number


class NotYetAvailable(ChainDataError):
    """The node answers null for something that should exist: ask again."""

    def __init__(self, message: str, *, block_number: int | None = None) -> None:
        super().__init__(message)
        self.block_number = block_number


class WithheldData(ChainDataError):
    """The node gives nothing where the block's own header says there is data."""

    def __init__(self, message: str, *, block_number: int | None = None) -> None:
        super().__init__(message)
        self.block_number = block_number


class PrunedHistory(ChainDataError):
    """The node has thrown away what was asked for; another may have it."""


class BlockRefused(ChainDataError):
    """A node that answers otherwise gives no answer about a block, time after time."""

    def __init__(self, message: str, *, block_number: int | None = None) -> None:
        super().__init__(message)
        self.block_number = block_number


class ProofFailed(ChainDataError):
    """What a node gave of a block is not what the block's own hash commits to.

    ``commitment`` says which part of the proof failed, ``what`` which hash of it,
    where there are several; ``expected`` is the chain's, ``computed`` the data's.
    ``difference`` is what they are of and both as texts, for another sentence.
    """

    def __init__(
        self,
        block_number: int,
        commitment: str,
        expected: bytes,
        computed: bytes,
        *,
        what: str | None = None,
    ) -> None:
        wanted, found = _differing(expected, computed)
        super().__init__(
            f"block {block_number}: {what or commitment} should be {wanted}, but what "
            f"the endpoint gives makes it {found}; the endpoint's data was not stored"
        )
        self.block_number = block_number
        self.commitment = commitment
        self.expected = expected
        self.computed = computed
        self.difference = (what or commitment, wanted, found)


class ProofImpossible(ChainDataError):
    """Part of a block cannot be proven, and nothing unproven is to be stored."""

    def __init__(self, block_number: int, commitment: str, reason: str) -> None:
        super().__init__(
            f"block {block_number}: its {commitment} cannot be proven: {reason}; with "
            "--verify strict nothing is stored that is not, with auto it would be "
            "stored and marked"
        )
        self.block_number = block_number
        self.commitment = commitment


def _differing(expected: bytes, computed: bytes) -> tuple[str, str]:
    """Show two values: whole hashes, or where longer ones begin to differ."""
    if max(len(expected), len(computed)) <= 32:
        return f"0x{expected.hex()}", f"0x{computed.hex()}"
    at = next(
        (i for i, (a, b) in enumerate(zip(expected, computed, strict=False)) if a != b),
        min(len(expected), len(computed)),
    )
    place = f" at byte {at}"
    return (
        f"0x{expected[at : at + 8].hex()}{place}",
        f"0x{computed[at : at + 8].hex()}{place}",
    )


class StoredBlockConflict(ChainDataError):
    """A block is stored at this height with another hash."""

    def __init__(self, block_number: int, stored: bytes, offered: bytes) -> None:
        super().__init__(
            f"block {block_number} is stored with hash 0x{stored.hex()} but the node "
            f"gives 0x{offered.hex()}; nothing was overwritten. Run `indexer verify "
            f"--from {block_number} --to {block_number + 1} --repair`"
        )
        self.block_number = block_number
        self.stored = stored
        self.offered = offered


class FinalityViolated(ChainDataError):
    """A node gives another block for a height that was final: a human decides.

    ``final`` is the finalized height, below which nothing is replaced.
    """

    def __init__(
        self, block_number: int, stored: bytes, offered: bytes, final: int
    ) -> None:
        super().__init__(
            f"block {block_number} is stored with hash 0x{stored.hex()} but the node "
            f"gives 0x{offered.hex()}, and up to block {final} the chain is final: "
            "the follower replaces nothing there. If the node is to be believed, run "
            f"`indexer verify --from {block_number} --to {final + 1} --repair`"
        )
        self.block_number = block_number
        self.stored = stored
        self.offered = offered
        self.final = final


class ReorgDetected(ChainDataError):
    """A new block's parent is not the block stored one below it."""

    def __init__(self, block_number: int, stored: bytes, parent: bytes) -> None:
        super().__init__(
            f"block {block_number} names 0x{parent.hex()} as its parent, but block "
            f"{block_number - 1} is stored with hash 0x{stored.hex()}"
        )
        self.block_number = block_number
        self.stored = stored
        self.parent = parent


class WrongChain(IndexerError):
    """The endpoint serves another chain than the one this schema holds."""


class JobRefused(IndexerError):
    """The job as it was enqueued can never be done: it fails without a retry."""


class ClaimLost(IndexerError):
    """The job's token is not ours any more: stop at once and write nothing."""

    def __init__(self, job_id: int) -> None:
        super().__init__(
            f"the claim on job {job_id} was taken away; this execution stops"
        )
        self.job_id = job_id


class LeaseLost(IndexerError):
    """A single role (the follower) was taken over by another process."""
