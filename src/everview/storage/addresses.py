"""Addresses: how a frame inside a packed file is named."""

from __future__ import annotations


def address_of(file: str, offset: int, size: int) -> str:
    """Return the address of a frame in a packed file.

    >>> address_of("views/packed-7.arrow", 64, 800)
    'views/packed-7.arrow#64+800'
    """
    return f"{file}#{offset}+{size}"


def file_of(path: str) -> str:
    """Return the file of a path or an address.

    >>> file_of("views/packed-7.arrow#64+800"), file_of("views/v/1.arrow")
    ('views/packed-7.arrow', 'views/v/1.arrow')
    """
    return path.partition("#")[0]


def split_address(path: str) -> tuple[str, tuple[int, int] | None]:
    """Return a file, and offset and size in it if the path is an address."""
    file, _, place = path.partition("#")
    offset, _, size = place.partition("+")
    return file, (int(offset), int(size)) if place else None
