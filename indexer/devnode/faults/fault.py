"""A fault as plain values, and the reading of it from text."""

from __future__ import annotations

import msgspec


class Fault(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One thing that goes wrong, of a kind that ``KINDS`` names.

    ``method`` limits it to calls of one method, ``from_height`` and ``to_height``
    to calls about these heights (inclusive). The first ``skip`` times nothing
    happens, then ``times`` times it does, or always; only where there is something
    to spoil is a time. What the other fields mean is said by the kind; zero and
    empty stand for the kind's own value.
    """

    kind: str
    method: str | None = None
    from_height: int | None = None
    to_height: int | None = None
    skip: int = 0
    times: int | None = None
    count: int = 0
    height: int = 0
    seed: int = 0
    seconds: float = 0.0
    rate: float = 0.0
    status: int = 0
    body: str = ""
    retry_after: int | None = None
    code: int = 0
    message: str = ""
    field: str = ""

    def covers(self, heights: range | None) -> bool:
        """Return whether a call about these heights is concerned.

        ``None`` is a call about no block, or about one that nobody knows.
        """
        if self.from_height is None and self.to_height is None:
            return True
        if heights is None:
            return False
        above = self.from_height is None or heights.stop > self.from_height
        return above and (self.to_height is None or heights.start <= self.to_height)


_FAULTS = msgspec.json.Decoder(list[Fault | str])


def parse_fault(text: str) -> Fault:
    """Read ``kind`` or ``kind:name=value,name=value``.

    Raises:
        ValueError: a field is unknown, or its value is of another type.
    """
    kind, _, rest = text.strip().partition(":")
    fields: dict[str, str] = {}
    for part in rest.split(",") if rest else ():
        name, equals, value = part.partition("=")
        if not equals:
            raise ValueError(f"wanted name=value, not {part!r}")
        fields[name.strip()] = value
    try:
        return msgspec.convert({"kind": kind, **fields}, Fault, strict=False)
    except msgspec.ValidationError as error:
        raise ValueError(f"in the fault {text!r}: {error}") from error


def parse_faults(text: str) -> tuple[Fault, ...]:
    """Read faults: a JSON array, or the short form with ``;`` in between.

    Raises:
        ValueError: it is neither.
    """
    if text.lstrip().startswith("["):
        try:
            found = _FAULTS.decode(text)
        except msgspec.DecodeError as error:
            raise ValueError(str(error)) from error
        return tuple(parse_fault(one) if isinstance(one, str) else one for one in found)
    return tuple(parse_fault(part) for part in text.split(";") if part.strip())
