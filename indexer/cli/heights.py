"""Heights on the command line."""

from __future__ import annotations

import click

# Payloads and tables hold heights as bigint.
_HIGHEST = 2**62


def height(_ctx: click.Context, _param: click.Parameter, value: str) -> int:
    """Read a height; raises BadParameter for what is none."""
    try:
        number = int(value)
    except ValueError:
        raise click.BadParameter(f"{value!r} is not a height") from None
    if number < 0:
        raise click.BadParameter(f"{number} is negative; heights start at 0")
    if number > _HIGHEST:
        raise click.BadParameter(f"{number} is above every height there can be")
    return number


def optional_height(
    ctx: click.Context, param: click.Parameter, value: str | None
) -> int | None:
    """Read a height that need not be given."""
    return None if value is None else height(ctx, param, value)
