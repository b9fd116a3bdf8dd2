"""A contract that emits the logs it is told to, and a chain full of them.

Its call data is a list of records: a byte with the number of topics, two bytes with
the length of the data, the topics, the data. It emits one log a record; a record
that begins with 0xff reverts the whole transaction.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from eth_account import Account
from eth_account.signers.local import LocalAccount
from eth_account.typed_transactions import base
from eth_utils.address import to_checksum_address

from tests.support.anvil import Anvil
from tests.support.evm import assemble, deployment

# It is read three times for every blob otherwise, at two seconds each.
_LOAD = "load_trusted_setup"
setattr(base, _LOAD, cache(getattr(base, _LOAD)))

# The first accounts of anvil's well-known test phrase, worth nothing anywhere.
DEV_KEYS = (
    "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80",
    "0x59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d",
    "0x5de4111afa1a4b94908f83103eb1f1706367c2e68ca870fc3fb9a804cdab365a",
    "0x7c852118294e51e653712a81e05800f419141751be58f605c371e15141b007a6",
)
REVERT = b"\xff\x00\x00"
# Memory: the position in the call data at 0x00, the record's number of topics at
# 0x20, the length of its data at 0x40, its data from 0x60.
RUNTIME = assemble(
    """
    loop:
      CALLDATASIZE 0x00 MLOAD LT ISZERO @end JUMPI
      0x00 MLOAD CALLDATALOAD 248 SHR 0x20 MSTORE
      0x00 MLOAD CALLDATALOAD 232 SHR 0xffff AND 0x40 MSTORE
      0x00 MLOAD 3 ADD 0x00 MSTORE
      4 0x20 MLOAD GT @revert JUMPI
      0x40 MLOAD  0x20 MLOAD 32 MUL 0x00 MLOAD ADD  0x60 CALLDATACOPY
      0x20 MLOAD 0 EQ @emit0 JUMPI
      0x20 MLOAD 1 EQ @emit1 JUMPI
      0x20 MLOAD 2 EQ @emit2 JUMPI
      0x20 MLOAD 3 EQ @emit3 JUMPI
      @emit4 JUMP
    ; the last topic is pushed first; then size and offset of the data
    emit0:
      0x40 MLOAD 0x60 LOG0 @next JUMP
    emit1:
      0x00 MLOAD CALLDATALOAD
      0x40 MLOAD 0x60 LOG1 @next JUMP
    emit2:
      0x00 MLOAD 32 ADD CALLDATALOAD  0x00 MLOAD CALLDATALOAD
      0x40 MLOAD 0x60 LOG2 @next JUMP
    emit3:
      0x00 MLOAD 64 ADD CALLDATALOAD  0x00 MLOAD 32 ADD CALLDATALOAD
      0x00 MLOAD CALLDATALOAD
      0x40 MLOAD 0x60 LOG3 @next JUMP
    emit4:
      0x00 MLOAD 96 ADD CALLDATALOAD  0x00 MLOAD 64 ADD CALLDATALOAD
      0x00 MLOAD 32 ADD CALLDATALOAD  0x00 MLOAD CALLDATALOAD
      0x40 MLOAD 0x60 LOG4 @next JUMP
    next:
      0x00 MLOAD  0x20 MLOAD 32 MUL ADD  0x40 MLOAD ADD  0x00 MSTORE
      @loop JUMP
    end:
      STOP
    revert:
      0 0 REVERT
    """
)


def record(*topics: bytes, data: bytes = b"") -> bytes:
    """Return call data that makes the contract emit one log."""
    head = bytes([len(topics)]) + len(data).to_bytes(2)
    return head + b"".join(topic.rjust(32, b"\0") for topic in topics) + data


def topic(*words: object) -> bytes:
    """Return a topic of 32 bytes that is different for different words."""
    return hashlib.sha256(repr(words).encode()).digest()


class Sender:
    """An account that signs its transactions itself and counts its nonces."""

    def __init__(self, node: Anvil, key: str) -> None:
        account: LocalAccount = Account.from_key(key)
        self.account = account
        self.node = node
        self.chain_id = int(node.rpc("eth_chainId"), 16)
        count = node.rpc("eth_getTransactionCount", account.address, "pending")
        self.nonce = int(count, 16)

    def send(self, kind: int, blobs: list[bytes] | None = None, **fields: Any) -> str:
        """Sign and send a transaction of type ``kind``; return its hash."""
        transaction: dict[str, Any] = {
            "chainId": self.chain_id,
            "nonce": self.nonce,
            "gas": 500_000,
            "value": 0,
            **fields,
        }
        if kind < 2:
            transaction["gasPrice"] = 3_000_000_000
        else:
            transaction["maxFeePerGas"] = 3_000_000_000
            transaction["maxPriorityFeePerGas"] = 1_000_000_000
        if kind > 0:
            transaction["type"] = kind
        signed = self.account.sign_transaction(transaction, blobs=blobs)
        raw = "0x" + signed.raw_transaction.hex().removeprefix("0x")
        sent: str = self.node.rpc("eth_sendRawTransaction", raw)
        self.nonce += 1
        return sent

    def deploy(self) -> str:
        """Create the contract in a block of its own, and return its address."""
        sent = self.send(2, data=deployment(RUNTIME))
        self.node.mine()
        receipt = self.node.rpc("eth_getTransactionReceipt", sent)
        return str(to_checksum_address(receipt["contractAddress"]))

    def authorization(self, address: str, *, nonce: int | None = None) -> Any:
        """Let the account run a contract's code, as a type 4 transaction says."""
        return self.account.sign_authorization(
            {
                "chainId": self.chain_id,
                "address": address,
                "nonce": self.nonce if nonce is None else nonce,
            }
        )


@dataclass
class Chain:
    """What :func:`build_chain` made; hashes are as the node gives them."""

    head: int
    contract: str
    transactions: dict[int, list[str]] = field(default_factory=dict)
    reverted: list[str] = field(default_factory=list)

    @property
    def hashes(self) -> list[str]:
        return [each for kind in self.transactions.values() for each in kind]


def every_kind_of_log(mark: object) -> bytes:
    """Return call data for logs with 0 to 4 topics and data of odd lengths."""
    return b"".join(
        [
            record(data=b"no topic"),
            record(),
            record(topic(mark, 1), data=b"\x00" * 32),
            record(topic(mark, 1), topic(mark, 2), data=b"\x01"),
            record(topic(mark, 1), topic(mark, 2), topic(mark, 3), data=b"\x02" * 33),
            record(*(topic(mark, n) for n in range(4)), data=b"\x03" * 1000),
            record(*(topic(mark, n) for n in range(4))),
            record(b"", data=b"a topic that is zero, and \x00 in the data"),
        ]
    )


def build_chain(node: Anvil, *, rounds: int = 5) -> Chain:
    """Mine blocks with every type of transaction, logs, failures and none.

    A round is eight blocks, two of them empty; ``node`` runs with ``--no-mining``.
    """
    senders = [Sender(node, key) for key in DEV_KEYS]
    chain = Chain(head=0, contract=senders[0].deploy())
    for number in range(rounds):
        _round(node, senders, chain, number)
    chain.head = node.mine()
    return chain


def _round(node: Anvil, senders: Sequence[Sender], chain: Chain, number: int) -> None:
    legacy, listed, dynamic, delegating = senders
    contract, logs = chain.contract, every_kind_of_log(number)

    def sent(kind: int, transaction: str) -> None:
        chain.transactions.setdefault(kind, []).append(transaction)

    sent(0, legacy.send(0, to=contract, data=logs))
    node.mine()
    access = [
        {
            "address": contract,
            "storageKeys": ["0x" + topic("slot").hex(), "0x" + "0" * 64],
        }
    ]
    sent(1, listed.send(1, to=contract, data=logs, accessList=access))
    sent(1, listed.send(1, to=contract, data=b"", accessList=[]))
    node.mine(2)
    for sender in senders:
        sent(2, sender.send(2, to=contract, data=logs, accessList=access))
        sent(2, sender.send(2, to=legacy.account.address, value=10**18 + number))
        sent(0, sender.send(0, to=contract, data=record(topic("same")) * 3))
    node.mine()
    failed = dynamic.send(2, to=contract, data=record(topic("lost")) + REVERT)
    chain.reverted.append(failed)
    sent(2, failed)
    node.mine()
    blob = bytes(31) + bytes([number]) + bytes(32 * 4095)
    sent(
        3,
        dynamic.send(3, blobs=[blob], to=contract, maxFeePerBlobGas=10**10, data=logs),
    )
    node.mine()
    # The sender's own nonce is raised before its authorization is looked at.
    allowed = delegating.authorization(contract, nonce=delegating.nonce + 1)
    to = delegating.account.address
    sent(4, delegating.send(4, to=to, data=logs, authorizationList=[allowed]))
    delegating.nonce += 1
    node.mine(2)
