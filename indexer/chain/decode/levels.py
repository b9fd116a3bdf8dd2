"""The objects replies are made of, and how they learn the fields of a chain.

A reply is decoded into structs that forbid unknown fields, which is the fastest
there is. When a chain sends a field we have no column for, the names are found
once, structs are built that carry them as raw JSON, and later replies of that chain
are decoded at the same speed.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, Generic, NamedTuple, TypeVar

import msgspec
from msgspec import Raw, Struct

from indexer.chain.decode.extras import (
    REPLACEMENT,
    Extras,
    storable,
    with_whole_pairs,
)
from indexer.chain.decode.kinds import ABSENT, BadValue, JsonText, Kind

# No chain is known to have more than 14 fields of its own on one level; past this
# many, names are looked up anew for every reply instead of being kept for ever.
R = TypeVar("R")

LEARNED_NAMES: Final = 64

# Names msgspec gives no field; no chain has such.
_UNREADABLE: Final = re.compile(r'[\x00-\x1f"\\]')

REQUIRED: Final = msgspec.NODEFAULT


class BadField(ValueError):
    """A field of row ``row`` of a level cannot be what it should be."""

    def __init__(self, name: str, row: int, problem: str) -> None:
        super().__init__(problem)
        self.name = name
        self.row = row
        self.problem = problem


class Field(NamedTuple):
    """A field of a reply that has a column."""

    name: str
    kind: Kind[Any, Any]
    required: bool = False

    def member(self) -> tuple[str, Any, Any]:
        """Return attribute, type and default for the struct."""
        annotation = self.kind.annotation
        if annotation is Raw:
            return attribute(self.name), Raw, ABSENT
        if self.required:
            return attribute(self.name), annotation, REQUIRED
        return attribute(self.name), annotation | None, None


class Parsed(NamedTuple):
    """The columns of a level, one value a row, and what goes beside them.

    ``columns`` are in the order of the level's fields, ``others`` by JSON name.
    """

    columns: list[Sequence[Any]]
    others: Mapping[str, Sequence[Any]]
    extras: Extras


class Other(NamedTuple):
    """A known field without a column of its own."""

    annotation: Any
    default: Any = msgspec.UNSET


class Level:
    """One kind of object in a reply: a block, a transaction, a receipt, a log."""

    def __init__(
        self,
        fields: Sequence[Field],
        others: Mapping[str, Other],
        lists: Mapping[str, tuple[Level, bool]] | None = None,
    ) -> None:
        """Describe a level.

        ``lists`` are the levels below: JSON name, level, and whether it must be
        there.
        """
        self.fields = tuple(fields)
        self.others = dict(others)
        self.lists = dict(lists or {})
        names = [field.name for field in fields]
        self.names: Final = (*names, *self.others, *self.lists)
        self._ones = [field.kind.one for field in fields]
        self._json = [
            position
            for position, field in enumerate(fields)
            if isinstance(field.kind, JsonText)
        ]
        self._no_others: dict[str, Sequence[Any]] = {name: () for name in self.others}

    def struct(self, learned: Mapping[Level, Sequence[str]]) -> type[Struct]:
        """Build the struct that takes the known fields and the learned ones."""
        members: list[tuple[str, Any, Any]] = [field.member() for field in self.fields]
        for name, other in self.others.items():
            members.append((attribute(name), other.annotation, other.default))
        for name, (below, required) in self.lists.items():
            items: Any = list[below.struct(learned)]  # type: ignore[misc]
            if required:
                members.append((attribute(name), items, REQUIRED))
            else:
                members.append((attribute(name), items | None, None))
        rename = {attribute(name): name for name in self.names}
        for position, name in enumerate(learned.get(self, ())):
            members.append((f"learned_{position}", Raw, ABSENT))
            rename[f"learned_{position}"] = name
        return msgspec.defstruct(
            "Reply",
            members,
            rename=rename,
            kw_only=True,
            forbid_unknown_fields=True,
            gc=False,
        )

    def unknown(self, raw: bytes | Raw, found: dict[Level, dict[str, None]]) -> None:
        """Add the names in ``raw``, one object, that this level does not know.

        What is no object is passed over: decoding it tells where it stands.
        """
        try:
            members = msgspec.json.decode(raw, type=dict[str, Raw])
        except msgspec.ValidationError:
            return
        for name, value in members.items():
            if name in self.lists:
                for item in _items(value):
                    self.lists[name][0].unknown(item, found)
            elif name not in self.names:
                if _UNREADABLE.search(name):
                    raise msgspec.ValidationError(f"a field is named {name!r}")
                found.setdefault(self, {})[name] = None

    def parse(self, objects: Sequence[Any]) -> Parsed:
        """Parse the columns of some objects of this level; raises BadField."""
        extras = Extras(len(objects))
        if not objects:
            return Parsed([()] * len(self.fields), self._no_others, extras)
        members = list(zip(*map(msgspec.structs.astuple, objects), strict=True))
        columns = (self._single if len(objects) == 1 else self._columns)(members)
        first = len(self.fields)
        others = dict(zip(self.others, members[first:], strict=False))
        self._mark_altered(columns, members, extras)
        learned = type(objects[0]).__struct_encode_fields__[len(self.names) :]
        for name, values in zip(learned, members[len(self.names) :], strict=True):
            _keep(name, values, extras)
        return Parsed(columns, others, extras)

    def _single(self, members: Sequence[Sequence[Any]]) -> list[Sequence[Any]]:
        """Do what :meth:`_columns` does for one row, where columns cost more."""
        try:
            return [
                (None if value is None else one(value),)
                for one, (value,) in zip(self._ones, members, strict=False)
            ]
        except ValueError:
            return self._columns(members)

    def _columns(self, members: Sequence[Sequence[Any]]) -> list[Sequence[Any]]:
        columns: list[Sequence[Any]] = []
        for field, values in zip(self.fields, members, strict=False):
            try:
                columns.append(field.kind.column(values))
            except BadValue as error:
                raise BadField(field.name, error.index, error.problem) from None
        return columns

    def _mark_altered(
        self,
        columns: Sequence[Sequence[str | None]],
        members: Sequence[Sequence[Any]],
        extras: Extras,
    ) -> None:
        """Note which JSON columns hold text that is not quite what was sent."""
        for position in self._json:
            for row, text in enumerate(columns[position]):
                if text is not None and REPLACEMENT in text:
                    _, altered = storable(members[position][row])
                    if altered:
                        extras.altered(row, f'"{self.names[position]}"')


def attribute(name: str) -> str:
    """Return the attribute a known JSON name has on its struct."""
    return f"{name}_" if keyword.iskeyword(name) else name


def _items(raw: bytes | Raw) -> list[Raw]:
    try:
        return msgspec.json.decode(raw, type=list[Raw])
    except msgspec.ValidationError:
        return []


def _keep(name: str, values: Sequence[Raw], extras: Extras) -> None:
    for row, raw in enumerate(values):
        if raw is not ABSENT:
            try:
                extras.keep(row, name, raw)
            except ValueError as error:
                raise BadField(name, row, str(error)) from None


class Reply(Generic[R]):
    """Decodes replies of one kind into ``R``, made of one level, and learns."""

    def __init__(self, level: Level, *, many: bool) -> None:
        self._level = level
        self._many = many
        self._learned: dict[Level, tuple[str, ...]] = {}
        self._decoder = self._build(self._learned)

    def decode(self, raw: bytes | Raw) -> R:
        """Return the struct, or the list of structs where there are many.

        Raises msgspec.DecodeError (of which ValidationError is one) for what cannot
        be a reply of this kind.
        """
        try:
            value: R = self._decoder.decode(raw)
            return value
        except msgspec.ValidationError as error:
            if not str(error).startswith("Object contains unknown field"):
                raise
        except msgspec.DecodeError:
            whole = with_whole_pairs(bytes(raw))
            if whole == bytes(raw):
                raise
            return self.decode(whole)
        learned = self._learn(raw)
        decoder = self._build(learned)
        value = decoder.decode(raw)
        if all(len(names) <= LEARNED_NAMES for names in learned.values()):
            self._learned = learned
            self._decoder = decoder
        return value

    def _learn(self, raw: bytes | Raw) -> dict[Level, tuple[str, ...]]:
        found = {level: dict.fromkeys(names) for level, names in self._learned.items()}
        if self._many:
            for item in _items(raw):
                self._level.unknown(item, found)
        else:
            self._level.unknown(raw, found)
        return {level: tuple(names) for level, names in found.items()}

    def _build(
        self, learned: Mapping[Level, Sequence[str]]
    ) -> msgspec.json.Decoder[Any]:
        item: Any = self._level.struct(learned)
        return msgspec.json.Decoder(list[item] if self._many else item)
