"""An assembler for the few EVM opcodes that the test contract needs."""

from __future__ import annotations

_OPCODES = {
    "STOP": 0x00,
    "ADD": 0x01,
    "MUL": 0x02,
    "LT": 0x10,
    "GT": 0x11,
    "EQ": 0x14,
    "ISZERO": 0x15,
    "AND": 0x16,
    "SHR": 0x1C,
    "CALLDATALOAD": 0x35,
    "CALLDATASIZE": 0x36,
    "CALLDATACOPY": 0x37,
    "CODECOPY": 0x39,
    "MLOAD": 0x51,
    "MSTORE": 0x52,
    "JUMP": 0x56,
    "JUMPI": 0x57,
    "JUMPDEST": 0x5B,
    "LOG0": 0xA0,
    "LOG1": 0xA1,
    "LOG2": 0xA2,
    "LOG3": 0xA3,
    "LOG4": 0xA4,
    "RETURN": 0xF3,
    "REVERT": 0xFD,
}
_PUSH2 = 0x61


def assemble(source: str) -> bytes:
    """Return the code of a program.

    Words are opcodes, numbers (pushed as two bytes), ``name:`` (a place to jump
    to) and ``@name`` (its address, pushed); ``;`` begins a comment.
    """
    code = bytearray()
    places: dict[str, int] = {}
    uses: list[tuple[int, str]] = []
    for line in source.splitlines():
        for word in line.partition(";")[0].split():
            if word.endswith(":"):
                places[word[:-1]] = len(code)
                code.append(_OPCODES["JUMPDEST"])
            elif word.startswith("@"):
                uses.append((len(code) + 1, word[1:]))
                code += bytes([_PUSH2, 0, 0])
            elif word[0].isdigit():
                code += bytes([_PUSH2]) + int(word, 0).to_bytes(2)
            else:
                code.append(_OPCODES[word])
    for position, name in uses:
        code[position : position + 2] = places[name].to_bytes(2)
    return bytes(code)


def deployment(runtime: bytes) -> bytes:
    """Return creation code that leaves ``runtime`` as the contract's code."""
    size = len(runtime)
    # The prologue's own length is where the runtime begins.
    prologue = assemble(f"{size} 0 0 CODECOPY {size} 0 RETURN")
    start = len(prologue)
    return assemble(f"{size} {start} 0 CODECOPY {size} 0 RETURN") + runtime
