"""Where the socket of a server is: in a folder of the user's own, under a name made from the store's path.

The path of a Unix socket has room for about a hundred bytes, and a store may have a longer path, or lie in
an object store. Who may ask is a matter of the file system: the folder and the socket are the user's alone.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from pathlib import Path

from everview.errors import StoreError

_LONGEST = 103  # bytes: what macOS has room for; Linux has 107
_ONLY_OWNER = 0o700


def socket_path(store: str) -> Path:
    """Return the path of the socket of a store's server, whether or not there is one."""
    whole = store.rstrip("/") if "://" in store else os.path.realpath(os.path.expanduser(store))
    name = hashlib.sha256(os.fsencode(whole)).hexdigest()[:24]
    for folder in _folders():
        path = folder / f"{name}.sock"
        if len(os.fsencode(path)) <= _LONGEST:
            return path
    raise StoreError(
        f"the folder for temporary files, {tempfile.gettempdir()}, has too long a path for a socket",
        next_step="set XDG_RUNTIME_DIR or TMPDIR to a shorter one",
    )


def _folders() -> list[Path]:
    """Return the folders in which a socket may be, the preferred one first."""
    own = Path(tempfile.gettempdir()) / f"everview-{os.getuid()}"
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    # After `su` the variable may still name the folder of another user.
    usable = runtime is not None and os.path.isdir(runtime) and os.stat(runtime).st_uid == os.getuid()
    return [Path(runtime) / "everview", own] if runtime is not None and usable else [own]


def make_folder(folder: Path) -> None:
    """Make the folder of a socket, unless it is there; raise an error if others could use it."""
    try:
        folder.mkdir(mode=_ONLY_OWNER)
    except FileExistsError:
        pass
    except OSError as error:
        raise StoreError(
            f"the folder {folder} for the socket of the server cannot be made: {error.strerror}",
            next_step="set XDG_RUNTIME_DIR to a folder of your own",
        ) from error
    require_own_folder(folder)


def require_own_folder(folder: Path) -> None:
    """Raise an error if a folder is not the user's own, or if others may enter it."""
    found = folder.lstat()
    own = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
    if own and stat.S_IMODE(found.st_mode) == _ONLY_OWNER:
        return
    if own:
        why, step = f"has mode {stat.S_IMODE(found.st_mode):04o}, not 0700", f"chmod 700 {folder}"
    else:
        why, step = "is not a folder of yours", "set XDG_RUNTIME_DIR to a folder of your own"
    raise StoreError(f"{folder}, where the socket of a server lies, {why}", next_step=step)
