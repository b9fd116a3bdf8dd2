"""Parse the hex scalars of JSON-RPC, one by one or a whole column at once.

``one`` is the definition of what is valid. ``column`` gives the same values for a
column of a block's rows at a third of the cost: it parses all of them without
looking, then checks in aggregate that nothing lax was accepted, and on any doubt
goes over the column again with ``one``, which also finds which value is wrong.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Final, Generic, TypeVar

BIGINT: Final = 2**63 - 1
INTEGER: Final = 2**31 - 1
SMALLINT: Final = 2**15 - 1
NUMERIC_20: Final = 10**20 - 1
UINT256: Final = 2**256 - 1

T = TypeVar("T")
Texts = Sequence[str | None]

_HEX_DIGITS: Final = frozenset("0123456789abcdefABCDEF")


class BadValue(ValueError):
    """A value is not what its field says; ``index`` is its row in the column."""

    def __init__(self, index: int, problem: str) -> None:
        super().__init__(problem)
        self.index = index
        self.problem = problem


class Scalar(ABC, Generic[T]):
    """How the text of one kind of field becomes a value."""

    @abstractmethod
    def one(self, text: str) -> T:
        """Parse one value; raises ValueError with what is wrong."""

    @abstractmethod
    def column(self, texts: Texts) -> Sequence[T | None]:
        """Parse a column; ``None`` stays ``None``. Raises BadValue."""

    def _around_none(self, texts: Texts) -> list[T | None]:
        rows = [row for row, text in enumerate(texts) if text is not None]
        values: list[T | None] = [None] * len(texts)
        if not rows:
            return values
        try:
            parsed = self.column([texts[row] for row in rows])
        except BadValue as error:
            raise BadValue(rows[error.index], error.problem) from None
        for row, value in zip(rows, parsed, strict=True):
            values[row] = value
        return values

    def _one_by_one(self, texts: Texts) -> list[T | None]:
        values: list[T | None] = []
        for index, text in enumerate(texts):
            try:
                values.append(None if text is None else self.one(text))
            except ValueError as error:
                raise BadValue(index, str(error)) from None
        return values


class Quantity(Scalar[int]):
    """A number as ``0x`` and hex digits, no larger than its column can hold.

    Leading zeros are accepted, for real nodes send them; ``0x`` alone is not.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit

    def one(self, text: str) -> int:
        """Parse one quantity; raises ValueError with what is wrong."""
        digits = text[2:]
        if text[:2] != "0x" or not digits or not _HEX_DIGITS.issuperset(digits):
            raise ValueError(f"{shortened(text)} is not a 0x-quantity")
        number = int(digits, 16)
        if number > self.limit:
            raise ValueError(f"{shortened(text)} is larger than {self.limit}")
        return number

    def column(self, texts: Texts) -> Sequence[int | None]:
        """Parse a column; ``None`` stays ``None``. Raises BadValue."""
        try:
            # "z" is neither hex nor x, so nothing can form across two values; and
            # int() takes signs, blanks, underscores and foreign digits, which
            # isalnum() and isascii() rule out.
            joined = "z".join(texts)  # type: ignore[arg-type]
        except TypeError:
            return self._around_none(texts)
        if joined.isalnum() and joined.isascii() and joined.count("0x") == len(texts):
            try:
                numbers = [int(text, 16) for text in texts]  # type: ignore[arg-type]
            except ValueError:
                return self._one_by_one(texts)
            if max(numbers) <= self.limit:
                return numbers
        return self._one_by_one(texts)


class Data(Scalar[bytes]):
    """Bytes as ``0x`` and pairs of hex digits; of one of ``sizes`` if any is given."""

    def __init__(self, *sizes: int) -> None:
        self.sizes = frozenset(sizes)

    def one(self, text: str) -> bytes:
        """Parse one value; raises ValueError with what is wrong."""
        if text[:2] != "0x":
            raise ValueError(f"{shortened(text)} does not begin with 0x")
        try:
            data = bytes.fromhex(text[2:])
        except ValueError:
            raise ValueError(f"{shortened(text)} is not pairs of hex digits") from None
        # fromhex() skips blanks, so the length tells.
        if 2 * len(data) + 2 != len(text):
            raise ValueError(f"{shortened(text)} is not pairs of hex digits")
        if self.sizes and len(data) not in self.sizes:
            wanted = " or ".join(str(size) for size in sorted(self.sizes))
            raise ValueError(f"{shortened(text)} has {len(data)} bytes, not {wanted}")
        return data

    def column(self, texts: Texts) -> Sequence[bytes | None]:
        """Parse a column; ``None`` stays ``None``. Raises BadValue."""
        fromhex = bytes.fromhex
        try:
            parsed = [fromhex(text[2:]) for text in texts]  # type: ignore[index]
            prefixes = {text[:2] for text in texts}  # type: ignore[index]
        except TypeError:
            return self._around_none(texts)
        except ValueError:
            return self._one_by_one(texts)
        digits = sum(map(len, texts)) - 2 * len(texts)  # type: ignore[arg-type]
        if (
            prefixes <= {"0x"}
            and digits == 2 * sum(map(len, parsed))
            and (not self.sizes or self.sizes.issuperset(map(len, parsed)))
        ):
            return parsed
        return self._one_by_one(texts)


def shortened(text: str) -> str:
    """Quote a value for an error message without its megabytes."""
    return repr(text) if len(text) <= 80 else f"{text[:60]!r}… ({len(text)} characters)"
