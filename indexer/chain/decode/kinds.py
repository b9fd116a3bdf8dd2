"""How the kinds of fields are parsed, one by one or a whole column at once.

``one`` is the definition of what is valid. ``column`` gives the same values for a
column of a block's rows at a third of the cost: it parses all of them without
looking, then checks in aggregate that nothing lax was accepted, and on any doubt
goes over the column again with ``one``, which also finds which value is wrong.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from operator import itemgetter
from typing import Any, Final, Generic, TypeVar

from msgspec import Raw

from indexer.chain.decode.extras import as_stored, storable

V = TypeVar("V")
T = TypeVar("T")

BIGINT: Final = 2**63 - 1
INTEGER: Final = 2**31 - 1
SMALLINT: Final = 2**15 - 1
NUMERIC_20: Final = 10**20 - 1
UINT256: Final = 2**256 - 1

# The value of a raw field that is not in the reply.
ABSENT: Final = Raw(b"")

_PREFIX: Final = itemgetter(slice(2))
_DIGITS: Final = itemgetter(slice(2, None))
_NO_JSON: Final = ("", "null")
_HEX_DIGITS: Final = frozenset("0123456789abcdefABCDEF")


class BadValue(ValueError):
    """A value is not what its field says; ``index`` is its row in the column."""

    def __init__(self, index: int, problem: str) -> None:
        super().__init__(problem)
        self.index = index
        self.problem = problem


class Kind(ABC, Generic[V, T]):
    """How a field's value ``V`` in a decoded reply becomes ``T`` in a row.

    ``annotation`` is the type the reply is decoded into, where the field is there.
    """

    annotation: Any = str

    @abstractmethod
    def one(self, value: V) -> T:
        """Parse one value; raises ValueError with what is wrong."""

    def column(self, values: Sequence[V | None]) -> Sequence[T | None]:
        """Parse a column; ``None`` stays ``None``. Raises BadValue."""
        parsed: list[T | None] = []
        for index, value in enumerate(values):
            try:
                parsed.append(None if value is None else self.one(value))
            except ValueError as error:
                raise BadValue(index, str(error)) from None
        return parsed

    def _around_none(self, values: Sequence[V | None]) -> Sequence[T | None]:
        rows = [row for row, value in enumerate(values) if value is not None]
        column: list[T | None] = [None] * len(values)
        if not rows:
            return column
        try:
            parsed = self.column([values[row] for row in rows])
        except BadValue as error:
            raise BadValue(rows[error.index], error.problem) from None
        for row, value in zip(rows, parsed, strict=True):
            column[row] = value
        return column


class Quantity(Kind[str, int]):
    """A number as ``0x`` and hex digits, no larger than its column can hold.

    Leading zeros are accepted, for real nodes send them; ``0x`` alone is not.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit

    def one(self, value: str) -> int:
        """Parse one quantity; raises ValueError with what is wrong."""
        digits = value[2:]
        if value[:2] != "0x" or not digits or not _HEX_DIGITS.issuperset(digits):
            raise ValueError(f"{shortened(value)} is not a 0x-quantity")
        number = int(digits, 16)
        if number > self.limit:
            raise ValueError(f"{shortened(value)} is larger than {self.limit}")
        return number

    def column(self, values: Sequence[str | None]) -> Sequence[int | None]:
        """Parse a column; ``None`` stays ``None``. Raises BadValue."""
        try:
            # "z" is neither hex nor x, so nothing can form across two values; and
            # int() takes signs, blanks, underscores and foreign digits, none of
            # which is alphanumeric as a byte (str.isalnum costs ten times as much).
            joined = "z".join(values).encode()  # type: ignore[arg-type]
        except TypeError:
            return self._around_none(values)
        if joined.isalnum() and joined.count(b"0x") == len(values):
            try:
                numbers = [int(text, 16) for text in values]  # type: ignore[arg-type]
            except ValueError:
                return super().column(values)
            if max(numbers) <= self.limit:
                return numbers
        return super().column(values)


class Data(Kind[str, bytes]):
    """Bytes as ``0x`` and pairs of hex digits; of one of ``sizes`` if any is given."""

    def __init__(self, *sizes: int) -> None:
        self.sizes = frozenset(sizes)

    def one(self, value: str) -> bytes:
        """Parse one value; raises ValueError with what is wrong."""
        if value[:2] != "0x":
            raise ValueError(f"{shortened(value)} does not begin with 0x")
        try:
            data = bytes.fromhex(value[2:])
        except ValueError:
            raise ValueError(f"{shortened(value)} is not pairs of hex digits") from None
        # fromhex() skips blanks, so the length tells.
        if 2 * len(data) + 2 != len(value):
            raise ValueError(f"{shortened(value)} is not pairs of hex digits")
        if self.sizes and len(data) not in self.sizes:
            wanted = " or ".join(str(size) for size in sorted(self.sizes))
            raise ValueError(f"{shortened(value)} has {len(data)} bytes, not {wanted}")
        return data

    def column(self, values: Sequence[str | None]) -> Sequence[bytes | None]:
        """Parse a column; ``None`` stays ``None``. Raises BadValue."""
        try:
            parsed = list(map(bytes.fromhex, map(_DIGITS, values)))  # type: ignore[arg-type]
            prefixes = set(map(_PREFIX, values))  # type: ignore[arg-type]
        except TypeError:
            return self._around_none(values)
        except ValueError:
            return super().column(values)
        digits = sum(map(len, values)) - 2 * len(values)  # type: ignore[arg-type]
        if (
            prefixes <= {"0x"}
            and digits == 2 * sum(map(len, parsed))
            and (not self.sizes or self.sizes.issuperset(map(len, parsed)))
        ):
            return parsed
        return super().column(values)


class Remembered(Kind[str, T]):
    """Another kind, for columns whose values come again and again.

    Looking a text up costs a third of parsing it, and a column with gaps no more
    than one without.
    """

    # About 4 MB an instance, when full of hashes.
    _MOST = 16_384

    def __init__(self, kind: Kind[str, T]) -> None:
        self._kind = kind
        self._known: dict[str | None, T | None] = {None: None}

    def one(self, value: str) -> T:
        """Parse one value; raises ValueError with what is wrong."""
        return self._kind.one(value)

    def column(self, values: Sequence[str | None]) -> Sequence[T | None]:
        """Parse a column; ``None`` stays ``None``. Raises BadValue."""
        known = self._known
        try:
            return [known[value] for value in values]
        except KeyError:
            pass
        news = list(set(values).difference(known))
        try:
            parsed = self._kind.column(news)
        except BadValue:
            return super().column(values)
        if len(known) > self._MOST:
            known = self._known = {None: None}
            return self.column(values)
        known.update(zip(news, parsed, strict=True))
        return [known[value] for value in values]


class HashList(Kind[list[str], tuple[bytes, ...]]):
    """A list of hashes."""

    annotation = list[str]

    def __init__(self) -> None:
        self._hash = Data(32)

    def one(self, value: list[str]) -> tuple[bytes, ...]:
        """Parse one list; raises ValueError."""
        return tuple(map(self._hash.one, value))


class JsonText(Kind[Raw, str | None]):
    """A value kept as JSON text; absent and null are ``None``."""

    annotation = Raw

    def one(self, value: Raw) -> str | None:
        """Return text that ``jsonb`` accepts; raises ValueError."""
        if value is ABSENT:
            return None
        text, _ = storable(value)
        return None if text == "null" else text

    def column(self, values: Sequence[Raw | None]) -> Sequence[str | None]:
        """Parse a column; usually nothing is there at all. Raises BadValue."""
        if values.count(ABSENT) == len(values):
            return [None] * len(values)
        # One look at all of them together; a line break within one only means that
        # each is looked at by itself.
        plain = as_stored(b"\n".join(values))  # type: ignore[arg-type]
        texts = [] if plain is None else plain.split("\n")
        if len(texts) != len(values):
            return super().column(values)
        return [None if text in _NO_JSON else text for text in texts]


def shortened(text: str) -> str:
    """Quote a value for an error message without its megabytes."""
    return repr(text) if len(text) <= 80 else f"{text[:60]!r}… ({len(text)} characters)"
