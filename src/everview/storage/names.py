"""Names that users chose, as parts of file names: safe on every file system, different, and readable."""

from __future__ import annotations

import hashlib
import re
import unicodedata

_PLAIN = re.compile(r"[a-z_][a-z0-9_]{0,39}")
_READABLE = 40


def safe_name(name: str) -> str:
    """Return a part of a file name for a name; names that differ in case only have the same one.

    A plain name stays as it is. Of any other as much is kept as can be read, and a hash of the whole
    keeps it apart; no plain name has a `~`.

    >>> safe_name("Highway"), safe_name("grüne Wiese"), safe_name("../../etc/passwd")
    ('highway', 'grune_wiese~5af79d65d6c9', 'etc_passwd~3fe5b8a45dc8')
    """
    folded = name.casefold()
    if _PLAIN.fullmatch(folded):
        return folded
    ascii_only = unicodedata.normalize("NFKD", folded).encode("ascii", "ignore").decode()
    readable = re.sub(r"[^a-z0-9_]+", "_", ascii_only).strip("_")[:_READABLE] or "name"
    # surrogatepass: a name with a lone surrogate is odd, but it is a name.
    digest = hashlib.blake2b(folded.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()
    return f"{readable}~{digest}"


def source_log_name(name: str, incarnation: int) -> str:
    """Return the name under which Spark remembers how far a source was read: letters, digits and _ only.

    A source that was dropped and made again has another one, and so is read from its start.

    >>> source_log_name("S", 0), source_log_name("s", 2)
    ('s_73', 's_73_2')
    """
    own = "s_" + name.casefold().encode().hex()
    return f"{own}_{incarnation}" if incarnation else own
