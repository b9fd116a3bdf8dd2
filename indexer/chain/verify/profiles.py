"""What can be proven of which chain, by its id."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final, NamedTuple

from indexer.chain.verify import special
from indexer.chain.verify.transactions import ETHEREUM as ETHEREUM_TYPES
from indexer.chain.verify.transactions import Encoder


class Commitment(StrEnum):
    """What a block commits to."""

    HEADER = "header"
    TRANSACTIONS = "transactions"
    WITHDRAWALS = "withdrawals"
    RECEIPTS = "receipts"
    BLOOM = "bloom"


EVERYTHING: Final = frozenset(Commitment)


class Profile(NamedTuple):
    """What can be proven of a chain, and what is special about it.

    ``receipt_types`` are those whose receipts are known to have the usual fields.
    Heights below ``statuses_from`` have receipts with a state root, which many nodes
    no longer give; those below ``receipts_from`` a receipts root made in a way that
    is not known. With ``state_sync`` a block may end in a transaction that is in no
    root (Polygon). With ``storage_withdrawals`` the withdrawals root may be that of
    a contract's storage (OP stack since Isthmus). With ``blobs_in_root`` a root may
    be over transactions with their blobs, which no block has (Foundry's anvil).
    """

    name: str
    proves: frozenset[Commitment] = EVERYTHING
    encoders: Mapping[int | None, Encoder] = ETHEREUM_TYPES
    receipt_types: frozenset[int | None] = frozenset(ETHEREUM_TYPES)
    statuses_from: int = 0
    receipts_from: int = 0
    state_sync: bool = False
    storage_withdrawals: bool = False
    blobs_in_root: bool = False


def _with_types(
    profile: Profile, *types: Mapping[int | None, Encoder], receipts: Iterable[int]
) -> Profile:
    encoders = dict(profile.encoders)
    for more in types:
        encoders.update(more)
    return profile._replace(
        encoders=MappingProxyType(encoders),
        receipt_types=profile.receipt_types | frozenset(receipts),
    )


ETHEREUM: Final = Profile("ethereum")

OP_STACK: Final = _with_types(
    Profile("op-stack", storage_withdrawals=True), special.OP_STACK, receipts=[0x7E]
)

ARBITRUM: Final = _with_types(
    Profile("arbitrum"), special.ARBITRUM, receipts=range(0x64, 0x6B)
)

POLYGON: Final = Profile("polygon", state_sync=True)

# What a chain that is not listed is compared with. Its encodings prove themselves:
# none gives the right hash of a transaction that it does not fit.
UNKNOWN: Final = _with_types(
    Profile("unknown", storage_withdrawals=True, blobs_in_root=True),
    special.OP_STACK,
    special.ARBITRUM,
    special.CELO,
    receipts=[0x7E, 0x6A],
)

# Chain ids, and the fork from which receipts have a status (EIP-658) where it is
# not the first block.
_ETHEREUM_LIKE: Final = {
    1: 4_370_000,
    3: 1_700_000,  # Ropsten
    4: 1_035_301,  # Rinkeby
    5: 0,  # Goerli
    6: 0,  # Kotti
    42: 5_067_000,  # Kovan
    61: 8_772_000,  # Ethereum Classic
    63: 0,  # Mordor
    17_000: 0,  # Holesky
    560_048: 0,  # Hoodi
    11_155_111: 0,  # Sepolia
    56: 0,  # BNB Smart Chain
    97: 0,  # its test network
    100: 0,  # Gnosis
    10_200: 0,  # Chiado
}
_OP_STACKS: Final = (
    10,  # OP Mainnet
    69,  # OP Kovan
    420,  # OP Goerli
    11_155_420,  # OP Sepolia
    8453,  # Base
    84_531,  # Base Goerli
    84_532,  # Base Sepolia
    130,  # Unichain
    480,  # World Chain
    1135,  # Lisk
    1868,  # Soneium
    34_443,  # Mode
    57_073,  # Ink
    7_777_777,  # Zora
)
_POLYGONS: Final = (137, 80_001, 80_002)

_BY_CHAIN_ID: Final[Mapping[int, Profile]] = {
    **{
        chain_id: ETHEREUM._replace(statuses_from=height)
        for chain_id, height in _ETHEREUM_LIKE.items()
    },
    **dict.fromkeys(_OP_STACKS, OP_STACK),
    **dict.fromkeys(_POLYGONS, POLYGON),
    # Nitro's genesis; before it, receipts were hashed another way.
    42_161: ARBITRUM._replace(receipts_from=22_207_817),
    42_170: ARBITRUM,  # Nova
    421_613: ARBITRUM,  # Arbitrum Goerli
    421_614: ARBITRUM,  # Arbitrum Sepolia
}

_PROBED: Final = "probed:"


def profile_of(chain_id: int) -> Profile | None:
    """Return the profile of a known chain; of another, ask its blocks (``probe``)."""
    return _BY_CHAIN_ID.get(chain_id)


def probed_profile(proves: frozenset[Commitment]) -> Profile:
    """Return the profile of a chain whose blocks have shown what can be proven."""
    name = _PROBED + "+".join(item for item in Commitment if item in proves)
    return UNKNOWN._replace(name=name, proves=proves)


def recalled_profile(name: str) -> Profile | None:
    """Return the profile that probing has given this name, None for another's."""
    if not name.startswith(_PROBED):
        return None
    listed = name.removeprefix(_PROBED)
    parts = frozenset(listed.split("+") if listed else ())
    if not parts <= frozenset(Commitment):
        return None
    return probed_profile(frozenset(map(Commitment, parts)))
